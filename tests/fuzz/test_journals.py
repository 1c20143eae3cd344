"""A damaged search is refused, or is read as it was."""

from collections import Counter

import pytest

pytest.importorskip("optuna")

from tests.fuzz.journals import assault


def test_no_damaged_or_foreign_journal_or_database_is_read_as_another_search(tmp_path):
    outcomes = list(assault(tries=300, seed=0, folder=tmp_path))
    assert [outcome for outcome in outcomes if outcome.is_defect] == []
    kinds = Counter(outcome.kind for outcome in outcomes)
    assert kinds["refused"] > 100
    assert kinds["accepted"] > 10  # it does read what is not damaged
