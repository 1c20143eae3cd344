from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("tyro")
pytest.importorskip("optuna")

from relational_transformer.commands import available
from tests.fuzz.command_line import WORK, assault


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
