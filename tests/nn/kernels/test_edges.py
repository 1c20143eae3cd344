"""The fused edge update against float64, small enough for Triton's interpreter."""

import pytest
import torch

from relational_transformer.nn import kernels
from relational_transformer.nn.kernels.edges import FEED_IN_BIAS, FEED_NORM_BIAS, edge_update_operator
from relational_transformer.nn.kernels.edges_backward import edge_update_backward_operator
from tests.nn.kernels.cases import (
    DEVICE,
    EdgeUpdateCase,
    assert_at_most_twice_the_plain_error,
    output_and_gradients,
)

CASES = [
    EdgeUpdateCase(nodes=1, edge_size=20, message_size=16, feed_size=8, graphs=3),
    EdgeUpdateCase(nodes=3, edge_size=80, message_size=5, feed_size=3),
    EdgeUpdateCase(nodes=9, edge_size=16, message_size=32, feed_size=16),
    EdgeUpdateCase(nodes=5, edge_size=72, message_size=16, feed_size=8, seeds=2, graphs=2),
    EdgeUpdateCase(nodes=4, edge_size=32, message_size=16, feed_size=8, seeds=2, graphs=2),  # full tiles
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32_is_as_exact_as_the_plain_path(case: EdgeUpdateCase):
    assert_at_most_twice_the_plain_error(case, torch.float32)


@pytest.mark.parametrize("case", CASES[3:], ids=str)
def test_bfloat16_is_as_exact_as_the_plain_path(case: EdgeUpdateCase):
    assert_at_most_twice_the_plain_error(case, torch.bfloat16)


def test_parameters_in_bfloat16_give_what_the_same_numbers_in_float32_give():
    inputs = EdgeUpdateCase(nodes=3, edge_size=24, message_size=16, feed_size=8).inputs(torch.bfloat16)
    data, parameters = [tensor[0] for tensor in inputs[:3]], [tensor[0].bfloat16() for tensor in inputs[3:]]
    gradient = torch.randn_like(data[0])
    half = output_and_gradients(kernels.edge_update, [*data, *parameters], gradient)
    full = output_and_gradients(kernels.edge_update, [*data, *(tensor.float() for tensor in parameters)], gradient)
    for mine, other in zip(half, full, strict=True):
        assert torch.equal(mine, other.to(mine.dtype))


def test_the_reverse_edge_and_the_two_ends_play_their_own_parts():
    """One changed input moves exactly the edges that read it."""
    case = EdgeUpdateCase(nodes=3, edge_size=16, message_size=16, feed_size=8)
    inputs = [tensor[0] for tensor in case.inputs(torch.float32)]
    inputs[4] += 1.0
    before = kernels.edge_update(*inputs)[0]
    pairs = {(i, j) for i in range(3) for j in range(3)}
    expected = {0: {(0, 1), (1, 0)}, 1: {(0, j) for j in range(3)}, 2: {(i, 0) for i in range(3)}}
    for argument, moved in expected.items():
        changed = [tensor.clone() for tensor in inputs]
        where = (0, 0, 1) if argument == 0 else (0, 0)
        changed[argument][where] += 10 * torch.randn_like(changed[argument][where])
        after = kernels.edge_update(*changed)[0]
        assert {pair for pair in pairs if not torch.equal(before[pair], after[pair])} == moved


def test_gradients_inside_and_outside_vmap_agree():
    inputs = EdgeUpdateCase(nodes=2, edge_size=16, message_size=4, feed_size=4, seeds=2).inputs(torch.float32)
    every = tuple(range(15))

    def loss(*inputs):
        return kernels.edge_update(*inputs).square().sum()

    def fleet_loss(*inputs):
        return torch.vmap(loss)(*inputs).sum()

    inside = torch.vmap(torch.func.grad(loss, argnums=every))(*inputs)
    outside = torch.func.grad(fleet_loss, argnums=every)(*inputs)
    leaves = [tensor.requires_grad_() for tensor in inputs]
    by_autograd = torch.autograd.grad(fleet_loss(*leaves), leaves)
    for first, second, third in zip(inside, outside, by_autograd, strict=True):
        torch.testing.assert_close(first, third)
        torch.testing.assert_close(second, third)


def saved(inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """What the backward operator reads after the gradient, from the inputs of the forward one."""
    parameters = [tensor for index, tensor in enumerate(inputs[3:]) if index not in (FEED_IN_BIAS, FEED_NORM_BIAS)]
    _, *kept = edge_update_operator(*inputs, 1e-5, True)
    return inputs[0], *kept, *parameters


def test_the_backward_operator_gives_under_vmap_what_it_gives_alone():
    case = EdgeUpdateCase(nodes=2, edge_size=16, message_size=4, feed_size=4, seeds=2)
    inputs = [tensor.unsqueeze(1) for tensor in case.inputs(torch.float32)]  # one seed each of two models
    gradient = torch.randn_like(inputs[0])
    models = [(gradient[model], *saved([tensor[model] for tensor in inputs])) for model in range(2)]
    together = torch.vmap(edge_update_backward_operator)(*(torch.stack(parts) for parts in zip(*models, strict=True)))
    for model in range(2):
        for mine, other in zip(together, edge_update_backward_operator(*models[model]), strict=True):
            torch.testing.assert_close(mine[model], other)


def test_reads_slices_of_a_wider_weight_in_place():
    inputs = [t[0] for t in EdgeUpdateCase(nodes=2, edge_size=16, message_size=16, feed_size=8).inputs(torch.float32)]
    wide = torch.randn(16, 40, device=DEVICE)
    own, reverse = wide[:, :16], wide[:, 20:36]
    sliced = kernels.edge_update(*inputs[:3], own, reverse, *inputs[5:])
    copied = kernels.edge_update(*inputs[:3], own.contiguous(), reverse.contiguous(), *inputs[5:])
    assert torch.equal(sliced, copied)


def test_no_graphs_give_no_edges_and_no_gradients():
    case = EdgeUpdateCase(nodes=3, edge_size=16, message_size=4, feed_size=4, graphs=0)
    leaves = [tensor[0].requires_grad_() for tensor in case.inputs(torch.float32)]
    edges = kernels.edge_update(*leaves)
    assert edges.shape == (0, 3, 3, 16)
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(edges.sum(), leaves))


def test_operators_keep_the_rules_of_torch():
    case = EdgeUpdateCase(nodes=2, edge_size=16, message_size=4, feed_size=4, seeds=2)
    inputs = [tensor.requires_grad_() for tensor in case.inputs(torch.float32)]
    torch.library.opcheck(edge_update_operator, (*inputs, 1e-5, True))
    detached = [tensor.detach() for tensor in inputs]
    torch.library.opcheck(edge_update_backward_operator, (torch.randn_like(detached[0]), *saved(detached)))
