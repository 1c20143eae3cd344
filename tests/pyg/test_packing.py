import torch

from relational_transformer import RelationalTransformer
from relational_transformer.pyg import Packing
from tests.pyg.graphs import make_graphs


def test_unpacking_gives_back_what_was_packed():
    graphs = make_graphs((4, 1, 3))
    packing = Packing.of(graphs.edge_index, 8, graphs.batch)
    assert packing.node_mask.sum(1).tolist() == [4, 1, 3]
    assert torch.equal(packing.unpack_nodes(packing.pack_nodes(graphs.x)), graphs.x)
    assert torch.equal(packing.unpack_edges(packing.pack_edges(graphs.edge_attr, torch.zeros(5))), graphs.edge_attr)


def test_nodes_keep_their_order_within_a_graph():
    packing = Packing.of(torch.empty(2, 0, dtype=torch.long), 4, batch=torch.tensor([1, 0, 1, 0]))
    assert packing.pack_nodes(torch.arange(4.0).unsqueeze(-1)).squeeze(-1).tolist() == [[1.0, 3.0], [0.0, 2.0]]


def test_pairs_are_all_those_of_a_graph():
    packing = Packing.of(torch.empty(2, 0, dtype=torch.long), 4, batch=torch.tensor([1, 0, 1, 2]))
    pairs, _ = packing.all_pairs()
    assert sorted(map(tuple, pairs.T.tolist())) == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2), (3, 3)]


def test_what_stands_for_missing_edges_matters_only_within_a_graph():
    """Graphs with all their edges: NaN stands in the padding alone."""
    sizes = torch.tensor([3, 1, 2])
    batch = torch.arange(3).repeat_interleave(sizes)
    edge_index = (batch.unsqueeze(0) == batch.unsqueeze(1)).nonzero().T
    packing, nodes = Packing.of(edge_index, 6, batch), torch.randn(6, 6)
    model = RelationalTransformer(6, 5, node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8)
    edges = torch.randn(edge_index.shape[1], 5)
    results = []
    for padding in (0.0, torch.nan):
        dense = packing.pack_edges(edges, missing=torch.full((5,), padding))
        output = model(packing.pack_nodes(nodes), dense, node_mask=packing.node_mask)
        wanted = packing.unpack_nodes(output.nodes), packing.unpack_edges(output.edges)
        loss = wanted[0].square().sum() + wanted[1].square().sum()
        results.append([*wanted, *torch.autograd.grad(loss, list(model.parameters()))])
    for zeros, nans in zip(*results, strict=True):
        assert zeros.isfinite().all()
        assert torch.equal(zeros, nans)


def test_a_whole_stack_runs_on_a_packed_batch():
    """Missing edges keep their own vectors from layer to layer; padding changes nothing."""
    model = RelationalTransformer(
        6, 5, node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8, num_layers=2
    )
    graphs, missing = make_graphs((4, 2)), torch.randn(5)
    packing = Packing.of(graphs.edge_index, 6, graphs.batch)
    edges = packing.pack_edges(graphs.edge_attr, missing)
    got = packing.unpack_nodes(model(packing.pack_nodes(graphs.x), edges, node_mask=packing.node_mask).nodes)
    members = graphs.batch == 1
    alone = model(graphs.x[members], edges[1, :2, :2]).nodes
    torch.testing.assert_close(got[members], alone)
