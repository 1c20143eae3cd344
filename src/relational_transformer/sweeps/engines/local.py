"""This machine as an engine: each run has a process of its own, or one process trains a queue of runs, several at a
time.

A process for each run takes seconds to start. But it frees the memory of the run when it ends, and a run that is killed
for taking too much memory stops no other. Small fleets share one process, because together they fill a GPU.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relational_transformer.files import check_replaceable
from relational_transformer.reading import open_regular, read_bytes
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.side_by_side import words_of_blame

from ..run import Run
from .engine import Ended

LOG = "worker.log"
"""The log of a process, in the folder of its first run."""
POLL_SECONDS = 0.05


def _text_of(log: Path) -> str:
    return read_bytes(log, most_bytes=sys.maxsize).decode(errors="replace")


@dataclass
class Worker:
    """A process and its device. `runs` are those without a result, in the order in which they begin."""

    runs: list[Run]
    device: str
    process: subprocess.Popen[str]
    log: Path
    is_shared: bool

    def how_it_ended(self) -> tuple[str | None, list[Run]]:
        """The error in one line, None where there was none, and the run that it comes from if the log names one."""
        status = self.process.returncode
        if status == 0:
            return None, []
        lines = [line.strip() for line in _text_of(self.log).splitlines() if line.strip()]
        blamed = [run for run in self.runs if lines and lines[-1] == words_of_blame(RunFolder(run.folder))]
        words = lines[:-1] if blamed else lines
        last_words = words[-1] if words else "its process ended without a message"
        return f"{f'killed by signal {-status}' if status < 0 else last_words} (see {self.log})", blamed

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class LocalEngine:
    """Trains runs on the given devices, with one process at a time on each. A device that is listed twice has two.

    With `at_once` above 1, a process takes its share of the runs of one kind and trains `at_once` of them at a time. If
    a run makes such a process fail, it is tried again alone, and the others continue together. If it is not known which
    run it was, all that were under way are tried alone. With `only_small`, runs of tasks that may need much memory have
    a process of their own. Beside each process that takes several runs, `prepare` others compile what the next of them
    need (`preparing.py`). No run begins after `begin_until` (`time.time()`).
    """

    def __init__(
        self, devices: Sequence[str], at_once: int = 1, checkpoint_seconds: float = 60.0, *, only_small: bool = False,
        prepare: int = 0, begin_until: float = math.inf,
    ) -> None:  # fmt: skip
        self.at_once, self.checkpoint_seconds, self.only_small = at_once, checkpoint_seconds, only_small
        self.prepare, self.begin_until = prepare, begin_until
        self.slots = len(devices) * at_once
        self.workers: list[Worker] = []
        self._free = deque(devices)
        self._waiting: deque[Run] = deque()
        self._alone: set[Path] = set()
        threads = max(1, (os.cpu_count() or 1) // len(devices))
        self._environment = {"OMP_NUM_THREADS": str(threads), **os.environ}

    def submit(self, run: Run) -> None:
        self._waiting.append(run)

    def wait(self, seconds: float) -> list[Ended]:
        if self._is_late and self._waiting:
            late, self._waiting = self._waiting, deque()
            return [Ended(run, not_begun=True) for run in late]
        while self._waiting and self._free:
            runs = self._next_runs()
            self.workers.append(self._start(runs, self._free.popleft()))
        deadline = time.monotonic() + seconds
        while not (ended := [verdict for worker in list(self.workers) for verdict in self._look_at(worker)]):
            if not self.workers or time.monotonic() >= deadline:
                return []
            time.sleep(POLL_SECONDS)
        return ended

    def stop(self) -> None:
        self._waiting.clear()
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.wait()
            worker.close()
        self.workers.clear()

    def close(self) -> None:
        """There is nothing to release: every process has ended."""

    @property
    def _is_late(self) -> bool:
        """Whether no run is to begin any more."""
        return time.time() > self.begin_until

    def _next_runs(self) -> list[Run]:
        """The runs of the next process: one run, or a share of those that can be trained together."""
        first = self._waiting[0]
        sharing = [run for run in self._waiting if run.kind == first.kind and self._may_share(run)]
        runs = sharing[:: len(self._free)] if self.at_once > 1 and self._may_share(first) else [first]
        self._waiting = deque(run for run in self._waiting if run not in runs)
        return runs

    def _may_share(self, run: Run) -> bool:
        return (run.task.is_small or not self.only_small) and run.folder not in self._alone

    def _start(self, runs: list[Run], device: str) -> Worker:
        order = {
            "runs": [run.as_dict() for run in runs],
            "device": device,
            "checkpoint_seconds": self.checkpoint_seconds,
            "at_once": self.at_once,
            "prepare": self.prepare if len(runs) > 1 else 0,
            "begin_until": self.begin_until,
        }
        log = runs[0].folder / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        check_replaceable(log)
        with open(open_regular(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW), "a") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
                env=self._environment,
                start_new_session=True,  # only the sweep gets Ctrl-C; it then stops its workers
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the process has ended already; its exit status says why
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return Worker(runs, device, process, log, is_shared=len(runs) > 1)

    def _look_at(self, worker: Worker) -> list[Ended]:
        """The runs of a process that have ended since the last call."""
        has_ended = worker.process.poll() is not None  # first, so that its results are all there
        done = [run for run in worker.runs if run.is_done]
        if done == worker.runs and not has_ended:
            return []  # wait until the process has ended
        worker.runs = [run for run in worker.runs if run not in done]
        ended = [Ended(run) for run in done]
        if has_ended:
            worker.close()
            self.workers.remove(worker)
            self._free.append(worker.device)
            ended += self._judge(worker)
        return ended

    def _judge(self, worker: Worker) -> list[Ended]:
        """The outcome of the runs that a process has left without a result."""
        error, blamed = worker.how_it_ended()
        if error is None and self._is_late:
            return [Ended(run, not_begun=True) for run in worker.runs]
        if not worker.is_shared:
            return [Ended(run, error or "it left no result") for run in worker.runs]
        suspects = blamed or worker.runs[: self.at_once]  # runs begin in order, so no other can have begun
        self._waiting.extendleft(run for run in reversed(worker.runs) if run not in suspects)
        self._alone |= {run.folder for run in suspects}
        why = "it failed beside others" if blamed else f"one of {len(suspects)} runs in a process failed"
        message = f"{why}, and is tried alone: {error or 'it left no result'}"
        return [Ended(run, message, lost=True) for run in suspects]
