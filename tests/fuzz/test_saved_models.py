from pathlib import Path

import pytest

from tests.fuzz.saved_models import assault

pytest.importorskip("safetensors")


def test_damaged_models_are_refused_in_a_sentence_or_are_the_same(tmp_path: Path):
    outcomes = list(assault(tries=300, seed=0, folder=tmp_path))
    defects = [outcome for outcome in outcomes if outcome.is_defect]
    assert not defects, "\n".join(f"{one.attempt}\n    {one.kind}: {one.detail}" for one in defects[:20])
    assert sum(outcome.kind == "refused" for outcome in outcomes) > 200
