"""Checkpoints read again: what is damaged, or of another run, is never taken for what it is not."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, TypedDict

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from relational_transformer.runs.checkpoint import Trained, read_best, read_checkpoint, resume, save_checkpoint
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.training import CLRSTask
from tests.training.small import small_config

CONFIG = {"task": "bfs", "seeds": [0, 1]}


class Saved(TypedDict):
    steps: int
    seconds: float


def state_of(value: float) -> dict[str, Tensor]:
    kinds = {"values.weight": (2, 3, 4), "best.weight": (2, 3, 4), "best.bias": (2, 3)}
    finite = torch.tensor([True, False])
    return {**{name: torch.full(shape, float(value)) for name, shape in kinds.items()}, "finite": finite}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run with two checkpoints: all numbers are 2 in the one before, and 3 in the newest."""
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    for steps in (2, 3):
        save_checkpoint(folder, CONFIG, state_of(steps), {"steps": steps, "seconds": 0.5})
    return folder


def resumed(folder: RunFolder, **changed: Any) -> tuple[dict[str, Any] | None, float]:
    """How far the run was, and a number of its tensors."""
    state = changed.pop("state", state_of(0.0))
    asked = {"config": CONFIG, "progress": Saved, "at_most": {"steps": 5, "seconds": 100.0}, **changed}
    found = resume(folder, state=state, **asked)
    return found, next(iter(state.values())).flatten()[0].item()


def test_a_run_goes_on_from_the_newest_checkpoint(folder: RunFolder) -> None:
    assert resumed(folder) == ({"steps": 3, "seconds": 0.5}, 3.0)
    assert resumed(RunFolder(folder.path / "other")) == (None, 0.0)


def rewrite(path: Path, **metadata: str) -> None:
    """The same tensors with other words beside them."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        kept = file.metadata()
    save_file(tensors, path, metadata={**kept, **metadata})


def test_how_far_a_run_was_is_in_the_checksum(folder: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    rewrite(folder.checkpoint, progress=json.dumps({"steps": 1, "seconds": 0.5}))
    assert resumed(folder) == ({"steps": 2, "seconds": 0.5}, 2.0)
    damaged = f"{folder.checkpoint} is damaged (its checksum does not fit)"
    assert f"{damaged}; the checkpoint before it is used" in caplog.text
    assert (folder.path / "checkpoint.safetensors.damaged").is_file()


def test_any_bit_of_a_checkpoint_matters(folder: RunFolder) -> None:
    content = folder.checkpoint.read_bytes()
    length = int.from_bytes(content[:8], "little")
    for place in [*range(8, 8 + length, 7), *range(8 + length, len(content), 31)]:
        damaged = bytearray(content)
        damaged[place] ^= 1
        folder.checkpoint.write_bytes(damaged)
        with pytest.raises(ValueError, match=str(folder.checkpoint)):
            read_checkpoint(folder.checkpoint)


def misfit(tensors: dict[str, Tensor], progress: dict[str, Any], config: dict[str, Any] = CONFIG):
    return lambda folder: save_checkpoint(folder, config, tensors, progress)


FINE = {"steps": 3, "seconds": 0.5}
MISFITS = {
    r"task was heapsort, is bfs": misfit(state_of(4), FINE, {**CONFIG, "task": "heapsort"}),
    r"more is float32 \[1\], expected None": misfit({**state_of(4), "more": torch.zeros(1)}, FINE),
    r"best.bias is float32 \[3, 2\], expected float32 \[2, 3\]": misfit(
        {**state_of(4), "best.bias": torch.zeros(3, 2)}, FINE
    ),
    r"finite is uint8 \[2\], expected bool \[2\]": misfit(
        {**state_of(4), "finite": torch.zeros(2, dtype=torch.uint8)}, FINE
    ),
    r"steps is 6, expected 0 to 5": misfit(state_of(4), {**FINE, "steps": 6}),
    r"steps is -1, expected 0 to 5": misfit(state_of(4), {**FINE, "steps": -1}),
    r"steps is a number, not an integer": misfit(state_of(4), {**FINE, "steps": 1.0}),
    r"seconds is missing": misfit(state_of(4), {"steps": 3}),
    r"not a checkpoint of this version": lambda folder: rewrite(folder.checkpoint, format="1"),
    r"damaged": lambda folder: os.truncate(folder.checkpoint, 300),
    r"damaged \(Error": lambda folder: folder.checkpoint.write_bytes(bytes(folder.checkpoint.stat().st_size)),
    r"not a regular file": lambda folder: (folder.checkpoint.unlink(), os.mkfifo(folder.checkpoint)),
    r"a regular file": lambda folder: (folder.checkpoint.unlink(), folder.checkpoint.mkdir()),
}


@pytest.mark.parametrize("words", MISFITS)
def test_what_does_not_fit_is_told_and_put_aside_and_the_one_before_is_used(
    folder: RunFolder, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = folder.path / "before"
    shutil.copy(folder.previous_checkpoint, before)
    MISFITS[words](folder)
    before.rename(folder.previous_checkpoint)
    assert resumed(folder) == ({"steps": 2, "seconds": 0.5}, 2.0)
    (record,) = caplog.records
    remedy = "the checkpoint before it is used if there is one"
    assert re.fullmatch(f"{folder.checkpoint} is .*{words}.*; {remedy}", record.message)
    assert not os.path.lexists(folder.checkpoint)
    assert os.path.lexists(f"{folder.checkpoint}.damaged")


def test_where_no_checkpoint_fits_the_run_begins_and_nothing_is_lost(folder: RunFolder) -> None:
    assert resumed(folder, config={**CONFIG, "seeds": [0, 2]}) == (None, 0.0)
    assert sorted(path.name for path in folder.path.glob("*.damaged")) == [
        "checkpoint.previous.safetensors.damaged",
        "checkpoint.safetensors.damaged",
    ]


def model() -> nn.Module:
    return nn.Linear(4, 3, device="meta")


def test_the_best_parameters_are_told_from_the_rest(folder: RunFolder) -> None:
    best, others = read_best(folder, CONFIG, model(), 2)
    assert best.keys() == {"weight", "bias"}
    assert torch.equal(best["weight"], torch.full((2, 3, 4), 3.0))
    assert others.keys() == {"values.weight", "finite"}


def test_parameters_of_other_shapes_are_not_the_best_of_a_model(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match=f"there is no readable checkpoint in {folder.path}"):
        read_best(folder, CONFIG, nn.Linear(3, 3, device="meta"), 2)


def test_a_folder_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"there is no readable checkpoint in {tmp_path}"):
        read_best(RunFolder(tmp_path), CONFIG, model(), 2)


def test_a_run_without_a_result_may_be_read_from_the_checkpoint_before_which_is_said(
    folder: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.checkpoint.unlink()
    best, _ = read_best(folder, CONFIG, model(), 2)
    assert best["weight"].unique().tolist() == [2.0]
    assert f"The scores are those of {folder.previous_checkpoint}" in caplog.text


def finish(folder: RunFolder) -> None:
    folder.config.write_text(json.dumps(CONFIG))
    folder.write_metrics([])
    folder.write_result({"config": CONFIG, "seeds": [], "hardware": "none"})


def test_the_checkpoint_of_a_result_is_read_or_none(folder: RunFolder) -> None:
    finish(folder)
    assert read_best(folder, CONFIG, model(), 2)[0]["weight"].unique().tolist() == [3.0]
    shutil.copy(folder.previous_checkpoint, folder.checkpoint)
    with pytest.raises(ValueError, match=f"{folder.checkpoint} is not the one that {folder.result} was made with"):
        read_best(folder, CONFIG, model(), 2)
    folder.checkpoint.write_bytes(bytes(1000))
    with pytest.raises(ValueError, match=f"{folder.checkpoint} is damaged .*: delete {folder.result} and run rt train"):
        read_best(folder, CONFIG, model(), 2)
    folder.checkpoint.unlink()
    with pytest.raises(ValueError, match=f"{folder.checkpoint}, which {folder.result} was made with, is missing"):
        read_best(folder, CONFIG, model(), 2)


def test_a_seed_is_chosen_among_those_that_did_not_fail(tmp_path: Path) -> None:
    trained = Trained(RunFolder(tmp_path), CLRSTask(small_config()), {"weight": torch.zeros(2, 3)}, [False, True])
    assert trained.number_of(None) == trained.number_of(1) == 1
    with pytest.raises(ValueError, match=f"seed 0 of the run in {tmp_path} failed"):
        trained.number_of(0)
    with pytest.raises(ValueError, match=r"has the seeds \[0, 1\], not 7"):
        trained.number_of(7)
    with pytest.raises(ValueError, match=f"all seeds of the run in {tmp_path} failed"):
        trained._replace(good=[False, False]).number_of(None)
