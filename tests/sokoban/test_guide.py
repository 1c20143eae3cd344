"""The code of docs/sokoban.md runs, and its numbers are those of the code."""

import re
from pathlib import Path

from relational_transformer.sokoban import RECIPES, Agent

GUIDE = (Path(__file__).parents[2] / "docs" / "sokoban.md").read_text()


def test_the_code_of_the_guide_runs(capsys):
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(compile(block, "sokoban.md", "exec"), {})
    assert "torch.Size([256, 11])" in capsys.readouterr().out


def test_the_numbers_of_the_guide_are_those_of_the_code():
    for model in ("transformer", "rt"):
        assert f"{sum(parameter.numel() for parameter in Agent(model).parameters()):,} parameters" in GUIDE
    assert f"| {RECIPES['original'].num_updates:,} | {RECIPES['batched'].num_updates:,} |" in GUIDE
    assert f"| {RECIPES['original'].num_games} | {RECIPES['batched'].num_games} |" in GUIDE
    assert "| 1.6e-5 | 1.28e-4 |" in GUIDE
    assert (RECIPES["original"].learning_rate, RECIPES["batched"].learning_rate) == (1.6e-5, 1.28e-4)
