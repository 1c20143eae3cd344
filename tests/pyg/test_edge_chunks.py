"""Attention in chunks of edges is the plain attention, in values and in gradients of any order."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from relational_transformer.pyg import edge_chunks
from relational_transformer.pyg.edge_chunks import ChunkedAttention, runs_in_chunks
from relational_transformer.pyg.sparse_attention import attend_along_edges
from tests.pyg.graphs import make_conv, make_graphs

NUM_HEADS = 2


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most nodes have edges in several chunks, and the last chunk is not full."""
    monkeypatch.setattr(edge_chunks, "CHUNK", 3)


def make_inputs(dtype: torch.dtype = torch.double) -> tuple[list[Tensor], Tensor]:
    """Query of 5 nodes, key and value of 4, edges and their weight; parallel edges, and nodes that hear nothing."""
    edge_index = torch.stack([torch.randint(4, (13,)), torch.randint(3, (13,))])
    shapes = (5, 8), (4, 8), (4, 8), (13, 3), (24, 3)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes], edge_index


def chunked(inputs: list[Tensor], edge_index: Tensor) -> tuple[Tensor, Tensor]:
    return ChunkedAttention.apply(*inputs, edge_index, NUM_HEADS)


def plain(inputs: list[Tensor], edge_index: Tensor) -> tuple[Tensor, Tensor]:
    query, key, value, edges, weight = inputs
    return attend_along_edges(query, key, value, F.linear(edges, weight), edge_index, NUM_HEADS)


@pytest.mark.parametrize("read", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)], ids=["messages", "weights", "both"])
def test_values_and_gradients_are_those_of_the_plain_attention(read: tuple[float, float]):
    inputs, edge_index = make_inputs()
    outputs, expected = chunked(inputs, edge_index), plain(inputs, edge_index)
    torch.testing.assert_close(outputs, tuple(expected), rtol=1e-12, atol=1e-12)
    wanted = [torch.randn_like(output) for output in outputs]

    def gradients(given: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        parts = zip(read, given, wanted, strict=True)
        loss = torch.stack([(part * want).sum() for used, part, want in parts if used]).sum()
        return torch.autograd.grad(loss, inputs, materialize_grads=True)

    torch.testing.assert_close(gradients(outputs), gradients(expected), rtol=1e-11, atol=1e-11)


def test_second_derivatives_are_those_of_the_plain_attention():
    """A force is a gradient, and a model that is trained on forces needs the gradient of it."""
    inputs, edge_index = make_inputs()

    def second(attend) -> tuple[Tensor, ...]:
        messages, _ = attend(inputs, edge_index)
        first = torch.autograd.grad(messages.square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(torch.stack([part.square().sum() for part in first]).sum(), inputs)

    torch.testing.assert_close(second(chunked), second(plain), rtol=1e-9, atol=1e-9)


def test_in_float32_the_error_is_at_most_twice_that_of_the_plain_attention():
    inputs, edge_index = make_inputs(torch.float32)
    exact = plain([tensor.double() for tensor in inputs], edge_index)[0]
    errors = [(attend(inputs, edge_index)[0] - exact).abs().max() for attend in (chunked, plain)]
    assert errors[0] <= 2 * errors[1] + 1e-7


def test_scores_of_any_size_are_exact():
    inputs, edge_index = make_inputs()
    inputs[0] = (1e6 * inputs[0].detach()).requires_grad_()
    messages, weights = chunked(inputs, edge_index)
    torch.testing.assert_close((messages, weights), tuple(plain(inputs, edge_index)), rtol=1e-9, atol=1e-9)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(messages.sum(), inputs))


def test_transforms_of_torch_see_the_plain_attention():
    conv, graphs = make_conv().double(), make_graphs((4, 3))
    x, edge_attr = graphs.x.double(), graphs.edge_attr.double()

    def loss(x: Tensor) -> Tensor:
        return conv(x, graphs.edge_index, edge_attr)[0].square().sum()

    expected = torch.autograd.grad(loss(x.requires_grad_()), x)[0]
    torch.testing.assert_close(torch.func.grad(loss)(x.detach()), expected, rtol=1e-10, atol=1e-10)


def test_other_dtypes_and_autocast_take_the_plain_attention():
    assert runs_in_chunks(torch.ones(2), torch.nn.Parameter(torch.ones(2)))
    assert not runs_in_chunks(torch.ones(2), torch.ones(2, dtype=torch.bfloat16))
    assert not runs_in_chunks(torch.ones(2, device="meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not runs_in_chunks(torch.ones(2))
