from pathlib import Path

from tests.fuzz.api import assault


def test_wrong_arguments_are_refused_by_name_or_do_no_harm(tmp_path: Path):
    outcomes = list(assault(tries=1500, seed=0, folder=tmp_path))
    defects = [outcome for outcome in outcomes if outcome.is_defect]
    assert not defects, "\n".join(f"{one.attempt}\n    {one.kind}: {one.detail}" for one in defects[:20])
    kinds = {outcome.kind for outcome in outcomes}
    assert kinds == {"accepted", "refused"}


def test_the_same_seed_tries_the_same(tmp_path: Path):
    first, second = (list(assault(tries=60, seed=7, folder=tmp_path)) for _ in range(2))
    assert [outcome.kind for outcome in first] == [outcome.kind for outcome in second]
