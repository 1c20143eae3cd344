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

from relational_transformer.fleet.compiling import should_compile
from relational_transformer.fleet.precision import find_device
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.trainer import Trainer

from ..run import Run

MODULE = f"{__package__}.preparing"
NICENESS = 10
"""How much a process that prepares gives way to those that train, which launch steps and make examples meanwhile."""


class Preparation:
    """Prepares runs in their order, a limited number of processes at a time, one for each rehearsal of a run
    (`Task.rehearsals`), so that the first runs are ready early. A run that compiles nothing, or whose process fails,
    counts as ready: it compiles by itself.

    Args:
        begins: whether the first run begins at once: it is ready, and makes its first rehearsal itself meanwhile.

    >>> with Preparation([], torch.device("cpu"), processes=2) as preparation:
    ...     preparation.is_ready(Path("runs/of/another"))
    True
    """

    def __init__(
        self, runs: Sequence[Run], device: torch.device, processes: int, command: Sequence[str] = ("-m", MODULE),
        *, begins: bool = False,
    ) -> None:  # fmt: skip
        self.device, self.processes, self.command = device, processes, command
        compiling = [
            run for run in runs if not run.is_done and should_compile(run.config.compile, device, run.task.num_steps)
        ]
        self._begun = compiling[0].folder if begins and compiling else None
        rehearsals = [
            (run, number)
            for run in compiling
            for number in range(run.task.rehearsals)
            if number > 0 or run.folder != self._begun
        ]
        self._waiting = deque(rehearsals if processes else [])
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
        return folder == self._begun or all(run.folder != folder for run, _ in (*self._running, *self._waiting))

    def _go_on(self) -> None:
        for run, process in list(self._running):
            if process.poll() is not None:
                self._running.remove((run, process))
                _close(process)
                if process.returncode:
                    print(f"{run.name} was not compiled ahead (status {process.returncode})", file=sys.stderr)
        while self._waiting and len(self._running) < self.processes:
            run, rehearsal = self._waiting.popleft()
            self._running.append((run, self._start(run, rehearsal)))

    def _start(self, run: Run, rehearsal: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *self.command], stdin=subprocess.PIPE, text=True, env=self._environment,
            start_new_session=True,  # a Ctrl-C is for who gave the order
        )  # fmt: skip
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone already, which its exit status will tell
            order = {
                "run": run.as_dict(), "rehearsal": rehearsal, "device": str(self.device),
                "folder": mkdtemp(dir=self._place.name),
            }  # fmt: skip
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return process


def _close(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.wait()


def beside(run: Run, device: torch.device, command: Sequence[str] = ("-m", MODULE)) -> Preparation:
    """On a GPU, processes that prepare a run that begins at once."""
    cores = os.cpu_count() or 1
    processes = min(run.task.rehearsals, cores) - 1 if device.type == "cuda" else 0
    return Preparation([run], device, processes, command, begins=True)


def prepare(run: Run, device: torch.device, folder: Path, rehearsal: int | None = None) -> None:
    """Compile the functions of a run's training and validations, or of one of its rehearsals, which needs a folder in
    the place of the run's. Only the compiler's cache matters."""
    with RunFolder(folder).opened(run.config.as_dict()) as opened:
        Trainer(run.task, opened, device).rehearse(rehearsal)


def main() -> None:
    """Carry out the order."""
    order = json.loads(sys.stdin.readline())
    os.nice(NICENESS)
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    prepare(Run.from_dict(order["run"]), find_device(order["device"]), Path(order["folder"]), order["rehearsal"])


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
