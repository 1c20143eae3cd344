"""Runs that are killed, stopped, starved of disk or damaged."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from relational_transformer.fleet.precision import PART_OF_A_DEVICE, check_whole_device, find_device
from relational_transformer.runs import RunFolder
from relational_transformer.runs import checkpoint as checkpoints
from tests.training.small import SETTINGS, make_trainer, run_to_the_end, small_config, train_run

ARGUMENTS = [
    "train",
    "bfs",
    "--seeds",
    "2",
    "--protocol",
    "quick",
    "--hidden-size",
    "8",
    "--num-heads",
    "2",
    "--num-layers",
    "1",
    "--train-examples",
    "20",
    "--examples",
    "160",
    "--validation-interval",
    "4",
    "--test-nodes",
    "7",
    "--compile",
    "off",
    "--device",
    "cpu",
    "--checkpoint-seconds",
    "0",
]
PARTS = 40
"""Of the run above: a validation, and a checkpoint, after every 4 of its 160 examples."""


def rt(out: Path) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "relational_transformer.cli", *ARGUMENTS, "--out", str(out)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process: subprocess.Popen) -> None:
    while not condition() and process.poll() is None:
        time.sleep(0.01)


def parts_saved(out: Path) -> int:
    metrics = out / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def seeds_of(out: Path) -> list[dict]:
    return json.loads((out / "result.json").read_text())["seeds"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    process = rt(out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return out


@pytest.mark.slow
def test_sigkill_at_random_moments_changes_no_bit(tmp_path, undisturbed):
    out, moment, done = tmp_path / "run", random.Random(0), [0]
    for number in range(5):
        process = rt(out)
        if number > 0:  # the first may be killed before it has done anything
            wait_for(lambda: parts_saved(out) > done[-1], process)
        time.sleep(moment.uniform(0.0, 0.15))
        process.kill()
        process.communicate()
        done.append(parts_saved(out))
    assert all(before < after < PARTS for before, after in pairwise(done[1:])), f"killed when it did nothing: {done}"
    process = rt(out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert seeds_of(out) == seeds_of(undisturbed)
    ours, expected = (checkpoints.read_checkpoint(path / "checkpoint.safetensors")[0] for path in (out, undisturbed))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(ours[name], expected[name]) for name in ours)
    assert (out / "metrics.jsonl").read_text() == (undisturbed / "metrics.jsonl").read_text()
    assert not list(out.glob("*.writing"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_with_one_line(tmp_path, undisturbed, number: signal.Signals):
    out = tmp_path / "run"
    process = rt(out)
    wait_for((out / "checkpoint.safetensors").exists, process)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert f"stopped by {number.name}" in errors
    assert "Traceback" not in errors
    process = rt(out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert seeds_of(out) == seeds_of(undisturbed)


def stopped_run(path: Path, parts: int = 2) -> RunFolder:
    """A run that was left in the middle, with a checkpoint after each part."""
    config, folder = small_config(), RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        running = trainer.run()
        for _ in range(parts):
            next(running)
            trainer.save()
    return folder


@pytest.mark.parametrize("damage", ["truncated", "edited", "empty"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(tmp_path, caplog, damage: str):
    _, expected = run_to_the_end(small_config(), tmp_path / "whole")
    folder = stopped_run(tmp_path / "run")
    content = bytearray(folder.checkpoint.read_bytes())
    if damage == "truncated":
        del content[len(content) // 2 :]
    elif damage == "edited":
        content[-5] ^= 0xFF
    else:
        content.clear()
    folder.checkpoint.write_bytes(content)
    _, result = run_to_the_end(small_config(), folder.path)
    assert "checkpoint.safetensors is damaged" in caplog.text
    assert result["seeds"] == expected["seeds"]


def test_a_damaged_checkpoint_never_takes_the_place_of_a_good_one(tmp_path, monkeypatch):
    folder, config = stopped_run(tmp_path / "run"), small_config()
    folder.checkpoint.write_bytes(folder.checkpoint.read_bytes()[:-5])

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device"):
            trainer.save()
    assert trainer.part == 1
    assert checkpoints.load_checkpoint(folder)[1]["part"] == 1


def test_what_killed_processes_left_is_removed(tmp_path):
    folder = stopped_run(tmp_path / "run")
    left = folder.path / ".checkpoint.safetensors.4711.writing"
    left.write_bytes(b"half")
    with folder.opened(small_config().as_dict()):
        assert not left.exists()


def test_killed_between_two_renames_the_checkpoint_before_is_used(tmp_path):
    _, expected = run_to_the_end(small_config(), tmp_path / "whole")
    folder = stopped_run(tmp_path / "run")
    folder.checkpoint.rename(folder.previous_checkpoint)
    _, result = run_to_the_end(small_config(), folder.path)
    assert result["seeds"] == expected["seeds"]


def test_a_full_disk_is_one_clear_line_and_loses_nothing(tmp_path, monkeypatch):
    folder = stopped_run(tmp_path / "run")
    before = folder.checkpoint.read_bytes()

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    config = small_config()
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        monkeypatch.setattr(checkpoints, "save_file", full)
        with pytest.raises(OSError, match=r"cannot write .*checkpoint\.safetensors: No space left on device"):
            trainer.save()
    assert folder.checkpoint.read_bytes() == before
    assert not list(folder.path.glob(".*writing"))


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OSError, match=r"cannot write to the run folder .*: Not a directory"),
        RunFolder(tmp_path / "file" / "run").opened({}),
    ):
        pass


def test_other_settings_in_an_old_folder_are_named(tmp_path):
    run_to_the_end(small_config(), tmp_path / "run")
    with pytest.raises(ValueError, match=r"seeds was \[0, 1\], is \[0, 1, 2\].*another --out"):
        run_to_the_end(small_config(seeds=(0, 1, 2)), tmp_path / "run")


@pytest.mark.parametrize("content", [b"[]", b"\xff\xfe", b"{"])
def test_damaged_files_of_a_run_are_named(tmp_path, content: bytes):
    folder = RunFolder(tmp_path)
    for path, read in ((folder.config, folder.read_config), (folder.result, folder.read_result)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path} is not readable"):
            read()


def test_a_result_without_seeds_is_none(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(ValueError, match=r"result.json tells of no seeds; delete it to test the run again"):
        train_run(small_config(), tmp_path)


def test_two_processes_do_not_work_on_one_run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with (
        folder.opened({}),
        pytest.raises(ValueError, match="is being worked on by another process"),
        RunFolder(tmp_path / "run").opened({}),
    ):
        pass


def test_a_finished_run_is_not_run_again(tmp_path):
    _, result = run_to_the_end(small_config(), tmp_path / "run")
    reports = []
    again = train_run(small_config(), tmp_path / "run", report=reports.append)
    assert again == json.loads(json.dumps(result))
    assert not reports


def test_a_model_that_cannot_be_built_leaves_no_folder(tmp_path):
    config = small_config(settings=replace(SETTINGS, num_heads=3))
    with pytest.raises(ValueError, match="num_heads must divide hidden_size=8"):
        train_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="device 'cuda:77' cannot be used here"):
        find_device("cuda:77")
    with pytest.raises(ValueError, match="device 'abacus' cannot be used here"):
        find_device("abacus")


def test_a_part_of_a_device_is_refused(monkeypatch):
    check_whole_device()
    monkeypatch.setenv(PART_OF_A_DEVICE, "60")
    with pytest.raises(ValueError, match="unset it"):
        check_whole_device()


def test_nothing_is_unpickled():
    source = Path(checkpoints.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text()
        assert "torch.load" not in text, path
        assert "import pickle" not in text, path
