"""Runs of all tasks that are killed and stopped at exact points end with the same bits."""

import shutil
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from tests.torture.__main__ import torture
from tests.torture.tiny_runs import COMMANDS, PARTS, differences, parts_saved, start, train
from tests.traps.trap import Traps

STOPS = dict.fromkeys(("clrs", "qm9"), signal.SIGINT) | dict.fromkeys(("modern", "lobster", "sokoban"), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("task", COMMANDS)
def test_a_run_that_is_killed_and_stopped_goes_on_to_the_same_bits(task: str, tmp_path: Path, traps: Traps):
    expected, out, done = tmp_path / "undisturbed", tmp_path / "run", [0]
    train(task, expected)
    for name, number, sent in (
        ("metrics.jsonl", 4, signal.SIGKILL),
        ("checkpoint.safetensors", 6, signal.SIGKILL),  # the one before it has been put aside
        ("metrics.jsonl", 5, STOPS[task]),
    ):
        trap = traps.lay(out / name, number, sent)
        process = start(task, out)
        _, errors = process.communicate()
        assert trap.is_sprung, errors
        assert process.returncode == (-sent if sent == signal.SIGKILL else 130)
        assert "Traceback" not in errors
        done.append(parts_saved(out))
    assert f"stopped by {STOPS[task].name}" in errors
    assert all(before < after < PARTS for before, after in pairwise(done)), f"it began anew: {done}"
    train(task, out)
    assert differences(out, expected) == []


@pytest.mark.slow
def test_torture_kills_as_often_as_asked_and_notices_what_differs(tmp_path: Path):
    tally = torture("lobster", 2, 0, tmp_path)
    assert (tally.kills.total(), tally.failures) == (2, [])
    assert tally.compared >= 1
    expected, out = tmp_path / "lobster-undisturbed", tmp_path / "changed"
    shutil.copytree(expected, out)
    metrics = out / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-1] + b" ")
    (out / ".checkpoint.safetensors.4711.writing").touch()
    assert differences(out, expected) == ["metrics.jsonl", ".checkpoint.safetensors.4711.writing"]
