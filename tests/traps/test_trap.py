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
IN_A_THREAD = f"""
import os, sys, threading, time
def replace_when_sprung():
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    exec({PROGRAM!r})
threading.Thread(target=replace_when_sprung, daemon=True).start()
open(sys.argv[1] + ".other", "w")
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


def test_what_a_thread_does_while_another_waits_in_a_trap_is_watched(traps: Traps, target: Path):
    waiting = traps.lay(target.with_name("file.other"), only_replacements=False)
    traps.lay(target, 3, signal.SIGKILL)
    command = [sys.executable, "-c", IN_A_THREAD, str(target), f"{waiting.path}.sprung"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert target.read_text() == "1"


def test_a_trap_that_another_process_springs_first_harms_nobody(traps: Traps, target: Path):
    """It is gone when this process comes to read it, or to spring it."""
    (traps.folder / "gone.trap").symlink_to("sprung")
    assert begin(target).wait() == 0
    program = "import sitecustomize, sys; [sitecustomize.spring(sys.argv[1], number) for number in (None, 9)]"
    assert subprocess.run([sys.executable, "-c", program, str(traps.folder / "1.trap")], check=False).returncode == 0
