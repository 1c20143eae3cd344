"""What runs of Sokoban cost."""

import pytest

from relational_transformer.sokoban import AgentSettings
from relational_transformer.sokoban.cost import flop, flop_of_step
from relational_transformer.sweeps import Selection, cells_of, find_experiment


def test_a_step_of_the_transformer_is_what_was_reckoned():
    """0.19 GFLOP a forward pass at 33 nodes."""
    assert flop_of_step("transformer", AgentSettings()) == pytest.approx(0.19e9, rel=0.15)


def test_edges_cost_several_times_as_much():
    transformer, rt = (flop_of_step(model, AgentSettings()) for model in ("transformer", "rt"))
    assert 5 * transformer < rt < 20 * transformer


def test_cost_grows_with_steps_and_seeds():
    def cost(**selection) -> float:
        (cell,) = cells_of(find_experiment("sokoban"), Selection(models=("rt",), **selection))
        return flop(cell.config)

    assert cost(seeds=3, examples=2_000) == pytest.approx(6 * cost(seeds=1, examples=1_000))
