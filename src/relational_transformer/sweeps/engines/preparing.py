"""Compiling in advance: processes that fill the compiler's cache for runs that wait, while others train.

`python -m relational_transformer.sweeps.engines.preparing` is one of them. It reads its order from one line of JSON
on the standard input. The input stays open: when it closes, the sweep has ended, and the process ends.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import torch

from relational_transformer.fleet.precision import find_device
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.trainer import Trainer

from ..run import Run

MODULE = f"{__package__}.preparing"
NICENESS = 10
"""How much a process that prepares gives way to those that train, which launch steps and make examples meanwhile."""


class Preparation:
    """Prepares runs in their order, each by a process, a limited number at a time. A run that compiles nothing, or
    whose process fails, counts as ready: it compiles by itself.

    Args:
        begins: whether the first run begins at once, and so is not prepared.

    >>> with Preparation([], torch.device("cpu"), processes=2) as preparation:
    ...     preparation.is_ready(Path("runs/of/another"))
    True
    """

    def __init__(
        self, runs: Sequence[Run], device: torch.device, processes: int, command: Sequence[str] = ("-m", MODULE),
        *, begins: bool = False,
    ) -> None:  # fmt: skip
        self.device, self.processes, self.command = device, processes, command
        compiling = [run for run in runs if not run.is_done and run.task.is_compiled(device)]
        self._waiting = deque(compiling[int(begins) :] if processes else [])
        self._running: list[tuple[Run, subprocess.Popen[str]]] = []
        threads = max(1, (os.cpu_count() or 1) // max(1, processes))
        self._environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": str(threads)}

    def __enter__(self) -> "Preparation":
        # Here, and not where a run is prepared: a process that is killed removes nothing.
        self._place = TemporaryDirectory(prefix="rt-prepare-")
        self._go_on()
        return self

    def __exit__(self, *error: object) -> None:
        self._waiting.clear()
        for _, process in self._running:
            process.kill()
        for _, process in self._running:
            _close(process)
        self._running.clear()
        self._place.cleanup()

    def is_ready(self, folder: Path) -> bool:
        """Whether the run in a folder may begin."""
        self._go_on()
        return all(run.folder != folder for run in (*(run for run, _ in self._running), *self._waiting))

    def _go_on(self) -> None:
        for run, process in list(self._running):
            if process.poll() is not None:
                self._running.remove((run, process))
                _close(process)
                if process.returncode:
                    print(f"{run.name} was not compiled ahead (status {process.returncode})", file=sys.stderr)
        while self._waiting and len(self._running) < self.processes:
            run = self._waiting.popleft()
            self._running.append((run, self._start(run)))

    def _start(self, run: Run) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *self.command], stdin=subprocess.PIPE, text=True, env=self._environment,
            start_new_session=True,  # a Ctrl-C is for who gave the order
        )  # fmt: skip
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone already, which its exit status will tell
            order = {"run": run.as_dict(), "device": str(self.device), "folder": mkdtemp(dir=self._place.name)}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return process


def _close(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.wait()


def prepare(run: Run, device: torch.device, folder: Path) -> None:
    """Compile the functions of a run's training and validations, which needs a folder in the place of the run's. Only
    the compiler's cache matters."""
    with RunFolder(folder).opened(run.config.as_dict()) as opened:
        Trainer(run.task, opened, device).rehearse()


def main() -> None:
    """Carry out the order."""
    order = json.loads(sys.stdin.readline())
    os.nice(NICENESS)
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    prepare(Run.from_dict(order["run"]), find_device(order["device"]), Path(order["folder"]))


def _end_with_the_worker() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)
    # Not sys.exit: the thread may be reading the standard input, which the interpreter would want to close.
    os._exit(0)
