"""Layers that keep nothing, in the emulator: the same bits as those that are differentiated."""

import pytest
import torch

from relational_transformer.nn.kernels.whole_layer import launching
from relational_transformer.nn.kernels.whole_layer.inference import Inference
from relational_transformer.nn.kernels.whole_layer.operator import OPERATORS
from relational_transformer.nn.kernels.whole_layer.packing import orders_on, pack_forward

from .emulation import COMPILER, emulated
from .test_whole_layer import make_inputs, make_layer, with_and_without_edge_update

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")


def make_parameters(seeds: int, layers: int, update_edges: bool = True) -> list[dict[str, torch.Tensor]]:
    """Of each layer, [S, *shape] by name."""
    made = [[make_layer(10 * n + s, update_edges).bfloat16() for s in range(seeds)] for n in range(layers)]
    named = [[dict(layer.named_parameters()) for layer in of_seeds] for of_seeds in made]
    return [{name: torch.stack([one[name].detach() for one in of_seeds]) for name in of_seeds[0]} for of_seeds in named]


def make_inference(parameters: list[dict[str, torch.Tensor]], update_edges: bool = True) -> Inference:
    orders = orders_on(torch.device("cpu"), update_edges)
    return Inference([pack_forward(layer, orders) for layer in parameters], update_edges=update_edges)


@with_and_without_edge_update
@pytest.mark.parametrize(("nodes", "seeds", "graphs", "layers"), [(16, 1, 2, 1), (20, 1, 1, 1), (5, 2, 3, 2)])
def test_it_makes_the_bits_of_layers_that_are_differentiated(
    nodes: int, seeds: int, graphs: int, layers: int, update_edges: bool
):
    parameters = make_parameters(seeds, layers, update_edges)
    operator = OPERATORS[update_edges]
    given = expected = make_inputs(seeds, graphs, nodes=nodes)
    for layer in parameters:
        new_nodes, new_edges, *_ = operator.forward(*expected, *(layer[name] for name in operator.names))
        expected = new_nodes, new_edges if update_edges else expected[1]
    for one, other in zip(make_inference(parameters, update_edges)(*given), expected, strict=True):
        assert torch.equal(one, other)


def test_batches_of_several_sizes_may_follow_each_other():
    inference = make_inference(make_parameters(1, 1))
    large, small = make_inputs(1, 3, nodes=5), make_inputs(1, 1, nodes=6)
    first = inference(*small)
    inference(*large)
    again = inference(*small)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@with_and_without_edge_update
def test_the_order_of_the_warps_changes_no_bit(update_edges: bool):
    inference = make_inference(make_parameters(1, 1, update_edges), update_edges)
    inputs = make_inputs(1, 1, nodes=16)
    found = []
    for order in (0, 1, 2):
        launching.set_emulator(emulated(order))
        found.append(inference(*inputs))
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))
