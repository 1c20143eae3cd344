import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from relational_transformer import RelationalAttention, causal_mask, relational_attention
from tests.nn import oracle
from tests.nn.graphs import make_graph, randomise


def make_attention(**changes) -> RelationalAttention:
    attention = RelationalAttention(**{"node_size": 6, "edge_size": 5, "num_heads": 2, "head_size": 3, **changes})
    randomise(attention)
    return attention


@pytest.mark.usefixtures("double")
class TestAgainstTheEquations:
    def test_complete_graph(self):
        attention, (nodes, edges) = make_attention(), make_graph()
        torch.testing.assert_close(
            attention(nodes, edges).messages, oracle.attend(attention, nodes, edges), rtol=0, atol=1e-10
        )

    def test_adjacency(self):
        attention, (nodes, edges) = make_attention(), make_graph(num_nodes=5)
        mask = torch.rand(5, 5) < 0.5
        mask[2] = False
        messages = attention(nodes, edges, attention_mask=mask).messages
        torch.testing.assert_close(messages, oracle.attend(attention, nodes, edges, mask), rtol=0, atol=1e-10)
        assert messages[2].abs().max() == 0

    def test_causal(self):
        attention, (nodes, edges) = make_attention(), make_graph(num_nodes=5)
        mask = causal_mask(5)
        messages = attention(nodes, edges, attention_mask=mask).messages
        torch.testing.assert_close(messages, oracle.attend(attention, nodes, edges, mask), rtol=0, atol=1e-10)
        changed = nodes.clone()
        changed[3:] = 7.0
        later = attention(changed, edges, attention_mask=mask).messages
        assert torch.equal(later[:3], messages[:3])

    def test_cross_attention(self):
        attention = make_attention()
        nodes, context, edges = torch.randn(3, 6), torch.randn(5, 6), torch.randn(3, 5, 5)
        expected = oracle.attend(attention, nodes, edges, context=context)
        messages = attention(nodes, edges, context=context).messages
        torch.testing.assert_close(messages, expected, rtol=0, atol=1e-10)

    def test_cross_attention_to_oneself_is_self_attention(self):
        attention, (nodes, edges) = make_attention(), make_graph(2)
        torch.testing.assert_close(
            attention(nodes, edges, context=nodes).messages, attention(nodes, edges).messages, rtol=0, atol=1e-12
        )

    def test_global_vector(self):
        attention, (nodes, edges) = make_attention(global_size=4), make_graph()
        globals = torch.randn(4)
        expected = oracle.attend(attention, nodes, edges, globals=globals)
        messages = attention(nodes, edges, globals=globals).messages
        torch.testing.assert_close(messages, expected, rtol=0, atol=1e-10)

    def test_gradients(self):
        edges, mask = torch.randn(3, 4, 2, requires_grad=True), torch.rand(3, 4) < 0.7
        tensors = [torch.randn(*shape, requires_grad=True) for shape in [(3, 6), (4, 6), (4, 6)]]
        weight = torch.randn(18, 2, requires_grad=True)

        def messages(*inputs):
            return relational_attention(*inputs, num_heads=3, attention_mask=mask).messages

        assert torch.autograd.gradcheck(messages, (*tensors, edges, weight))


class TestTheFourTerms:
    """(n_i W_nQ + e W_eQ)(n_j W_nK + e W_eK) has four products; each is isolated by zeroing the others' factors."""

    @pytest.mark.parametrize("query_from", ["nodes", "edges"])
    @pytest.mark.parametrize("key_from", ["nodes", "edges"])
    def test_isolated_term_sets_the_scores(self, query_from: str, key_from: str):
        size, edge_size, num_nodes = 4, 3, 5
        node_query, node_key = torch.randn(num_nodes, size), torch.randn(num_nodes, size)
        edges, weight = torch.randn(num_nodes, num_nodes, edge_size), torch.randn(3 * size, edge_size)
        edge_query, edge_key = edges @ weight[:size].T, edges @ weight[size : 2 * size].T
        if query_from == "nodes":
            query, weight[:size] = node_query, 0
            left = node_query[:, None].expand(-1, num_nodes, -1)
        else:
            query, left = torch.zeros_like(node_query), edge_query
        if key_from == "nodes":
            key, weight[size : 2 * size] = node_key, 0
            right = node_key[None].expand(num_nodes, -1, -1)
        else:
            key, right = torch.zeros_like(node_key), edge_key
        scores = (left * right).sum(-1) / size**0.5
        out = relational_attention(query, key, node_key, edges, weight, num_heads=1, need_weights=True)
        assert out.weights is not None
        torch.testing.assert_close(out.weights[0], scores.softmax(-1))
        assert scores.std() > 0.1  # the term says something

    def test_values_come_from_nodes_and_edges(self):
        nodes, edges, weight = torch.zeros(4, 6), torch.randn(4, 4, 5), torch.zeros(18, 5)
        weight[12:] = torch.randn(6, 5)
        value = torch.randn(4, 6)
        out = relational_attention(nodes, nodes, value, edges, weight, num_heads=2).messages
        expected = value.mean(0) + (edges @ weight[12:].T).mean(1)  # scores are all zero: a plain mean
        torch.testing.assert_close(out, expected)


def test_without_edges_it_is_scaled_dot_product_attention():
    query, key, value = torch.randn(3, 2, 7, 8).unbind(0)
    edges, mask = torch.randn(2, 7, 7, 5), torch.rand(2, 7, 7) < 0.6
    mask[..., 0] = True
    out = relational_attention(query, key, value, edges, torch.zeros(24, 5), num_heads=2, attention_mask=mask).messages
    by_head = [tensor.unflatten(-1, (2, 4)).transpose(1, 2) for tensor in (query, key, value)]
    expected = F.scaled_dot_product_attention(*by_head, attn_mask=mask[:, None])
    torch.testing.assert_close(out, expected.transpose(1, 2).flatten(-2))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(num_nodes=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_a_mask_equals_deleting_the_nodes(num_nodes: int, seed: int):
    torch.manual_seed(seed)
    attention, (nodes, edges) = make_attention(), make_graph(num_nodes=num_nodes)
    present = torch.rand(num_nodes) < 0.6
    present[0] = True
    masked = attention(nodes, edges, node_mask=present).messages[present]
    deleted = attention(nodes[present], edges[present][:, present]).messages
    torch.testing.assert_close(masked, deleted, rtol=1e-4, atol=1e-5)


@settings(deadline=None, derandomize=True, max_examples=15)
@given(num_nodes=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_what_masked_pairs_hold_is_never_read(num_nodes: int, seed: int):
    torch.manual_seed(seed)
    attention, (nodes, edges) = make_attention(), make_graph(num_nodes=num_nodes)
    mask = torch.rand(num_nodes, num_nodes) < 0.5
    other = torch.where(mask[..., None], edges, torch.randn_like(edges) * 100)
    torch.testing.assert_close(
        attention(nodes, edges, attention_mask=mask).messages, attention(nodes, other, attention_mask=mask).messages
    )


def test_fully_masked_rows_have_finite_gradients():
    attention, (nodes, edges) = make_attention(), make_graph(2)
    nodes.requires_grad_()
    edges.requires_grad_()
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[0] = True
    out = attention(nodes, edges, attention_mask=mask).messages
    assert out[:, 1:].abs().max() == 0
    out.square().sum().backward()
    for tensor in (nodes, edges, *attention.parameters()):
        assert tensor.grad.isfinite().all()


def test_weights_are_returned_only_when_asked_for():
    attention, (nodes, edges) = make_attention(), make_graph(2)
    plain, full = attention(nodes, edges), attention(nodes, edges, need_weights=True)
    assert plain.weights is None
    assert full.weights.shape == (2, 2, 4, 4)
    torch.testing.assert_close(full.weights.sum(-1), torch.ones(2, 2, 4))
    assert torch.equal(plain.messages, full.messages)


def test_softmax_is_float32_under_autocast():
    attention, (nodes, edges) = make_attention(), make_graph(2)
    exact = attention(nodes, edges).messages
    with torch.autocast("cpu", torch.bfloat16):
        rough = attention(nodes, edges).messages
    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.05)
    # Scores (256 + 1) / 2 and 256 / 2: bfloat16 cannot tell them apart, float32 can.
    query = torch.tensor([[1.0, 1.0, 0.0, 0.0]] * 2)
    key = torch.tensor([[256.0, 1.0, 0.0, 0.0], [256.0, 0.0, 0.0, 0.0]])
    with torch.autocast("cpu", torch.bfloat16):
        out = relational_attention(
            *(tensor.bfloat16() for tensor in (query, key, key, torch.zeros(2, 2, 3), torch.zeros(12, 3))),
            num_heads=1,
            need_weights=True,
        )
    torch.testing.assert_close(out.weights[0, 0, 0].float(), torch.tensor(0.5).sigmoid(), rtol=0.01, atol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "num_heads must divide the 6 channels of query, got num_heads=5"),
        ({"num_heads": 0}, "num_heads must be a positive integer, got 0"),
        ({"key": torch.randn(4, 5)}, r"key must have 6 channels in its last axis, got shape \[4, 5\]"),
        ({"value": torch.randn(3, 6)}, "value must have the 4 nodes of key"),
        ({"edges": torch.randn(4, 3, 5)}, r"edges must be \[..., 4, 4, edge_size\]"),
        ({"edges": torch.randn(4, 4, 5).double()}, "edges must have the dtype of query"),
        ({"edges": torch.ones(4, 4, 5, dtype=torch.long)}, "edges must be a floating-point tensor"),
        ({"edge_weight": torch.randn(12, 5)}, r"edge_weight must be \[3 x 6, 5\]"),
        ({"attention_mask": torch.ones(4, 4)}, "attention_mask must be a bool tensor with True = present"),
        ({"attention_mask": torch.ones(3, 4, dtype=torch.bool)}, r"attention_mask must be \[..., 4, 4\]"),
    ],
)
def test_wrong_arguments_are_named(changes: dict, message: str):
    arguments = {
        "query": torch.randn(4, 6),
        "key": torch.randn(4, 6),
        "value": torch.randn(4, 6),
        "edges": torch.randn(4, 4, 5),
        "edge_weight": torch.randn(18, 5),
        "num_heads": 2,
    }
    with pytest.raises(ValueError, match=message):
        relational_attention(**{**arguments, **changes})


def test_globals_must_match_the_module():
    nodes, edges = make_graph()
    with pytest.raises(ValueError, match="globals must be given"):
        make_attention(global_size=4)(nodes, edges)
    with pytest.raises(ValueError, match="globals must be None"):
        make_attention()(nodes, edges, globals=torch.randn(4))
