"""The three models: sizes, equality with PyTorch Geometric's layers, and that padding changes no prediction."""

import numpy as np
import pytest
import torch

from relational_transformer.lobster import SETTINGS, build_model, sample
from relational_transformer.lobster.data import GraphBatch, load_split
from relational_transformer.lobster.models.baselines import DenseGAT, DenseGCN
from relational_transformer.lobster.settings import ModelName
from tests.lobster.small import CPU, SMALL


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def batch(sizes: list[int], num_nodes: int, weighted: bool = False) -> GraphBatch:
    return load_split(sample(np.array(sizes), seed=7, weighted=weighted), CPU).gather(
        torch.arange(len(sizes)), num_nodes
    )[0]


def test_rt_has_the_papers_layers():
    with torch.device("meta"):
        model = build_model("rt", SETTINGS["rt"])
    assert len(model.layers) == 30
    assert {count(layer) for layer in model.layers} == {324_276}
    ends = 4 * 224 + 2 * 128 + (224 + 1) * 180 + 181
    assert count(model) == 30 * 324_276 + ends


@pytest.mark.parametrize(("name", "expected"), [("gcn", 132_933), ("gat", 136_773)])
def test_baselines_have_the_published_sizes_and_layers_that_start_alike(name: ModelName, expected: int):
    model = build_model(name, SETTINGS[name])
    assert count(model) == expected
    first = dict(model.layers[0].named_parameters())
    for layer in model.layers[1:]:
        for key, parameter in layer.named_parameters():
            assert parameter is not first[key]
            assert torch.equal(parameter, first[key])


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_a_dense_layer_is_that_of_pytorch_geometric(name: str):
    geometric = pytest.importorskip("torch_geometric.nn")
    ours = (DenseGCN if name == "gcn" else DenseGAT)(3 + 6, 6).double()
    theirs = (geometric.GCNConv if name == "gcn" else geometric.GATConv)(3 + 6, 6).double()
    with torch.no_grad():
        ours.bias.normal_()  # zero at first, which would hide it
    theirs.load_state_dict(ours.state_dict())
    graphs = GraphBatch(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in batch([9] * 4, 14)))
    hidden = torch.randn(4, 14, 6, dtype=torch.float64)
    (result,) = ours(graphs, (hidden,))
    for number in range(4):
        edge_index = graphs.edges[number, :, :, 0].nonzero().T
        expected = theirs(torch.cat([graphs.nodes[number], hidden[number]], dim=-1), edge_index)
        torch.testing.assert_close(result[number], expected)


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_the_initialisation_is_that_of_pytorch_geometric(name: str):
    geometric = pytest.importorskip("torch_geometric.nn")
    ours = (DenseGCN if name == "gcn" else DenseGAT)(67, 64)
    theirs = (geometric.GCNConv if name == "gcn" else geometric.GATConv)(67, 64)
    expected = theirs.state_dict()
    assert ours.state_dict().keys() == expected.keys()
    for key, value in ours.state_dict().items():
        assert value.shape == expected[key].shape
        assert float(value.abs().max()) == pytest.approx(float(expected[key].abs().max()), rel=0.2)


@pytest.mark.parametrize("name", ["rt", "gcn", "gat"])
def test_padding_changes_no_prediction(name: ModelName):
    torch.manual_seed(0)
    model = build_model(name, SMALL[name]).double()
    sizes = [4, 7, 12]
    together = model(batch(sizes, 24, weighted=True))
    lobsters = sample(np.array(sizes), seed=7, weighted=True)
    for number in range(len(sizes)):
        exact = int(lobsters.num_nodes[number])
        graph, _ = load_split(lobsters, CPU).gather(torch.tensor([number]), exact)
        torch.testing.assert_close(model(graph)[0], together[number])


@pytest.mark.parametrize(("name", "sees"), [("rt", True), ("gcn", False), ("gat", False)])
def test_only_rt_sees_the_lengths_of_edges(name: ModelName, sees: bool):
    torch.manual_seed(0)
    model = build_model(name, SMALL[name])
    graphs = batch([8] * 3, 12, weighted=True)
    unweighted = graphs._replace(edges=(graphs.edges != 0).to(graphs.edges.dtype))
    assert torch.equal(model(graphs), model(unweighted)) is not sees
