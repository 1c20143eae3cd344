"""The code of docs/sokoban.md runs, and its numbers are those of the code and of what was measured."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from relational_transformer.commands.report import BEGIN, END
from relational_transformer.sokoban import RECIPES, Agent, SokobanConfig, SplitsIdentity
from relational_transformer.sokoban.splits import BOXOBAN_TEST_DIGEST

REPOSITORY = Path(__file__).parents[2]
GUIDE = (REPOSITORY / "docs" / "sokoban.md").read_text()

sys.path.insert(0, str(REPOSITORY / "docs" / "tools"))

from sokoban_results import NOTHING, draw, text_of  # noqa: E402  # pyright: ignore[reportMissingImports]


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
    assert f"| {RECIPES['original'].size_classes} | {RECIPES['batched'].size_classes} |" in GUIDE


def test_the_results_of_the_guide_are_those_that_were_measured():
    assert GUIDE.partition(BEGIN)[2].partition(END)[0] == f"\n{text_of(REPOSITORY / 'results')}"


def write_run(
    folder: Path, model: str, tests: list[float | None], steps: int = 1_024_000, precision: str = "bf16"
) -> None:
    levels = SplitsIdentity(100_000, 1_000, "0123456789abcdef", BOXOBAN_TEST_DIGEST)
    recipe = replace(RECIPES["batched"], steps=steps)
    config = SokobanConfig(model, recipe, tuple(range(len(tests))), levels, precision=precision).as_dict()
    row = {"validation": 0.08, "test_greedy": 0.05, "test_of_last": 0.11}
    result = {
        "config": config,
        "levels": config["levels"],
        "seeds": [
            {"seed": seed, "failed": test is None, **(row if test is not None else dict.fromkeys(row)), "test": test}
            for seed, test in enumerate(tests)
        ],
        "hardware": "a GPU",
        "commit": "0123456789",
        "seconds": 200.0,
    }
    (folder / model).mkdir(parents=True)
    (folder / model / "result.json").write_text(json.dumps(result))
    rows = [
        {"examples": steps // 2 * part}
        | {name: [scale * part] * len(tests) for name, scale in (("loss", 0.1), ("validation", 0.04), ("reward", 0.01))}
        for part in (1, 2)
    ]
    (folder / model / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_a_short_run_is_told_as_one_beside_the_papers_numbers(tmp_path):
    assert text_of(tmp_path) == NOTHING
    write_run(tmp_path, "rt", [0.12, 0.10])
    write_run(tmp_path, "transformer", [0.06, None])
    text = text_of(tmp_path)
    assert "for **1,024,000 steps** a seed, 10.2% of the paper's ten million." in text
    assert "not what they reach. Recipe, levels and seeds of all are the same." in text
    assert "| Sokoban | RT | 2 | 89.00 ± 1.41" in text
    assert " | 29 | +60.00 [" in text
    assert "size classes 2, steps 1,024,000" in text
    assert "train levels 100,000" in text
    assert "num games 64" in text
    assert "precision bf16" in text
    assert "| RT | 0 | 1,024,000 | 8.0% | 12.0% | 5.0% | 11.0% | 10,240 |" in text
    assert "| Transformer | 1 | 1,024,000 | failed | failed | failed | failed | 10,240 |" in text
    draw(tmp_path, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("difference", [{"steps": 512_000}, {"precision": "tf32"}])
def test_agents_of_different_recipes_are_told_apart(tmp_path, difference: dict):
    write_run(tmp_path, "rt", [0.12])
    write_run(tmp_path, "transformer", [0.12], **difference)
    assert "**Their recipes differ.**" in text_of(tmp_path)
