"""Which engine, as a user says it."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch

from relational_transformer.bounds import ABOVE_ZERO, check_bounds
from relational_transformer.fleet.precision import find_device

from .engine import Engine
from .local import LocalEngine
from .ray_cluster import RayEngine


@dataclass(frozen=True)
class EngineOptions:
    """Where runs are carried out."""

    engine: Literal["local", "ray"] = "local"
    """This machine, or a Ray cluster (docs/cluster.md)."""
    device: str = "auto"
    """cpu, cuda, cuda:1; auto takes all GPUs that there are, or else the CPU."""
    processes: int = 1
    """This machine: processes side by side on each device."""
    at_once: int | None = None
    """This machine: fleets side by side in each process; by default 8 of CLRS-30 on a GPU with the memory, else 1."""
    prepare: int | None = None
    """This machine: processes that compile runs ahead of their turn, beside each that trains several; by default all
    cores but two of its share on a GPU, else none."""
    address: str = "auto"
    """Ray: where the cluster is, such as 10.0.0.1:6379; auto is the one that this machine belongs to."""
    cpus_per_run: int = 1
    """Ray: cores that a run takes."""
    gpus_per_run: float = 1.0
    """Ray: GPUs that a run takes, where there are any; 0.5 puts two runs on one."""
    checkpoint_seconds: float = 60.0
    """A run saves itself about so often; what it did since is lost with its machine."""


MOST_AT_ONCE = 8
"""Fleets on one GPU where nothing else is asked for. More were not measured."""
CORES_OF_A_WORKER = 2
"""Kept free for a process that trains, of its share of the cores: one launches, one makes examples."""
BYTES_OF_A_FLEET = 10 * 2**30
"""What a fleet may well take. Most take less (docs/performance.md); what one will take is not known beforehand."""

BOUNDS = {
    **dict.fromkeys(("processes", "at_once", "cpus_per_run"), (1, 4_096)),
    "gpus_per_run": (ABOVE_ZERO, 4_096.0),
    "prepare": (0, 4_096),
    "checkpoint_seconds": (0.0, 1e9),
}
"""The least and the most that each may be."""

OF_ANOTHER = {"local": ("address", "cpus_per_run", "gpus_per_run"), "ray": ("processes", "at_once", "prepare")}
"""Options that an engine has no use for."""


def refuse(options: EngineOptions, names: Collection[str], where: str) -> None:
    """Say that options would be ignored, rather than ignore them.

    >>> refuse(EngineOptions(at_once=4), OF_ANOTHER["ray"], "with --engine ray")
    Traceback (most recent call last):
    ValueError: --at-once means nothing with --engine ray: leave it out
    """
    for one in fields(options):
        if one.name in names and getattr(options, one.name) != one.default:
            raise ValueError(f"--{one.name.replace('_', '-')} means nothing {where}: leave it out")


def check_options(options: EngineOptions) -> None:
    """Refuse what no machine could do, and what the engine would not look at."""
    refuse(options, OF_ANOTHER[options.engine], f"with --engine {options.engine}")
    check_bounds(options, BOUNDS)
    if options.engine == "local" and options.device != "auto":
        find_device(options.device)


def open_engine(options: EngineOptions) -> Engine:
    """The engine that the options describe; says what is not there."""
    check_options(options)
    if options.engine == "ray":
        return RayEngine(
            options.address, options.device, options.cpus_per_run, options.gpus_per_run, options.checkpoint_seconds
        )
    devices = local_devices() if options.device == "auto" else (str(find_device(options.device)),)
    at_once = options.at_once or max(1, min(fleets_that_fit(device) for device in devices) // options.processes)
    workers = devices * options.processes
    return LocalEngine(
        workers, at_once, options.checkpoint_seconds, only_small=options.at_once is None,
        prepare=processes_that_prepare(workers) if options.prepare is None else options.prepare,
    )  # fmt: skip


def local_devices() -> tuple[str, ...]:
    """All GPUs of this machine, or its CPU."""
    return tuple(f"cuda:{number}" for number in range(torch.cuda.device_count())) or ("cpu",)


def fleets_that_fit(device: str) -> int:
    """How many fleets to train at once on a device, judged by all the memory that it has; one on a CPU."""
    if torch.device(device).type != "cuda":
        return 1
    return max(1, min(MOST_AT_ONCE, torch.cuda.get_device_properties(device).total_memory // BYTES_OF_A_FLEET))


def processes_that_prepare(workers: Sequence[str]) -> int:
    """How many processes are to compile beside each of these, given by their devices."""
    on_gpus = all(torch.device(device).type == "cuda" for device in workers)
    return max(1, (os.cpu_count() or 1) // len(workers) - CORES_OF_A_WORKER) if on_gpus else 0
