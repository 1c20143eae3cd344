"""The three models: sizes, equality with PyTorch Geometric's layers, and that padding changes no prediction."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from relational_transformer.lobster import SETTINGS, build_model, sample
from relational_transformer.lobster.data import GraphBatch, load_split
from relational_transformer.lobster.models.baselines import DenseGAT, DenseGCN
from relational_transformer.lobster.settings import ModelName, Settings
from tests.lobster.small import CPU, RELATIONAL, SMALL

ALONG_EDGES = replace(RELATIONAL, attention="edges")


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


@pytest.mark.parametrize(("name", "settings"), [*SMALL.items(), ("rt", ALONG_EDGES)])
def test_padding_changes_no_prediction(name: ModelName, settings: Settings):
    torch.manual_seed(0)
    model = build_model(name, settings).double()
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


def test_along_edges_a_node_hears_of_another_after_as_many_layers_as_there_are_steps_between():
    """Two layers on a path of four nodes: all nodes hear of node 0 if all attend, along edges only the next two."""
    edges = torch.zeros(4, 4, 1)
    for node in range(3):
        edges[node, node + 1] = edges[node + 1, node] = 1.0
    graphs = GraphBatch(torch.zeros(4, 3), edges, torch.ones(4, dtype=torch.bool))
    reached = {}
    for settings in (RELATIONAL, ALONG_EDGES):
        torch.manual_seed(0)
        model = build_model("rt", settings)
        start = model.first(graphs)
        changed = (start[0].index_add(0, torch.tensor([0]), torch.randn(1, settings.node_size)), start[1])
        ends = []
        for nodes, pairs in (start, changed):
            state = nodes, pairs
            for layer in model.layers:
                state = layer(graphs, state)
            ends.append(state[0])
        reached[settings.attention] = (ends[0] != ends[1]).any(-1).tolist()
    assert reached == {"all": [True, True, True, True], "edges": [True, True, True, False]}
