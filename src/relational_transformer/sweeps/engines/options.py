"""Which engine, as a user says it."""

from dataclasses import dataclass
from typing import Literal

import torch

from relational_transformer.training.devices import find_device

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
    together: int = 1
    """This machine: fleets of CLRS-30 side by side in each process, which fill a GPU better than one."""
    address: str = "auto"
    """Ray: where the cluster is, such as 10.0.0.1:6379; auto is the one that this machine belongs to."""
    cpus_per_run: int = 1
    """Ray: cores that a run takes."""
    gpus_per_run: float = 1.0
    """Ray: GPUs that a run takes, where there are any; 0.5 puts two runs on one."""
    checkpoint_seconds: float = 60.0
    """A run saves itself about so often; what it did since is lost with its machine."""


def open_engine(options: EngineOptions) -> Engine:
    """The engine that the options describe; says what is not there."""
    if options.cpus_per_run < 1 or options.gpus_per_run <= 0:
        raise ValueError(
            f"a run takes a core and some of a GPU, not {options.cpus_per_run} and {options.gpus_per_run:g}"
        )
    if options.engine == "ray":
        return RayEngine(
            options.address, options.device, options.cpus_per_run, options.gpus_per_run, options.checkpoint_seconds
        )
    if options.processes < 1 or options.together < 1:
        raise ValueError(f"at least one run must be trained at a time, got {options.processes * options.together}")
    devices = local_devices() if options.device == "auto" else (str(find_device(options.device)),)
    return LocalEngine(devices * options.processes, options.together, options.checkpoint_seconds)


def local_devices() -> tuple[str, ...]:
    """All GPUs of this machine, or its CPU."""
    return tuple(f"cuda:{number}" for number in range(torch.cuda.device_count())) or ("cpu",)
