"""A trap is sprung once, at its place, by a process that is watched."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.traps.trap import Trap, Traps

PROGRAM = """
import os, sys
for number in range(4):
    new = sys.argv[1] + ".new"
    open(new, "w").write(str(number))
    os.replace(new, sys.argv[1])
"""


def begin(target: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(target)], stderr=subprocess.DEVNULL)


def wait_until_sprung(trap: Trap, process: subprocess.Popen[bytes]) -> None:
    while not trap.is_sprung:
        assert process.poll() is None
        time.sleep(0.01)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_process_is_killed_before_it_replaces_a_file_and_the_next_one_is_not(traps: Traps, target: Path):
    trap = traps.lay(target, 3, signal.SIGKILL)
    assert (begin(target).wait(), target.read_text()) == (-signal.SIGKILL, "1")
    assert trap.is_sprung
    assert (begin(target).wait(), target.read_text()) == (0, "3")


def test_all_operations_on_a_file_and_on_what_replaces_it_may_count(traps: Traps, target: Path):
    traps.lay(target, 3, signal.SIGKILL, only_replacements=False)  # open, rename, open
    assert (begin(target).wait(), target.read_text()) == (-signal.SIGKILL, "0")


def test_a_process_waits_until_it_is_released(traps: Traps, target: Path):
    trap = traps.lay(target)
    process = begin(target)
    wait_until_sprung(trap, process)
    assert not target.exists()
    trap.release()
    assert (process.wait(), target.read_text()) == (0, "3")


def test_a_process_waits_for_a_signal(traps: Traps, target: Path):
    trap = traps.lay(target, 2)
    process = begin(target)
    wait_until_sprung(trap, process)
    process.send_signal(signal.SIGINT)
    assert process.wait() in (1, -signal.SIGINT)
    assert target.read_text() == "0"


def test_other_files_are_left_alone(traps: Traps, target: Path):
    trap = traps.lay(target.with_name("another"), 1, signal.SIGKILL, only_replacements=False)
    assert begin(target).wait() == 0
    assert not trap.is_sprung
