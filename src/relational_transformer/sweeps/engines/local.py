"""This machine as an engine: every run in a process of its own, some at a time.

A process for each run costs seconds and gives them back: the memory of a run is free when it ends, and one that is
killed for taking too much takes no other with it.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..execution import can_share
from ..run import Run
from .engine import Ended

LOG = "worker.log"
"""What a process said, in the folder of its (first) run."""
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Worker:
    """A process, what it trains and where."""

    runs: tuple[Run, ...]
    device: str
    process: subprocess.Popen[str]

    @property
    def log(self) -> Path:
        return self.runs[0].folder / LOG

    def how_it_ended(self) -> str | None:
        """Why it failed, in one line; None where it did not."""
        status = self.process.returncode
        if status == 0:
            return None
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        last_words = lines[-1] if lines else "its process ended without a word"
        return f"{f'killed by signal {-status}' if status < 0 else last_words} (see {self.log})"

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class LocalEngine:
    """Runs on the given devices, a process at a time on each; a device named twice has two.

    With `together`, a process takes several runs of one kind and trains them side by side. Where one of them brings
    such a process down, the others are not to blame: each is tried again alone.
    """

    def __init__(self, devices: Sequence[str], together: int = 1, checkpoint_seconds: float = 60.0) -> None:
        self.together, self.checkpoint_seconds = together, checkpoint_seconds
        self.slots = len(devices) * together
        self.workers: list[Worker] = []
        self._free = deque(devices)
        self._waiting: deque[Run] = deque()
        self._alone: set[Path] = set()
        threads = max(1, (os.cpu_count() or 1) // len(devices))
        self._environment = {"OMP_NUM_THREADS": str(threads), **os.environ}

    def submit(self, run: Run) -> None:
        self._waiting.append(run)

    def wait(self, seconds: float) -> list[Ended]:
        while self._waiting and self._free:
            self.workers.append(self._start(self._next_runs(), self._free.popleft()))
        deadline = time.monotonic() + seconds
        while not (ended := [worker for worker in self.workers if worker.process.poll() is not None]):
            if not self.workers or time.monotonic() >= deadline:
                return []
            time.sleep(POLL_SECONDS)
        for worker in ended:
            worker.close()
            self.workers.remove(worker)
            self._free.append(worker.device)
        return [verdict for worker in ended for verdict in self._judge(worker)]

    def stop(self) -> None:
        self._waiting.clear()
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.wait()
            worker.close()
        self.workers.clear()

    def close(self) -> None:
        """Nothing to let go of: every process has ended."""

    def _next_runs(self) -> tuple[Run, ...]:
        """What the next process is to train."""
        runs = [self._waiting.popleft()]
        while self._waiting and len(runs) < self.together and self._share_a_process(runs[0], self._waiting[0]):
            runs.append(self._waiting.popleft())
        return tuple(runs)

    def _share_a_process(self, one: Run, other: Run) -> bool:
        return one.kind == other.kind and can_share(one) and not self._alone & {one.folder, other.folder}

    def _start(self, runs: tuple[Run, ...], device: str) -> Worker:
        order = {
            "runs": [run.as_dict() for run in runs],
            "device": device,
            "checkpoint_seconds": self.checkpoint_seconds,
        }
        runs[0].folder.mkdir(parents=True, exist_ok=True)
        with (runs[0].folder / LOG).open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the sweep, which then stops its workers
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone already, which its exit status will tell
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return Worker(runs, device, process)

    def _judge(self, worker: Worker) -> list[Ended]:
        """What became of the runs of a process that has ended."""
        error = worker.how_it_ended()
        if error is not None and len(worker.runs) > 1:
            self._alone |= {run.folder for run in worker.runs}
            error = f"one of {len(worker.runs)} runs in a process failed, each is tried alone: {error}"
        return [
            Ended(run) if run.is_done else Ended(run, error or "it left no result", lost=len(worker.runs) > 1)
            for run in worker.runs
        ]
