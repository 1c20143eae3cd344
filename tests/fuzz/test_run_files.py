"""Damaged runs, data and levels are refused, or are what they were."""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("safetensors")

from tests.fuzz.run_files import assault


def test_no_damaged_file_of_a_run_is_taken_for_what_it_is_not(tmp_path: Path):
    outcomes = list(assault(tries=200, seed=0, folder=tmp_path))
    defects = [outcome for outcome in outcomes if outcome.is_defect]
    assert not defects, "\n".join(f"{one.attempt}\n    {one.kind}: {one.detail}" for one in defects[:20])
    kinds = Counter(outcome.kind for outcome in outcomes)
    assert kinds["refused"] > 30
    assert kinds["accepted"] > 30  # it does read what is not damaged
