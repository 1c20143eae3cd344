"""The command line options that choose and configure an engine."""

import math
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch

from relational_transformer.bounds import ABOVE_ZERO, check_bounds
from relational_transformer.fleet.precision import Precision, PrecisionChoice, choose_precision, find_device

from .engine import Engine
from .local import LocalEngine
from .ray_cluster import RayEngine


@dataclass(frozen=True)
class EngineOptions:
    """Where runs are trained."""

    engine: Literal["local", "ray"] = "local"
    """This machine, or a Ray cluster (docs/cluster.md)."""
    device: str = "auto"
    """cpu, cuda or cuda:1; auto takes all GPUs, or the CPU if there is none."""
    processes: int = 1
    """local: the number of processes on each device."""
    at_once: int | None = None
    """local: the number of fleets that each process trains at once; by default 8 for CLRS-30 on a GPU with enough
    memory, else 1."""
    prepare: int | None = None
    """local: the number of processes that compile the next runs, for each process that trains several; by default on
    a GPU one for each core but two, else 0."""
    begin_within: float | None = None
    """local: begin no run later than this many seconds after the start; those under way are trained to their ends. The
    same command begins the others."""
    address: str = "auto"
    """ray: the address of the cluster, such as 10.0.0.1:6379; auto is the cluster of this machine."""
    cpus_per_run: int = 1
    """ray: CPU cores per run."""
    gpus_per_run: float = 1.0
    """ray: GPUs per run, if the cluster has any; 0.5 puts two runs on one GPU."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints of a run. If its machine is lost, the run resumes from the last one."""


MOST_AT_ONCE = 8
"""The largest default number of fleets on one GPU. More have not been measured."""
CORES_OF_A_WORKER = 2
"""Cores that are kept free for a process that trains: one for launching, one for making examples."""
BYTES_OF_A_FLEET = 10 * 2**30
"""The memory that one fleet is assumed to need. Most need less (docs/performance.md)."""

BOUNDS = {
    **dict.fromkeys(("processes", "at_once", "cpus_per_run"), (1, 4_096)),
    "gpus_per_run": (ABOVE_ZERO, 4_096.0),
    "prepare": (0, 4_096),
    "begin_within": (0.0, 1e9),
    "checkpoint_seconds": (0.0, 1e9),
}
"""The smallest and the largest valid value of each option."""

OF_ANOTHER = {
    "local": ("address", "cpus_per_run", "gpus_per_run"),
    "ray": ("processes", "at_once", "prepare", "begin_within"),
}
"""By engine, the options of the other engine."""


def refuse(options: EngineOptions, names: Collection[str], where: str) -> None:
    """Refuse options that would be ignored.

    >>> refuse(EngineOptions(at_once=4), OF_ANOTHER["ray"], "with --engine ray")
    Traceback (most recent call last):
    ValueError: --at-once has no effect with --engine ray: leave it out
    """
    for one in fields(options):
        if one.name in names and getattr(options, one.name) != one.default:
            raise ValueError(f"--{one.name.replace('_', '-')} has no effect {where}: leave it out")


def check_options(options: EngineOptions) -> None:
    """Refuse values out of bounds, and options that the engine would ignore."""
    refuse(options, OF_ANOTHER[options.engine], f"with --engine {options.engine}")
    check_bounds(options, BOUNDS)
    if options.engine == "local" and options.device != "auto":
        find_device(options.device)


def precision_on(options: EngineOptions, choice: PrecisionChoice) -> Precision:
    """The precision that a choice stands for where these options train runs; tf32 on a cluster, whose machines are not
    known here.

    >>> precision_on(EngineOptions(device="cpu"), "auto"), precision_on(EngineOptions("ray"), "auto")
    ('fp32', 'tf32')
    """
    if options.engine == "ray":
        return "tf32" if choice == "auto" else choice
    device = local_devices()[0] if options.device == "auto" else options.device
    return choose_precision(choice, find_device(device))


def open_engine(options: EngineOptions) -> Engine:
    """The engine that the options describe; ValueError where it cannot run here."""
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
        begin_until=math.inf if options.begin_within is None else time.time() + options.begin_within,
    )  # fmt: skip


def local_devices() -> tuple[str, ...]:
    """The names of all GPUs of this machine, or `cpu`."""
    return tuple(f"cuda:{number}" for number in range(torch.cuda.device_count())) or ("cpu",)


def fleets_that_fit(device: str) -> int:
    """The number of fleets to train at once on a device, by its total memory; one on a CPU."""
    if torch.device(device).type != "cuda":
        return 1
    return max(1, min(MOST_AT_ONCE, torch.cuda.get_device_properties(device).total_memory // BYTES_OF_A_FLEET))


def processes_that_prepare(workers: Sequence[str]) -> int:
    """The number of processes that compile for each of these, given by their devices."""
    on_gpus = all(torch.device(device).type == "cuda" for device in workers)
    return max(1, (os.cpu_count() or 1) // len(workers) - CORES_OF_A_WORKER) if on_gpus else 0
