"""A trajectory whose shared parts are computed once: losses and gradients are those of the steps one by one."""

import pytest
import torch

from relational_transformer.nn import kernels
from relational_transformer.training.engine import MOST_SEEDS_THAT_SHARE, Engine
from relational_transformer.training.hoisted import plan
from relational_transformer.training.hoisted.tracing import trace
from tests.training.hoisted.engines import loss_and_gradient, make_engine

pytestmark = pytest.mark.usefixtures("uncompiled")


def step_by_step(engine: Engine) -> Engine:
    """The same engine, made to keep nothing: the steps are run one by one and computed again."""
    engine.recompute = True
    assert not engine.shares_steps
    return engine


@pytest.mark.parametrize(
    ("model", "task"),
    [
        *(("mpnn", "bfs"), ("mpnn", "dfs"), ("mpnn", "floyd_warshall"), ("pgn", "dfs"), ("pgn_masked", "bfs")),
        *(("transformer", "insertion_sort"), ("transformer", "segments_intersect"), ("transformer", "dfs")),
        *(("gat", "bfs"), ("gatv2", "insertion_sort"), ("deep_sets", "dfs")),
        *(("rt", "bfs"), ("rt", "floyd_warshall"), ("rt_core", "insertion_sort")),
    ],
)
def test_gradients_are_those_of_the_steps_one_by_one(model: str, task: str, side_by_side: bool):
    engine = make_engine(model, task)
    assert engine.shares_steps
    losses, gradient = loss_and_gradient(engine)
    true_losses, true_gradient = loss_and_gradient(step_by_step(engine))
    torch.testing.assert_close(losses, true_losses, rtol=1e-12, atol=0)
    blocks, true_blocks = engine.fleet.split(gradient), engine.fleet.split(true_gradient)
    largest = true_gradient.abs().max().item()
    for name, block in blocks.items():
        torch.testing.assert_close(
            block, true_blocks[name], rtol=1e-9, atol=1e-13 * largest, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_a_fleet_has_the_gradients_of_separate_seeds():
    together = make_engine("mpnn", "bfs", (0, 1))
    _, gradient = loss_and_gradient(together)
    blocks = together.fleet.split(gradient)
    for number, seed in enumerate((0, 1)):
        alone = make_engine("mpnn", "bfs", (seed,))
        alone.hints_of_step = together.hints_of_step
        _, of_one = loss_and_gradient(alone)
        for name, block in alone.fleet.split(of_one).items():
            torch.testing.assert_close(blocks[name][number] / (number + 1), block[0], rtol=1e-9, atol=1e-12)


def test_longer_and_shorter_trajectories_share_a_plan_and_so_do_other_fleets(monkeypatch):
    first, second = make_engine("deep_sets", "bfs"), make_engine("deep_sets", "bfs", (3, 4, 5))
    second.share_compiled(first)
    loss_and_gradient(first)
    monkeypatch.setattr(plan, "trace", None)  # nothing more is traced
    for one in (first, second):
        for num_hints in (2, 3):
            losses, gradient = loss_and_gradient(one, num_hints)
            one.recompute = True
            true_losses, true_gradient = loss_and_gradient(one, num_hints)
            one.recompute = False
            torch.testing.assert_close(losses, true_losses, rtol=1e-12, atol=0)
            torch.testing.assert_close(gradient, true_gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", ["mpnn", "transformer"])
def test_of_all_parameters_only_the_scores_of_pointers_go_through_the_steps(model: str, monkeypatch):
    monkeypatch.setattr("relational_transformer.training.hoisted.terms.FEW", 2 * 5 * 24)  # of nodes, not of edges
    engine = make_engine(model, "bfs")
    loss_and_gradient(engine)
    ((made, _),) = engine._hoisted._plans
    (others,) = made.pieces.step.graph.find_nodes(op="placeholder", target="others")
    (blocks,) = others.users
    assert blocks.args[1] == [engine.fleet.parameters["decoders.readouts.score.weight"].numel()]


@pytest.mark.parametrize("model", ["mpnn", "transformer"])
def test_in_bfloat16_they_are_as_close_to_float64_as_those_of_the_steps_one_by_one(model: str, monkeypatch):
    # Neither the network's own hints, which are decisions, nor the formulas that are compiled: rounding would differ.
    monkeypatch.setattr(plan, "trace", lambda function, tensors, _: trace(function, tensors, for_compiler=False))
    exact, engine = (make_engine(model, "bfs", precision=one, teacher_forcing=1.0) for one in ("fp64", "bf16"))
    _, true = loss_and_gradient(exact)
    _, found = loss_and_gradient(engine)
    _, one_by_one = loss_and_gradient(step_by_step(engine))
    error, allowed = ((gradient - true).norm() for gradient in (found, one_by_one))
    assert error <= 1.1 * allowed


def test_what_is_kept_for_the_weights_decides_about_recomputing(side_by_side: bool, monkeypatch):
    engine = make_engine("mpnn", "insertion_sort")
    needed = []
    monkeypatch.setattr(
        "relational_transformer.training.engine.is_too_much_to_keep", lambda size, _: needed.append(size)
    )
    engine._must_recompute()
    of_a_step = engine._hoisted.kept_bytes(1)
    ((made, _),) = engine._hoisted._plans
    kept = sum(8 * tensor.numel() for tensor in (*made.pieces.rows, *made.pieces.taps) if tensor.is_floating_point())
    assert of_a_step == (2 * kept if side_by_side else kept)
    engine._hoisted._plans.clear()
    monkeypatch.setattr(engine._hoisted, "kept_bytes", lambda steps: 0)
    engine._must_recompute()
    assert needed[0] - needed[1] == of_a_step * (max(engine.buckets) - 1)


def test_where_memory_is_short_steps_are_first_taken_one_by_one_and_then_computed_again(monkeypatch):
    engine = make_engine("mpnn", "insertion_sort")
    hoisted = []

    def is_too_much(size: float, device: torch.device) -> bool:
        hoisted.append(engine.shares_steps)
        return len(hoisted) < limit

    monkeypatch.setattr("relational_transformer.training.engine.is_too_much_to_keep", is_too_much)
    limit = 2
    assert not engine._must_recompute()
    assert hoisted == [True, False]
    assert not engine.shares_steps
    engine, hoisted, limit = make_engine("mpnn", "insertion_sort"), [], 3
    assert engine._must_recompute()


@pytest.mark.parametrize("model", ["mpnn", "transformer", "rt"])
def test_nothing_of_a_trajectory_outlives_it(shared, side_by_side: bool, model: str):
    engine = make_engine(model, "bfs")
    loss_and_gradient(engine)
    engine._forward(4)  # without a backward pass
    assert [one() for one in shared] == [None, None]


def test_fused_kernels_that_were_asked_for_take_their_steps_one_by_one():
    engine = make_engine("rt", "bfs")
    with kernels.use_kernels(True):
        assert not engine.shares_steps
    with kernels.use_kernels("auto"):
        assert engine.shares_steps


def test_many_seeds_take_their_steps_one_by_one():
    many = tuple(range(MOST_SEEDS_THAT_SHARE + 1))
    assert not make_engine("pgn", "bfs", many).shares_steps
    assert make_engine("pgn", "bfs", many[:-1]).shares_steps
