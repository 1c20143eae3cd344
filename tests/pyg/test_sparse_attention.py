import torch

from relational_transformer import relational_attention
from relational_transformer.pyg import sparse_relational_attention
from relational_transformer.pyg.sparse_attention import softmax_by_target


def test_all_pairs_give_dense_attention():
    query, key, value = torch.randn(3, 5, 8)
    edges, edge_weight = torch.randn(5, 5, 3), torch.randn(24, 3)
    target, source = torch.ones(5, 5).nonzero(as_tuple=True)
    dense = relational_attention(query, key, value, edges, edge_weight, num_heads=2, need_weights=True)
    sparse = sparse_relational_attention(
        query, key, value, torch.stack([source, target]), edges.flatten(0, 1), edge_weight, num_heads=2
    )
    torch.testing.assert_close(sparse.messages, dense.messages, rtol=1e-5, atol=1e-5)
    assert dense.weights is not None
    torch.testing.assert_close(sparse.weights, dense.weights.movedim(0, -1).flatten(0, 1), rtol=1e-5, atol=1e-5)


def test_softmax_of_large_scores_is_exact():
    scores = torch.tensor([[1e4], [1e4 - 1], [-1e4]])
    weights = softmax_by_target(scores, torch.tensor([0, 0, 2]), num_nodes=3).flatten()
    torch.testing.assert_close(weights, torch.tensor([0.73105858, 0.26894142, 1.0]))


def test_a_node_to_which_no_edge_leads_receives_zeros():
    query, key, value = torch.randn(3, 2, 4)
    edge_index = torch.tensor([[0], [1]])
    messages = sparse_relational_attention(
        query, key, value, edge_index, torch.randn(1, 3), torch.randn(12, 3), num_heads=1
    ).messages
    assert messages[0].tolist() == [0.0] * 4
    assert messages[1].abs().min() > 0
