"""The oracles that say what a relative loss means."""

import pytest

from relational_transformer.lobster import LobsterProtocol
from relational_transformer.lobster.oracle import equivalent_cap, meaning, oracle_loss

DISTANCES = LobsterProtocol(evaluation_examples=10_000).test_graphs().distances


@pytest.mark.parametrize(("cap", "expected"), [(14, 0.44), (23, 0.28), (28, 0.215), (30, 0.19)])
def test_capped_oracles_score_as_known_at_size_100(cap: int, expected: float):
    assert oracle_loss(DISTANCES, cap) == pytest.approx(expected, abs=0.01)


def test_trivial_predictors_bracket_every_oracle():
    assert oracle_loss(DISTANCES, 0) == 1.0
    assert oracle_loss(DISTANCES, DISTANCES.max()) == 0.0


@pytest.mark.parametrize("cap", [5.0, 28.0, 60.0])
def test_the_equivalent_cap_undoes_the_oracle(cap: float):
    assert equivalent_cap(DISTANCES, oracle_loss(DISTANCES, cap)) == pytest.approx(cap, abs=1e-3)


def test_no_oracle_is_worse_than_predicting_nothing():
    assert equivalent_cap(DISTANCES, 3.2) is None
    assert meaning(3.2, DISTANCES).startswith("3.200 is worse than predicting 0 for all, which gives 1.")
    assert "3.200" not in meaning(0.5, DISTANCES)
