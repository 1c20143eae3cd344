from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("tyro")
pytest.importorskip("optuna")

from relational_transformer.commands import available
from tests.fuzz.command_line import WORK, assault, attempt
from tests.gpu.test_exit import COMMANDS


def test_every_command_and_variant_is_attacked():
    variants = {f"{name}_{key}" for name, command in available().items() for key in command.variants}
    assert {*available(), *variants} == WORK.keys()


def test_odd_command_lines_are_refused_in_a_line_or_accepted(tmp_path: Path):
    outcomes = list(assault(tries=200, seed=0, folder=tmp_path))
    defects = [outcome for outcome in outcomes if outcome.is_defect]
    assert not defects, "\n".join(f"{one.attempt}\n    {one.kind}: {one.detail}" for one in defects[:20])
    kinds = Counter(outcome.kind for outcome in outcomes)
    assert kinds["refused"] > 80
    assert kinds["accepted"] > 10


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_of_the_tests_on_a_gpu_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    outcome = attempt(COMMANDS[name].replace("cuda", "cpu").replace("bf16", "tf32").split(), name)
    assert (outcome.kind, outcome.detail.startswith("begins ")) == ("accepted", True), outcome
