import pytest
import torch

from relational_transformer.nn import RelationalAttention, record_attention
from tests.nn.graphs import make_graph, make_layer, make_stack


def test_weights_are_those_of_the_layers_attention():
    layer, (nodes, edges) = make_layer(), make_graph(2)
    expected = layer.attention(nodes, edges, need_weights=True).weights
    with record_attention(layer) as recorded:
        layer(nodes, edges)
    assert list(recorded) == ["attention"]
    assert torch.equal(recorded["attention"][0], expected)
    torch.testing.assert_close(recorded["attention"][0].sum(-1), torch.ones(expected.shape[:-1]))


def test_the_outcome_is_not_changed_and_nothing_stays_behind():
    layer, graph = make_layer(), make_graph(2)
    expected = layer(*graph)
    with record_attention(layer) as recorded:
        inside = layer(*graph)
        layer(*graph)
    after = layer(*graph)
    assert len(recorded["attention"]) == 2
    for got in (inside, after):
        torch.testing.assert_close(got.nodes, expected.nodes)
        torch.testing.assert_close(got.edges, expected.edges)


def test_hooks_are_removed_when_the_model_fails():
    stack = make_stack()
    with pytest.raises(ValueError, match="channels"), record_attention(stack):
        stack(torch.randn(3, 1), torch.randn(3, 3, 1))
    for module in stack.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_weights_keep_no_graph_of_gradients():
    attention = RelationalAttention(node_size=4, edge_size=3, num_heads=1, head_size=4)
    with record_attention(attention) as recorded:
        attention(torch.randn(3, 4), torch.randn(3, 3, 3))
    assert not recorded[""][0].requires_grad


def test_a_model_without_relational_attention_is_refused():
    with (
        pytest.raises(ValueError, match="this Linear contains no relational attention"),
        record_attention(torch.nn.Linear(2, 2)),
    ):
        pass


def test_a_compiled_model_is_refused():
    """It would run, and record nothing."""
    compiled = torch.compile(make_stack(), backend="eager")
    with pytest.raises(ValueError, match="record the model that was compiled"), record_attention(compiled):
        pass
