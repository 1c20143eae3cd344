"""The guide to a task of one's own: its example trains, goes on after a stop, and the page shows what runs."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

from relational_transformer.runs import RunFolder, Trainer, train

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "add_a_task.py"
PAGE = REPOSITORY / "docs" / "add-a-task.md"


def test_the_example_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--out", str(tmp_path / "run"), "--seeds", "2", "--steps", "100"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    found = re.search(r"test: ([\d.]+) ([\d.]+); predicting the mean gives ([\d.]+)", capsys.readouterr().out)
    assert found is not None
    *errors, guess = map(float, found.groups())
    assert max(errors) < 0.6 * guess


def test_its_runs_go_on_to_the_same_bits_and_seeds_do_not_know_of_each_other(tmp_path: Path):
    names, device = runpy.run_path(str(EXAMPLE)), torch.device("cpu")
    config = names["PointsConfig"]((0, 5), steps=60)
    whole = train(names["PointsTask"](config), tmp_path / "whole", device)
    with RunFolder(tmp_path / "stopped").opened(config.as_dict()) as folder:
        trainer = Trainer(names["PointsTask"](config), folder, device)
        for _ in trainer.run():
            if trainer.steps >= 20:
                break
        trainer.save()
    assert trainer.part == 0, "stopped in the middle of a part"
    assert train(names["PointsTask"](config), tmp_path / "stopped", device)["seeds"] == whole["seeds"]
    alone = train(names["PointsTask"](names["PointsConfig"]((5,), steps=60)), tmp_path / "alone", device)
    assert alone["seeds"][0]["test"] == pytest.approx(whole["seeds"][1]["test"], rel=1e-3)


def test_the_page_shows_the_code_of_the_example():
    example = EXAMPLE.read_text()
    blocks = PAGE.read_text().split("```python\n")[1:]
    shown = [block.split("```")[0] for block in blocks if "TASKS" not in block.split("```")[0]]
    assert len(shown) == 3
    assert [block for block in shown if block not in example] == []
