"""What runs on lobster graphs cost."""

import pytest

from relational_transformer.lobster import SETTINGS
from relational_transformer.lobster.cost import _flop_of_graph as flop_of_graph
from relational_transformer.lobster.cost import flop
from relational_transformer.sweeps import Selection, cells_of, find_experiment


def cost(model: str, **selection) -> float:
    (cell,) = cells_of(find_experiment("lobster"), Selection(models=(model,), seeds=1, **selection))
    return flop(cell.config)


def test_a_layer_of_rt_is_its_products_counted_by_hand():
    """Queries and keys of an edge, 128 to 224 channels, and the four products of its update, a layer and a pair."""
    nodes, layers = 41, 30
    of_edge = 2 * 2 * 128 * 224 + 2 * (2 * 128 * 32 + 32 * 128 + 128 * 8 + 8 * 128)
    counted = flop_of_graph("rt", SETTINGS["rt"], nodes / 1.24)
    assert layers * nodes**2 * of_edge < counted < 1.5 * layers * nodes**2 * of_edge


def test_the_whole_schedule_costs_as_much_as_was_reckoned():
    """About 3e16 operations a seed with the values projected on every edge, of which we project their sum."""
    assert 1e16 < cost("rt") < 3e16


def test_the_baselines_cost_a_small_part_of_rt():
    assert 0 < cost("gcn") <= cost("gat") < 0.02 * cost("rt")


def test_half_the_graphs_cost_half():
    assert cost("gcn", examples=1_000_000) == pytest.approx(0.5 * cost("gcn"), rel=0.05)
