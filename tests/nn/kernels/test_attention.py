"""Fused relational attention against float64, small enough for Triton's interpreter."""

import pytest
import torch

from relational_transformer.nn import kernels
from relational_transformer.nn.attention import relational_attention
from relational_transformer.nn.kernels import attention, attention_backward
from relational_transformer.nn.kernels.attention import attention_operator
from relational_transformer.nn.kernels.attention_backward import attention_backward_operator
from relational_transformer.nn.kernels.attention_tiles import parts_of_edges
from tests.nn.kernels.cases import (
    DEVICE,
    AttentionCase,
    assert_at_most_twice_the_plain_error,
    output_and_gradients,
)

CASES = [
    AttentionCase(queries=1, keys=1, heads=2, head_size=28, edge_size=20),
    AttentionCase(queries=3, keys=3, heads=1, head_size=8, edge_size=16),
    AttentionCase(queries=5, keys=17, heads=3, head_size=8, edge_size=72, masked=True),
    AttentionCase(queries=17, keys=5, heads=5, head_size=16, edge_size=80, masked=True),
    AttentionCase(queries=4, keys=4, heads=2, head_size=64, edge_size=32),
    AttentionCase(queries=6, keys=6, heads=4, head_size=16, edge_size=64, seeds=3, graphs=2, masked=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32_is_as_exact_as_the_plain_path(case: AttentionCase):
    assert_at_most_twice_the_plain_error(case, torch.float32)


@pytest.mark.parametrize("case", CASES[2:4], ids=str)
def test_bfloat16_is_as_exact_as_the_plain_path(case: AttentionCase):
    assert_at_most_twice_the_plain_error(case, torch.bfloat16)


def test_a_row_that_attends_to_nobody_gives_zeros_and_no_gradient():
    case = AttentionCase(queries=3, keys=3, heads=2, head_size=8, edge_size=16)
    query, key, value, edges, weight = (tensor[0] for tensor in case.inputs(torch.float32))
    mask = torch.ones(3, 3, dtype=torch.bool, device=DEVICE)
    mask[1] = False

    def attend(query, key, value, edges, weight):
        return kernels.relational_attention(query, key, value, edges, weight, num_heads=2, attention_mask=mask)

    gradient = torch.randn(1, 3, 16, device=DEVICE)
    messages, query_gradient, _, _, edge_gradient, _ = output_and_gradients(
        attend, (query, key, value, edges, weight), gradient
    )
    assert (messages[0, 1] == 0).all()
    assert (query_gradient[0, 1] == 0).all()
    assert (edge_gradient[0, 1] == 0).all()
    assert messages.isfinite().all()


def test_parts_of_the_keys_where_nobody_is_present_count_for_nothing():
    """The keys of a row are split here: one row sees only the last part, one the first two, one nobody."""
    case = AttentionCase(queries=3, keys=40, heads=2, head_size=8, edge_size=16)
    inputs = [tensor[0, 0] for tensor in case.inputs(torch.float32)[:4]] + [case.inputs(torch.float32)[4][0]]
    mask = torch.zeros(3, 40, dtype=torch.bool, device=DEVICE)
    mask[0, 32:] = True
    mask[1, :20] = True
    gradient = torch.randn(3, 16, device=DEVICE)

    def attend(*inputs):
        return kernels.relational_attention(*inputs, num_heads=2, attention_mask=mask)

    def plain(*inputs):
        with kernels.use_kernels(False):
            return relational_attention(*inputs, num_heads=2, attention_mask=mask).messages

    for fused, expected in zip(
        output_and_gradients(attend, inputs, gradient), output_and_gradients(plain, inputs, gradient), strict=True
    ):
        torch.testing.assert_close(fused, expected, rtol=1e-4, atol=1e-5)


def test_reads_slices_of_packed_projections_in_place():
    packed = torch.randn(2, 4, 3 * 32, device=DEVICE)
    edges, weight = torch.randn(2, 4, 4, 16, device=DEVICE), torch.randn(96, 16, device=DEVICE)
    sliced = kernels.relational_attention(*packed.chunk(3, dim=-1), edges, weight, num_heads=2)
    copied = kernels.relational_attention(
        *(part.contiguous() for part in packed.chunk(3, dim=-1)), edges, weight, num_heads=2
    )
    assert torch.equal(sliced, copied)


def test_batch_axes_and_a_shared_mask_broadcast():
    query, edges = torch.randn(2, 3, 4, 32, device=DEVICE), torch.randn(2, 3, 4, 4, 16, device=DEVICE)
    weight = torch.randn(96, 16, device=DEVICE)
    mask = torch.rand(4, 4, device=DEVICE) < 0.5
    together = kernels.relational_attention(query, query, query, edges, weight, num_heads=2, attention_mask=mask)
    alone = kernels.relational_attention(
        query[1, 2], query[1, 2], query[1, 2], edges[1, 2], weight, num_heads=2, attention_mask=mask
    )
    assert together.shape == (2, 3, 4, 32)
    torch.testing.assert_close(together[1, 2], alone)


def test_gradients_inside_and_outside_vmap_agree():
    inputs = AttentionCase(queries=3, keys=3, heads=2, head_size=8, edge_size=16, seeds=2).inputs(torch.float32)
    every = tuple(range(5))

    def loss(*inputs):
        return kernels.relational_attention(*inputs, num_heads=2).square().sum()

    def fleet_loss(*inputs):
        return torch.vmap(loss)(*inputs).sum()

    inside = torch.vmap(torch.func.grad(loss, argnums=every))(*inputs)
    outside = torch.func.grad(fleet_loss, argnums=every)(*inputs)
    leaves = [tensor.requires_grad_() for tensor in inputs]
    by_autograd = torch.autograd.grad(fleet_loss(*leaves), leaves)
    for first, second, third in zip(inside, outside, by_autograd, strict=True):
        torch.testing.assert_close(first, third)
        torch.testing.assert_close(second, third)


@pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals
def test_a_compiled_fleet_gives_the_same_gradients():
    inputs = AttentionCase(queries=3, keys=3, heads=2, head_size=8, edge_size=16, seeds=2).inputs(torch.float32)
    leaves = [tensor.requires_grad_() for tensor in inputs]

    def loss(*inputs):
        return kernels.relational_attention(*inputs, num_heads=2).square().sum()

    torch.compiler.reset()
    compiled = torch.compile(torch.vmap(loss), fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(torch.vmap(loss)(*leaves).sum(), leaves)
    for mine, other in zip(torch.autograd.grad(compiled(*leaves).sum(), leaves), expected, strict=True):
        torch.testing.assert_close(mine, other)


def test_a_second_derivative_says_that_there_is_none():
    inputs = AttentionCase(queries=2, keys=2, heads=1, head_size=8, edge_size=16).inputs(torch.float32)
    leaves = [tensor[0].requires_grad_() for tensor in inputs]
    messages = kernels.relational_attention(*leaves, num_heads=1)
    (gradient,) = torch.autograd.grad(messages.sum(), leaves[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        gradient.sum().backward()


def test_the_backward_operator_gives_under_vmap_what_it_gives_alone():
    case = AttentionCase(queries=3, keys=3, heads=2, head_size=8, edge_size=16, seeds=2)
    inputs = [tensor.unsqueeze(1) for tensor in case.inputs(torch.float32)]  # one seed each of two models
    outputs = [attention_operator(*(tensor[model] for tensor in inputs), None, 2) for model in range(2)]
    saved = [torch.stack(parts) for parts in zip(*outputs, strict=True)]
    gradient = torch.randn_like(saved[0])

    def backward(gradient, query, key, value, edges, weight, messages, log_sum, context):
        return attention_backward_operator(
            gradient, query, key, value, edges, weight, None, messages, log_sum, context, 2
        )

    together = torch.vmap(backward)(gradient, *inputs, *saved)
    for model in range(2):
        alone = backward(gradient[model], *(tensor[model] for tensor in (*inputs, *saved)))
        for mine, other in zip(together, alone, strict=True):
            torch.testing.assert_close(mine[model], other)


@pytest.mark.parametrize(("rows", "seeds", "keys"), [(1, 1, 4), (2, 2, 4), (3, 1, 4), (7, 2, 4), (2, 1, 20)])
def test_graphs_and_rows_may_share_the_buffer_a_few_at_a_time(monkeypatch, rows: int, seeds: int, keys: int):
    case = AttentionCase(queries=3, keys=keys, heads=2, head_size=8, edge_size=16, graphs=3, seeds=seeds, masked=True)
    for module in (attention, attention_backward):
        monkeypatch.setattr(module, "PAIR_BUFFER_BYTES", rows * seeds * case.keys * 2 * 16 * 4)
    assert_at_most_twice_the_plain_error(case, torch.float32)


@pytest.mark.parametrize(
    ("graphs", "nodes", "width", "seeds", "expected"),
    [
        (32, 64, 192, 1, [(8, 64)] * 4),  # 10 graphs would fit, but the last part would be 2
        (4, 256, 128, 1, [(1, 256)] * 4),
        (1, 1000, 128, 1, [(1, 63)] * 15 + [(1, 55)]),  # 65 rows fit
        (4, 16, 192, 20, [(4, 16)]),
    ],
)
def test_parts_of_the_edges_fit_the_buffer_and_are_about_equal(
    graphs: int, nodes: int, width: int, seeds: int, expected: list[tuple[int, int]]
):
    edges = torch.empty(seeds, graphs, nodes, nodes, 64, dtype=torch.bfloat16, device="meta")
    parts = parts_of_edges(edges, width, 32 * 2**20)
    assert [(part.graphs, part.rows) for part in parts] == expected


def test_no_graphs_give_no_messages():
    inputs = AttentionCase(queries=3, keys=3, heads=2, head_size=8, edge_size=16, graphs=0).inputs(torch.float32)
    leaves = [tensor[0].requires_grad_() for tensor in inputs]
    messages = kernels.relational_attention(*leaves, num_heads=2)
    assert messages.shape == (0, 3, 16)
    assert (torch.autograd.grad(messages.sum(), leaves)[-1] == 0).all()


def test_operators_keep_the_rules_of_torch():
    case = AttentionCase(queries=3, keys=2, heads=2, head_size=8, edge_size=16, seeds=2, masked=True)
    inputs = [tensor.requires_grad_() for tensor in case.inputs(torch.float32)]
    arguments = (*inputs, case.mask(), 2)
    torch.library.opcheck(attention_operator, arguments)
    outputs = [tensor.detach() for tensor in attention_operator(*arguments)]
    backward = (torch.randn_like(outputs[0]), *(tensor.detach() for tensor in inputs), case.mask(), *outputs, 2)
    torch.library.opcheck(attention_backward_operator, backward)
