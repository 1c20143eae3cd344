"""A Ray cluster as an engine: one run for each GPU, or CPU, on all machines of the cluster.

Ray places the runs and detects lost machines. Run folders are on storage that all machines share, so a lost run is
resumed elsewhere from its last checkpoint. Ray's own retries are off: the sweep counts failures.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relational_transformer.fleet.precision import find_device
from relational_transformer.passwords import hide_passwords

from ..execution import execute
from ..run import Run
from .engine import Ended

SECONDS_TO_APPEAR = 60.0
"""Seconds that a network file system may take to show a new file to other machines."""
SECONDS_TO_ANSWER = 10.0
"""Seconds that the head of a cluster may take to answer."""


class RayEngine:
    """Trains runs on the cluster at `address` ("auto" finds the cluster of this machine).

    A run takes `cpus` cores, and `gpus` GPUs if the cluster has any or `device` is cuda.
    """

    def __init__(
        self, address: str, device: str = "auto", cpus: int = 1, gpus: float = 1.0, checkpoint_seconds: float = 60.0
    ) -> None:
        self._ray = _connect(address)
        self.checkpoint_seconds = checkpoint_seconds
        has_gpus = self._ray.cluster_resources().get("GPU", 0) > 0
        self.device = ("cuda" if has_gpus else "cpu") if device == "auto" else device
        self._need: dict[str, float] = {"CPU": cpus, **({"GPU": gpus} if self.device.startswith("cuda") else {})}
        if self.slots < 1:
            self._ray.shutdown()
            need = " and ".join(f"{amount:g} {name}" for name, amount in self._need.items())
            message = f"no machine of the cluster at {address} has the {need} that a run takes"
            raise ValueError(hide_passwords(message, address))
        # A process for every run, as on one machine, so that its memory is freed when it ends.
        options = {"num_cpus": cpus, "num_gpus": self._need.get("GPU", 0), "max_retries": 0, "max_calls": 1}
        self._task = self._ray.remote(**options)(_execute)
        self._runs: dict[Any, Run] = {}

    @property
    def slots(self) -> int:
        """The number of runs that fit on the machines that are alive now."""
        machines = [machine["Resources"] for machine in self._ray.nodes() if machine["Alive"]]
        return sum(
            min(int(machine.get(name, 0) / amount) for name, amount in self._need.items()) for machine in machines
        )

    def submit(self, run: Run) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)  # a worker checks that it sees the same storage
        content = {**run.as_dict(), "folder": str(run.folder.absolute())}
        self._runs[self._task.remote(content, self.device, self.checkpoint_seconds)] = run

    def wait(self, seconds: float) -> list[Ended]:
        if not self._runs:
            return []
        ready, _ = self._ray.wait(list(self._runs), num_returns=1, timeout=seconds)
        return [self._judge(reference, self._runs.pop(reference)) for reference in ready]

    def stop(self) -> None:
        running = list(self._runs)
        for reference in reversed(running):  # waiting ones first, or they would start on freed slots
            self._ray.cancel(reference)  # like Ctrl-C: the run saves a checkpoint
        if running:
            self._ray.wait(running, num_returns=len(running))  # without a limit: all runs must be saved
        self._runs.clear()
        self.close()

    def close(self) -> None:
        self._ray.shutdown()

    def _judge(self, reference: Any, run: Run) -> Ended:
        from ray import exceptions

        try:
            self._ray.get(reference)
        except (exceptions.NodeDiedError, exceptions.ObjectLostError) as error:
            return Ended(run, error=_first_line(error), lost=True)
        except exceptions.RayTaskError as error:
            return Ended(run, error=f"{type(error.cause).__name__}: {_first_line(error.cause)}")
        except exceptions.RayError as error:
            return Ended(run, error=_first_line(error))
        if not _appears(lambda: run.is_done, SECONDS_TO_APPEAR):
            return Ended(
                run, error=f"its result is not in {run.folder}: --out must be a folder that all machines share"
            )
        return Ended(run)


def _execute(content: dict[str, Any], device: str, checkpoint_seconds: float) -> None:
    """What a worker of the cluster runs. The result is in the run folder."""
    run = Run.from_dict(content)
    check_shared(run.folder)
    execute(run, find_device(device), checkpoint_seconds)


def check_shared(folder: Path, patience: float = SECONDS_TO_APPEAR) -> None:
    """Refuse a folder that does not exist: the sweep has created it, so this machine has another storage."""
    if not _appears(folder.is_dir, patience):
        raise ValueError(f"{os.uname().nodename} sees no {folder}: --out must be a folder that all machines share")


def _appears(is_there: Callable[[], bool], patience: float) -> bool:
    """Whether `is_there` becomes true within `patience` seconds."""
    deadline = time.monotonic() + patience
    while not (found := is_there()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def _connect(address: str) -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a cluster needs Ray: pip install '.[cluster]' in a checkout") from None
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal() and "//" not in host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        message = f"there is no Ray cluster at {address!r}: {_first_line(error)}"
        raise ValueError(hide_passwords(message, address)) from None
    return ray


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
