from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from relational_transformer import LayerOptions
from relational_transformer.pyg import AddPairEncodings, RelationalGraphModel
from tests.nn.graphs import randomise
from tests.pyg.graphs import make_graphs

SMALL = {"node_size": 8, "edge_size": 6, "num_heads": 2, "head_size": 4, "node_hidden_size": 8, "num_layers": 2}


def make_model(*args, **changes) -> RelationalGraphModel:
    model = RelationalGraphModel(*args, **{**SMALL, "edge_hidden_sizes": (4, 3), **changes})
    randomise(model)
    return model.double()


def make_data(*sizes: int) -> list[Data]:
    singles = [make_graphs((size,)) for size in sizes]
    return [Data(x=one.x.double(), edge_index=one.edge_index, edge_attr=one.edge_attr.double()) for one in singles]


@pytest.mark.parametrize("pooling", ["mean", "sum", "max", "none"])
def test_a_batch_gives_what_its_graphs_give(pooling: str):
    encode = AddPairEncodings(shortest_paths=2, random_walk=2)
    model = make_model(6, 3, edge_dim=5, pair_dim=encode.channels, pooling=pooling)
    graphs = [encode(graph) for graph in make_data(4, 1, 6)]
    for graph in graphs:
        graph.pair_attr = graph.pair_attr.double()
    expected = torch.cat([model(graph) for graph in graphs])
    (batch,) = DataLoader(graphs, batch_size=3)
    torch.testing.assert_close(model(batch), expected, rtol=1e-9, atol=1e-9)
    assert expected.shape == ((11 if pooling == "none" else 3), 3)


def test_it_is_the_dense_model_on_edges_and_what_stands_for_missing_ones():
    model, (graph,) = make_model(6, 2, edge_dim=5, pooling="sum"), make_data(4)
    edges = model.no_edge.expand(4, 4, -1).clone()
    for number, (j, i) in enumerate(graph.edge_index.T.tolist()):
        edges[i, j] = graph.edge_attr[number]
    nodes = model.transformer(graph.x, edges).nodes
    expected = model.readout_out(model.readout_in(nodes).relu()).sum(0, keepdim=True)
    torch.testing.assert_close(model(graph), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pooling", ["mean", "none"])
def test_order_of_nodes_and_edges_does_not_matter(pooling: str):
    model, (graph,) = make_model(6, 2, edge_dim=5, pooling=pooling), make_data(5)
    nodes, edges = torch.randperm(5), torch.randperm(graph.num_edges)
    shuffled = Data(
        x=graph.x[nodes], edge_index=nodes.argsort()[graph.edge_index[:, edges]], edge_attr=graph.edge_attr[edges]
    )
    expected = model(graph)[nodes] if pooling == "none" else model(graph)
    torch.testing.assert_close(model(shuffled), expected, rtol=1e-9, atol=1e-9)


def test_categories_are_sums_of_learnt_vectors():
    model = make_model((4, 3), 1, edge_dim=(2,), pooling="none")
    x, edge_index, kinds = torch.tensor([[3, 0], [1, 2]]), torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1], [0]])
    of_nodes, of_edges = model.node_features.vectors.weight, model.edge_features.vectors.weight
    torch.testing.assert_close(
        model.node_features(x), torch.stack([of_nodes[3] + of_nodes[4], of_nodes[1] + of_nodes[6]])
    )
    torch.testing.assert_close(model.edge_features(kinds), of_edges[[1, 0]])
    before = model(Data(x=x, edge_index=edge_index, edge_attr=kinds))
    after = model(Data(x=x, edge_index=edge_index, edge_attr=1 - kinds))
    assert (before - after).abs().max() > 1e-4


def test_an_edge_without_features_is_told_from_none():
    model = make_model(6, 1)
    x = torch.randn(3, 6).double()
    with_edge, without = (Data(x=x, edge_index=torch.tensor([[0], [1]])[:, :count]) for count in (1, 0))
    assert (model(with_edge) - model(without)).abs().max() > 1e-4


def test_every_parameter_gets_a_gradient():
    encode = AddPairEncodings(shortest_paths=2)
    model = make_model((4,), 1, edge_dim=(3,), pair_dim=encode.channels)
    graph = Data(x=torch.arange(4).unsqueeze(1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
                 edge_attr=torch.arange(3).unsqueeze(1))  # fmt: skip
    graph = encode(graph)
    graph.pair_attr = graph.pair_attr.double()
    model(graph).sum().backward()
    last = f"transformer.layers.{SMALL['num_layers'] - 1}.edge_update"  # nothing reads the last edges
    missing = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()]
    assert not [name for name in missing if not name.startswith(last)]


def test_a_last_graph_without_nodes_is_answered_with_zeros():
    model, (graph,) = make_model(6, 2, edge_dim=5), make_data(3)
    empty = Data(x=graph.x[:0], edge_index=graph.edge_index[:, :0], edge_attr=graph.edge_attr[:0])
    predictions = model(Batch.from_data_list([graph, empty]))
    torch.testing.assert_close(predictions, torch.cat([model(graph), torch.zeros(1, 2).double()]))


def test_it_is_saved_and_loaded(tmp_path: Path):
    pytest.importorskip("safetensors")
    model = make_model((4, 3), 1, edge_dim=(2,))
    model.save_pretrained(tmp_path)
    graph = Data(x=torch.tensor([[3, 0], [1, 2]]), edge_index=torch.tensor([[0], [1]]), edge_attr=torch.tensor([[1]]))
    assert torch.equal(RelationalGraphModel.from_pretrained(tmp_path)(graph), model(graph))


def test_its_layers_have_the_options_it_is_given():
    options = LayerOptions(pre_norm=True, activation="swiglu", log_scaling_size=5)
    model = make_model(3, 1, options=options)
    assert [layer.options for layer in model.transformer.layers] == [options] * len(model.transformer.layers)


def test_it_learns_whether_a_graph_is_in_one_piece():
    """A ring of six or two of three: local views are alike, and distances tell them apart."""
    torch.manual_seed(0)
    ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    triangles = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    encode = AddPairEncodings(shortest_paths=3)
    graphs = [
        encode(Data(x=torch.ones(6, 1), edge_index=torch.cat([one, one.flip(0)], dim=1))) for one in (ring, triangles)
    ]
    batch, wanted = Batch.from_data_list(graphs), torch.tensor([[0.0], [1.0]])
    model = RelationalGraphModel(1, 1, pair_dim=encode.channels, **SMALL)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = (model(batch) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.01


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "batch must be a PyG Data or Batch with x and edge_index, got Data"),
        ({"x": torch.zeros(2, 5)}, "x must have 6 channels"),
        ({"x": torch.zeros(2, 6, dtype=torch.long)}, "x must be a floating-point tensor"),
        ({"edge_attr": None}, "edge_attr must be given for a model with edge_dim=5"),
        ({"edge_attr": torch.zeros(3, 5)}, "edge_attr must have a row for each of the 2 edges"),
        ({"x": torch.zeros(1, 2, 6)}, r"x must be \[\.\., 6\], got shape \[1, 2, 6\]"),
        ({"x": torch.zeros(2, 6).double()}, r"x must have the dtype of the weights"),
        ({"edge_attr": torch.zeros(2, 5).double()}, r"edge_attr must have the dtype of the weights"),
        ({"edge_attr": torch.zeros(2, 5, device="meta")}, "edge_attr must be on the device of the weights"),
        ({"edge_index": torch.zeros(2, 2, dtype=torch.long, device="meta")}, "edge_index must hold numbers"),
        ({"pair_attr": torch.zeros(4, 2)}, "pair_attr must be None for a model with pair_dim=0"),
        ({"edge_index": torch.tensor([[0, 5], [1, 0]])}, "edge_index must be between 0 and 1, the last node, got 5"),
    ],
)
def test_wrong_batches_are_named(changes: dict, message: str):
    model = RelationalGraphModel(6, 1, edge_dim=5, **SMALL)
    given = {"x": torch.zeros(2, 6), "edge_index": torch.tensor([[0, 1], [1, 0]]), "edge_attr": torch.zeros(2, 5)}
    with pytest.raises(ValueError, match=message):
        model(Data(**{**given, **changes}))


def test_categories_out_of_range_are_named():
    model = RelationalGraphModel((4, 3), 1, **SMALL)
    with pytest.raises(ValueError, match=r"x\[:, 1\] must be between 0 and 2, got 3"):
        model(Data(x=torch.tensor([[0, 3]]), edge_index=torch.empty(2, 0, dtype=torch.long)))
    with pytest.raises(ValueError, match="x must be a tensor of integers"):
        model(Data(x=torch.zeros(1, 2), edge_index=torch.empty(2, 0, dtype=torch.long)))


def test_categories_are_integers_of_a_number_that_can_be_kept():
    with pytest.raises(ValueError, match=r"edge_dim\[0\] must be at most 10000000"):
        RelationalGraphModel(4, 1, (10**8, 3), **SMALL)
    with pytest.raises(ValueError, match=r"x must be a tensor of integers, got a tensor of torch\.complex64"):
        RelationalGraphModel((4,), 1, **SMALL)(
            Data(x=torch.zeros(2, 1, dtype=torch.complex64), edge_index=torch.empty(2, 0, dtype=torch.long))
        )


def test_pairs_have_the_channels_of_the_model():
    model = RelationalGraphModel(6, 1, pair_dim=2, **SMALL)
    graph = Data(x=torch.zeros(2, 6), edge_index=torch.tensor([[0], [1]]), pair_attr=torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"pair_attr must have 2 channels in its last axis, got shape \[4, 3\]"):
        model(graph)
