import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from relational_transformer.pyg import AddPairEncodings, Packing
from relational_transformer.pyg.encodings import laplacian_products, random_walks, shortest_paths

networkx = pytest.importorskip("networkx")


def random_graph(num_nodes: int = 8, num_edges: int = 14) -> torch.Tensor:
    return torch.randint(num_nodes, (2, num_edges))


def test_shortest_paths_are_those_of_networkx():
    edge_index, longest = random_graph(), 3
    graph = networkx.DiGraph(edge_index.T.tolist())
    graph.add_nodes_from(range(8))
    channels = shortest_paths(edge_index, 8, longest)
    assert (channels.sum(-1) == 1).all()
    found = channels.argmax(-1)
    for j, lengths in networkx.all_pairs_shortest_path_length(graph):
        for i in range(8):
            assert found[i, j] == min(lengths.get(i, longest + 1), longest + 1)


def test_random_walks_are_those_that_are_walked():
    edge_index = torch.tensor([[0, 0, 1, 2, 2], [1, 2, 2, 0, 0]])  # parallel edges count once; all nodes have a way on
    walks = random_walks(edge_index, 3, steps=3)
    torch.testing.assert_close(walks.sum(0), torch.ones(3, 3))  # from each j a walk ends somewhere
    assert walks[:, 0, 0].tolist() == [0.0, 0.5, 0.5]
    assert walks[:, 0, 1].tolist() == [0.5, 0.0, 0.5]  # 0 -> 1 -> 2 or 0 -> 2 -> 0
    assert walks[2, 1, 0] == 1.0


def test_laplacian_products_are_of_eigenvectors():
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    products = laplacian_products(edge_index, 4, count=2)
    adjacency = torch.zeros(4, 4)
    adjacency[edge_index[0], edge_index[1]] = 1
    scale = adjacency.sum(1).rsqrt()
    laplacian = torch.eye(4) - scale.unsqueeze(1) * adjacency * scale
    values = torch.linalg.eigvalsh(laplacian)
    for number in range(2):  # u u^T is a projection on the eigenvector
        projection = products[..., number]
        torch.testing.assert_close(laplacian @ projection, values[number + 1] * projection, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(projection.trace(), torch.tensor(1.0))


def test_graphs_too_small_for_all_eigenvectors_get_zeros():
    assert laplacian_products(torch.empty(2, 0, dtype=torch.long), 1, count=3).tolist() == [[[0.0] * 3]]
    assert laplacian_products(torch.tensor([[0, 1], [1, 0]]), 2, count=3)[..., 1:].abs().max() == 0


def test_channels_of_all_kinds_stand_side_by_side():
    encode = AddPairEncodings(shortest_paths=2, random_walk=3, laplacian=1)
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = encode(Data(edge_index=edge_index, num_nodes=3))
    assert encode.channels == graph.pair_attr.shape[1] == 8
    dense = graph.pair_attr.view(3, 3, 8)
    assert torch.equal(dense[..., :4], shortest_paths(edge_index, 3, 2))
    assert torch.equal(dense[..., 4:7], random_walks(edge_index, 3, 3))
    assert repr(encode) == "AddPairEncodings(shortest_paths=2, random_walk=3, laplacian=1)"


def test_a_loader_keeps_them_in_place():
    encode = AddPairEncodings(shortest_paths=2)
    graphs = [encode(Data(edge_index=random_graph(size, size), num_nodes=size)) for size in (3, 1, 4)]
    (batch,) = DataLoader(graphs, batch_size=3)
    packing = Packing.of(batch.edge_index, batch.num_nodes, batch.batch)
    dense = packing.pack_pairs(batch.pair_attr)
    for number, graph in enumerate(graphs):
        size = graph.num_nodes
        assert torch.equal(dense[number, :size, :size].flatten(0, 1), graph.pair_attr)
        assert dense[number, size:].abs().sum() == 0


def test_nothing_to_add_is_refused():
    with pytest.raises(ValueError, match="pairs must get between 1 and 1024 channels, got 0"):
        AddPairEncodings()
    with pytest.raises(ValueError, match="data must be a graph with edge_index"):
        AddPairEncodings(random_walk=1)(Data(x=torch.zeros(2, 1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": torch.zeros(2, 1)}, r"edge_index must be of type torch\.int64"),
        ({"edge_index": torch.tensor([[0], [3]])}, "edge_index must be between 0 and 2, the last node, got 3"),
        ({"edge_index": torch.zeros(2, 1, dtype=torch.long, device="meta")}, "edge_index must be on the device"),
        ({"num_nodes": -1}, "num_nodes must be an integer between 0 and 65536, got -1"),
        ({"num_nodes": 2**40}, "num_nodes must be an integer between 0 and 65536"),
    ],
)
def test_wrong_graphs_are_named(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        AddPairEncodings(random_walk=1)(Data(**{"edge_index": torch.tensor([[0], [1]]), "num_nodes": 3, **changes}))
