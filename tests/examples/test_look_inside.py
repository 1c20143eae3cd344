import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")

from tests.training.small import PROTOCOL, SETTINGS, run_to_the_end, small_config


def test_a_run_is_loaded_and_drawn(tmp_path: Path, run_example: Callable[..., str]):
    settings, protocol = replace(SETTINGS, num_layers=2), replace(PROTOCOL, examples=12)
    config = small_config(task="bellman_ford", seeds=(0,), settings=settings, protocol=protocol)
    run_to_the_end(config, tmp_path / "run")
    printed = run_example("look_inside.py", tmp_path / "run", "--nodes", 5, "--out", tmp_path / "inside.png")
    assert re.search(r"right predecessors: [0-5] of 5\nlayer 1: .*%, \d+%\nlayer 2: .*%, \d+%\n", printed)
    assert (tmp_path / "inside.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("processor", "message"),
    [("mpnn", "this Network contains no relational attention"), (None, "is not a run folder: it has no config.json")],
)
def test_what_cannot_be_shown_is_told_in_one_line(
    tmp_path: Path,
    run_example: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    processor: str | None,
    message: str,
):
    if processor is not None:
        settings = replace(SETTINGS, processor=processor, pointers_from_edges=False)
        protocol = replace(PROTOCOL, examples=12)
        run_to_the_end(small_config(task="bellman_ford", seeds=(0,), settings=settings, protocol=protocol), tmp_path)
    with pytest.raises(SystemExit, match="2"):
        run_example("look_inside.py", tmp_path, "--out", tmp_path / "inside.png")
    assert message in capsys.readouterr().err.splitlines()[-1]
