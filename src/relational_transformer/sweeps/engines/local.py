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

from ..run import Run
from .engine import Ended

LOG = "worker.log"
"""What a run's process said, in the folder of the run."""
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class _Working:
    run: Run
    device: str
    process: subprocess.Popen[str]


class LocalEngine:
    """Runs on the given devices; a device named twice takes two runs at a time."""

    def __init__(self, devices: Sequence[str], checkpoint_seconds: float = 60.0) -> None:
        if not devices:
            raise ValueError("at least one device is needed, got none")
        self.checkpoint_seconds = checkpoint_seconds
        self.slots = len(devices)
        self._free = deque(devices)
        self._waiting: deque[Run] = deque()
        self._working: list[_Working] = []

    def submit(self, run: Run) -> None:
        self._waiting.append(run)
        self._fill()

    def wait(self, seconds: float) -> list[Ended]:
        deadline = time.monotonic() + seconds
        while True:
            ended = [working for working in self._working if working.process.poll() is not None]
            if ended or not self._working or time.monotonic() >= deadline:
                break
            time.sleep(POLL_SECONDS)
        for working in ended:
            self._working.remove(working)
            self._free.append(working.device)
        self._fill()
        return [_judge(working) for working in ended]

    def stop(self) -> None:
        self._waiting.clear()
        for working in self._working:
            working.process.terminate()
        for working in self._working:
            working.process.wait()
            _close(working.process)
        self._working.clear()

    def close(self) -> None:
        """Nothing to let go of: every process has ended."""

    def _fill(self) -> None:
        while self._waiting and self._free:
            self._working.append(self._start(self._waiting.popleft(), self._free.popleft()))

    def _start(self, run: Run, device: str) -> _Working:
        order = {"run": run.as_dict(), "device": device, "checkpoint_seconds": self.checkpoint_seconds}
        run.folder.mkdir(parents=True, exist_ok=True)
        with (run.folder / LOG).open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is for the sweep, which then stops its workers
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone already, which its exit status will tell
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return _Working(run, device, process)

    def _environment(self) -> dict[str, str]:
        """Processes side by side share the cores, unless the environment says how."""
        threads = max(1, (os.cpu_count() or 1) // self.slots)
        return {"OMP_NUM_THREADS": str(threads), **os.environ}


def _judge(working: _Working) -> Ended:
    """What became of a run whose process has ended."""
    _close(working.process)
    status = working.process.returncode
    if status == 0 and working.run.is_done:
        return Ended(working.run)
    reason = f"killed by signal {-status}" if status < 0 else _last_line(working.run)
    return Ended(working.run, error=f"{reason} (see {working.run.folder / LOG})")


def _last_line(run: Run) -> str:
    lines = [line.strip() for line in (run.folder / LOG).read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "its process ended without a word"


def _close(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
