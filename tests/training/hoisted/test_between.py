"""What lies between layers, its shared part differentiated once: the same losses and gradients, whatever the layers."""

import pytest
import torch

from relational_transformer.training import engine
from relational_transformer.training.engine import Engine
from relational_transformer.training.hoisted import plan
from relational_transformer.training.kernel_layers import KernelLayers, LaidOut
from tests.training.hoisted import engines
from tests.training.hoisted.engines import CPU, NODES, loss_and_gradient


class Layers(KernelLayers):
    """Layers that are nothing but functions of nodes and edges, with no parameters."""

    prefix = "processor.transformer.layers."
    fit = True
    orders = ()

    def lay_out(self, by_name, orders) -> LaidOut:
        return LaidOut((), ())

    def trajectory(self, laid_out, num_steps, graphs):
        return lambda step, nodes, edges: (nodes.sin(), None if edges is None else edges.cos())

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        return 0


@pytest.fixture(autouse=True)
def _short_trajectories_share(uncompiled, monkeypatch):
    monkeypatch.setattr(engine, "STEPS_WORTH_SHARING", 2)


def make_engine(task: str, model: str, seeds: tuple[int, ...] = (0, 1)) -> Engine:
    made = engines.make_engine(model, task, seeds)
    made._around.layers = Layers([torch.nn.Identity()], NODES, CPU)
    made._around.layers.prefix = "processor.layers." if model == "transformer" else Layers.prefix
    made._around.names = tuple(name for name in made.fleet.shapes if not made._around.layers.has(name))
    assert made.layers_are_kernels
    return made


@pytest.mark.parametrize(
    ("task", "model"),
    [
        *(("bfs", "rt"), ("graham_scan", "rt"), ("matrix_chain_order", "rt"), ("segments_intersect", "rt")),
        *(("bfs", "rt_core"), ("insertion_sort", "rt_no_edge_updates"), ("dfs", "rt_no_edge_updates")),
        *(("insertion_sort", "transformer"), ("segments_intersect", "transformer"), ("floyd_warshall", "transformer")),
    ],
)
def test_gradients_are_those_of_the_pieces_one_by_one(task: str, model: str):
    made = make_engine(task, model)
    assert made.shares_steps
    losses, gradient = loss_and_gradient(made)
    made._may_hoist = False
    assert not made.shares_steps
    true_losses, true_gradient = loss_and_gradient(made)
    torch.testing.assert_close(losses, true_losses, rtol=1e-12, atol=0)
    assert true_gradient.abs().max() > 0
    largest = true_gradient.abs().max().item()
    torch.testing.assert_close(gradient, true_gradient, rtol=1e-9, atol=1e-13 * largest)


def test_longer_and_shorter_trajectories_share_a_plan_and_so_do_other_fleets(monkeypatch):
    first, second = make_engine("insertion_sort", "rt"), make_engine("insertion_sort", "rt", (3, 4))
    second.share_compiled(first)
    loss_and_gradient(first)
    monkeypatch.setattr(plan, "trace", None)  # nothing more is traced
    for one in (first, second):
        for num_hints in (2, 3, 4):
            losses, gradient = loss_and_gradient(one, num_hints)
            one._may_hoist = False
            true_losses, true_gradient = loss_and_gradient(one, num_hints)
            one._may_hoist = True
            torch.testing.assert_close(losses, true_losses, rtol=1e-12, atol=0)
            torch.testing.assert_close(gradient, true_gradient, rtol=1e-9, atol=1e-12)


def test_short_trajectories_take_their_pieces_one_by_one(monkeypatch):
    made = make_engine("insertion_sort", "rt")
    monkeypatch.setattr(engine, "STEPS_WORTH_SHARING", max(made.buckets))
    assert not made.shares_steps
    monkeypatch.setattr(engine, "STEPS_WORTH_SHARING", max(made.buckets) - 1)
    assert made.shares_steps


def test_what_is_kept_is_counted():
    made = make_engine("insertion_sort", "rt")
    assert made._kept_bytes(3) == 0  # not traced yet
    loss_and_gradient(made)
    ((found, _),) = made._around._shared_between._plans
    kept = sum(tensor.numel() * tensor.element_size() for tensor in (*found.pieces.rows, *found.pieces.taps))
    assert made._kept_bytes(3) == 2 * 2 * kept > 0
    made._may_hoist = False
    assert made._kept_bytes(3) == 0


def test_nothing_of_a_trajectory_outlives_it(shared):
    made = make_engine("insertion_sort", "rt")
    loss_and_gradient(made)
    made._forward(4)  # without a backward pass
    assert [one() for one in shared] == [None, None]
