"""Runs that are starved of disk or damaged, and what killed ones leave (tests/torture kills them)."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from relational_transformer.fleet.precision import PART_OF_A_DEVICE, check_whole_device, find_device
from relational_transformer.runs import RunFolder
from relational_transformer.runs import checkpoint as checkpoints
from relational_transformer.runs import task as tasks
from tests.training.small import SETTINGS, make_trainer, run_to_the_end, small_config, train_run


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
    assert checkpoints.read_checkpoint(folder.previous_checkpoint).progress["steps"] == 3


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
        monkeypatch.setattr(Path, "write_bytes", full)
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
        with pytest.raises(ValueError, match=f"^{path} is not .*; delete (it|the folder) to "):
            read()


def test_a_result_without_seeds_is_none(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(ValueError, match=r"result.json is not what .* \(config is missing\); delete it to test"):
        train_run(small_config(), tmp_path)


@pytest.mark.parametrize("name", ["result.json", ".lock", "metrics.jsonl", "checkpoint.safetensors", "config.json"])
@pytest.mark.parametrize("target", ["/dev/null", "../mine"])
def test_links_in_the_place_of_a_run_s_files_are_refused_and_not_followed(tmp_path, name: str, target: str):
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(target)
    with (
        pytest.raises(OSError, match=f"cannot write {tmp_path / 'run' / name}: it is a link; remove it"),
        RunFolder(tmp_path / "run").opened({}),
    ):
        pass
    assert mine.read_text() == "precious"
    assert Path("/dev/null").is_char_device()


def test_a_run_folder_may_be_a_link_itself(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to("elsewhere")
    with RunFolder(tmp_path / "run").opened({"task": "bfs"}):
        assert (tmp_path / "elsewhere" / "config.json").is_file()


def test_a_fifo_in_the_place_of_a_run_s_file_is_not_waited_for(tmp_path):
    for name in (".lock", "checkpoint.safetensors", "config.json"):
        path = tmp_path / name / name
        path.parent.mkdir()
        os.mkfifo(path)
        with pytest.raises(OSError, match=f"{path}: it is not a regular file"), RunFolder(path.parent).opened({}):
            pass


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


ARGUMENTS = (
    *("train", "bfs", "--protocol", "quick", "--seeds", "2", "--hidden-size", "8", "--num-heads", "2", "--num-layers"),
    *("1", "--train-examples", "20", "--validation-interval", "4", "--test-nodes", "7", "--device", "cpu"),
)


def test_a_finished_run_shows_its_result_without_metrics(tmp_path, caplog, capsys):
    from relational_transformer.cli import main

    arguments = [*ARGUMENTS, "--examples", "8", "--out", str(tmp_path / "run")]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "curves.png" in shown
    folder = RunFolder(tmp_path / "run")
    for damage in (lambda: folder.metrics.write_text('{"examples": 4}\n'), folder.metrics.unlink):
        damage()
        caplog.clear()
        assert main(arguments) == 0
        again = capsys.readouterr().out
        assert "mean" in again
        assert "curves.png" not in again
        assert "No curves are drawn: " in caplog.text
        assert str(folder.metrics) in caplog.text


def test_a_result_that_was_changed_or_is_of_another_run_is_told(tmp_path):
    run_to_the_end(small_config(), tmp_path / "run")
    run_to_the_end(small_config(seeds=(0, 2)), tmp_path / "other")
    folder = RunFolder(tmp_path / "run")
    text = folder.result.read_text()
    folder.result.write_text(text.replace('"failed": false', '"failed": true', 1))
    with pytest.raises(ValueError, match=f"{folder.result} is damaged .*; delete it to test the run again"):
        folder.read_result()
    folder.result.write_bytes((tmp_path / "other" / "result.json").read_bytes())
    with pytest.raises(ValueError, match=f"{folder.result} belongs to another run than {folder.config}"):
        folder.read_result()


def test_a_model_that_cannot_be_built_leaves_no_folder(tmp_path):
    config = small_config(settings=replace(SETTINGS, num_heads=3))
    with pytest.raises(ValueError, match="num_heads must divide hidden_size=8"):
        train_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seeds", [(0,), tuple(range(1000))])
def test_a_model_that_the_memory_does_not_hold_is_refused_before_anything_is_made(tmp_path, monkeypatch, seeds):
    """The model of the other tests fits once, and not a thousand times."""
    monkeypatch.setattr(tasks, "usable_bytes", lambda device: 2**20)
    settings = replace(SETTINGS, num_layers=10_000, hidden_size=4096, num_heads=1) if len(seeds) == 1 else SETTINGS
    told = rf"the model is too large: with its optimiser, for {len(seeds)} seeds, it takes more than the 0 GiB of cpu"
    with pytest.raises(ValueError, match=told):
        train_run(small_config(settings=settings, seeds=seeds), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train_run(small_config(), tmp_path / "run")


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
