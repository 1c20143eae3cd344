"""Inside PyG's own containers the layer gives what calling it by hand gives, forward and backward."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv, HeteroConv, Linear, MessagePassing, Sequential, to_hetero
from torch_geometric.utils import to_dense_batch

from relational_transformer.nn import record_attention
from relational_transformer.pyg import RelationalTransformerConv
from tests.nn.graphs import randomise
from tests.pyg.graphs import make_conv, make_graphs

TYPES = ["author", "paper"]
WRITES, CITES, WRITTEN = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author")


def assert_same(got: Callable[[], Tensor], expected: Callable[[], Tensor], parameters: list[nn.Parameter]) -> None:
    """Two computations agree in their value, and in the gradients of parameters."""
    values = got(), expected()
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-5)
    weight = torch.randn_like(values[0])
    of_got, of_expected = (
        torch.autograd.grad((value * weight).sum(), parameters, materialize_grads=True) for value in values
    )
    torch.testing.assert_close(of_got, of_expected, rtol=1e-4, atol=1e-5)
    assert any(gradient.abs().max() > 0 for gradient in of_got)


def node_conv(in_channels: int | tuple[int, int] = 6, **changes) -> RelationalTransformerConv:
    conv = make_conv(in_channels=in_channels, return_edges=False, **changes)
    return conv.eval()


def make_typed_graph() -> tuple[dict, dict, dict]:
    x = {"author": torch.randn(4, 6), "paper": torch.randn(5, 6)}
    edges = {
        WRITES: torch.tensor([[0, 1, 3, 3, 2], [0, 4, 1, 2, 4]]),
        CITES: torch.tensor([[0, 1, 4, 2], [1, 0, 2, 2]]),
        WRITTEN: torch.tensor([[0, 4, 1], [0, 1, 3]]),
    }
    return x, edges, {kind: torch.randn(index.shape[1], 5) for kind, index in edges.items()}


def test_nodes_alone_are_those_that_come_with_edges():
    both, graphs = make_conv(), make_graphs((4, 3))
    alone = node_conv()
    alone.load_state_dict(both.state_dict(), strict=False)
    parameters = list(alone.parameters())
    expected = dict(both.named_parameters())
    x = alone(*graphs)
    torch.testing.assert_close(x, both(*graphs)[0])
    ours = torch.autograd.grad(x.square().sum(), parameters, materialize_grads=True)
    theirs = torch.autograd.grad(
        both(*graphs)[0].square().sum(),
        [expected[name] for name, _ in alone.named_parameters()],
        materialize_grads=True,
    )
    torch.testing.assert_close(ours, theirs)
    assert not [name for name in alone.state_dict() if "edge_update" in name]


def test_in_gps_conv():
    graphs, conv = make_graphs((4, 3)), node_conv()
    gps = GPSConv(6, conv, heads=2, norm=None).eval()

    def by_hand() -> Tensor:
        local = conv(graphs.x, graphs.edge_index, graphs.edge_attr) + graphs.x
        dense, mask = to_dense_batch(graphs.x, graphs.batch.sort().values)
        attended = gps.attn(dense, dense, dense, key_padding_mask=~mask, need_weights=False)[0][mask] + graphs.x
        return local + attended + gps.mlp(local + attended)

    assert_same(
        lambda: gps(graphs.x, graphs.edge_index, graphs.batch.sort().values, edge_attr=graphs.edge_attr),
        by_hand,
        list(gps.parameters()),
    )


def test_gps_conv_resets_it():
    conv = node_conv()
    before = conv.no_edge.clone()
    GPSConv(6, conv, heads=2).reset_parameters()
    assert not torch.equal(conv.no_edge, before)


def test_in_sequential():
    graphs, (first, second) = make_graphs((4, 3)), (make_conv(), node_conv())
    model = Sequential(
        "x, edge_index, edge_attr",
        [(first, "x, edge_index, edge_attr -> x, edge_attr"), (second, "x, edge_index, edge_attr -> x"), nn.ReLU()],
    )

    def by_hand() -> Tensor:
        x, edge_attr = first(graphs.x, graphs.edge_index, graphs.edge_attr)
        return second(x, graphs.edge_index, edge_attr).relu()

    parameters = [*first.parameters(), *second.parameters()]
    assert_same(lambda: model(graphs.x, graphs.edge_index, graphs.edge_attr), by_hand, parameters)


def test_in_hetero_conv_with_two_lists_of_nodes():
    x, edge_index, edge_attr = make_typed_graph()
    convs = {WRITES: node_conv((6, 6)), CITES: node_conv(), WRITTEN: node_conv()}
    model = HeteroConv(convs, aggr="sum")

    def by_hand() -> Tensor:
        papers = convs[WRITES]((x["author"], x["paper"]), edge_index[WRITES], edge_attr[WRITES])
        papers = papers + convs[CITES](x["paper"], edge_index[CITES], edge_attr[CITES])
        authors = convs[WRITTEN]((x["paper"], x["author"]), edge_index[WRITTEN], edge_attr[WRITTEN])
        return torch.cat([authors, papers])

    def inside() -> Tensor:
        out = model(x, edge_index, edge_attr_dict=edge_attr)
        return torch.cat([out["author"], out["paper"]])

    assert_same(inside, by_hand, list(model.parameters()))


class TwoLayers(nn.Module):
    """What is written for one type of nodes, and made heterogeneous by PyG."""

    def __init__(self) -> None:
        super().__init__()
        self.first = RelationalTransformerConv((-1, -1), 8, heads=2, edge_dim=5, edge_channels=4, return_edges=False)
        self.second = RelationalTransformerConv(8, 6, heads=2, edge_dim=5, edge_channels=4, return_edges=False)
        self.head = Linear(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        x = self.first(x, edge_index, edge_attr).relu()
        return self.head(self.second(x, edge_index, edge_attr))


def test_in_to_hetero():
    x, edge_index, edge_attr = make_typed_graph()
    model = to_hetero(TwoLayers(), (TYPES, [WRITES, CITES, WRITTEN]), aggr="sum")
    model(x, edge_index, edge_attr)  # the sizes of the first layers are known now
    randomise(model)

    def layer(convs: nn.ModuleDict, x: dict[str, Tensor]) -> dict[str, Tensor]:
        def along(kind: tuple[str, str, str]) -> Tensor:
            ends = (x[kind[0]], x[kind[2]]) if kind[0] != kind[2] else x[kind[0]]
            return convs["__".join(kind)](ends, edge_index[kind], edge_attr[kind])

        return {"author": along(WRITTEN), "paper": along(WRITES) + along(CITES)}

    def by_hand() -> Tensor:
        hidden = {name: nodes.relu() for name, nodes in layer(model.first, x).items()}
        out = layer(model.second, hidden)
        return torch.cat([getattr(model.head, name)(out[name]) for name in TYPES])

    def inside() -> Tensor:
        out = model(x, edge_index, edge_attr)
        return torch.cat([out[name] for name in TYPES])

    assert_same(inside, by_hand, list(model.parameters()))


class TestTwoListsOfNodes:
    """A bipartite graph is the part of a graph in which sources hear nothing, and no edge leads back."""

    def test_targets_hear_what_they_hear_in_one_list(self):
        conv = make_conv()
        sources, targets, edge_attr = torch.randn(4, 6), torch.randn(3, 6), torch.randn(7, 5)
        edge_index = torch.tensor([[0, 1, 3, 3, 2, 1, 1], [0, 2, 1, 2, 0, 2, 1]])
        together = edge_index + torch.tensor([[0], [4]])
        x, edges = conv((sources, targets), edge_index, edge_attr)
        expected, _ = conv(torch.cat([sources, targets]), together, edge_attr)
        torch.testing.assert_close(x, expected[4:])
        assert edges.shape == (7, 5)

    def test_edges_hear_the_sources_as_they_came_and_the_new_targets(self):
        conv = make_conv()
        sources, targets, edge_attr = torch.randn(2, 6), torch.randn(2, 6), torch.randn(2, 5)
        edge_index = torch.tensor([[0, 1], [1, 0]])  # in one list these two would be each other's reverse
        x, edges = conv((sources, targets), edge_index, edge_attr)
        update = conv.layer.edge_update
        for number, (j, i) in enumerate(edge_index.T.tolist()):
            parts = torch.cat([edge_attr[number], conv.no_edge, sources[j], x[i]])
            middle = update.norm(edge_attr[number] + update.message_out(update.message_in(parts).relu()))
            new = update.feed_forward_norm(middle + update.feed_forward_out(update.feed_forward_in(middle).relu()))
            torch.testing.assert_close(edges[number], new)

    def test_each_may_have_its_own_channels(self):
        conv = RelationalTransformerConv((4, -1), 8, heads=2)
        x, edges = conv((torch.randn(3, 4), torch.randn(2, 7)), torch.tensor([[2], [1]]))
        assert (x.shape, edges.shape) == ((2, 8), (1, 8))
        assert (conv.source_input.in_features, conv.node_input.in_features) == (4, 7)

    @pytest.mark.parametrize(
        ("changes", "x", "message"),
        [
            ({"mode": "complete"}, (4, 4), "x and in_channels must be one each in mode='complete'"),
            ({"in_channels": (4, 5)}, 4, "x must have 5 channels in its last axis"),
            ({}, (4, 5), r"x\[1\] must have 4 channels in its last axis, got shape \[3, 5\]"),
            ({}, (4, None), r"x\[1\] must be a tensor, got None"),
            ({}, (4, 4, 4), "x must be one or two"),
            ({"in_channels": (4, 4, 4)}, 4, "in_channels must be one or two"),
            ({"in_channels": -1}, (4, 5), r"got 4 and 5: give in_channels=\(-1, -1\)"),
        ],
    )
    def test_what_does_not_fit_is_named(self, changes: dict, x: int | tuple, message: str):
        def nodes(channels: int | None) -> Tensor | None:
            return None if channels is None else torch.zeros(3, channels)

        given = tuple(map(nodes, x)) if isinstance(x, tuple) else nodes(x)
        settings = {"in_channels": 4, "out_channels": 4, **changes}
        with pytest.raises(ValueError, match=message):
            RelationalTransformerConv(**settings)(given, torch.tensor([[2], [1]]))

    def test_one_list_of_nodes_is_read_as_both_and_its_edges_lead_back(self):
        conv, graphs = make_conv(in_channels=(6, 6)), make_graphs((4, 3))
        one = make_conv()
        one.load_state_dict(conv.state_dict())
        torch.testing.assert_close(conv(*graphs), one(*graphs))

    def test_numbers_of_nodes_are_looked_at_one_list_at_a_time(self):
        conv, nodes = make_conv(edge_dim=None), (torch.zeros(4, 6), torch.zeros(2, 6))
        with pytest.raises(ValueError, match=r"edge_index\[1\] must be between 0 and 1, the last node, got 3"):
            conv(nodes, torch.tensor([[3], [3]]))


def test_it_is_a_message_passing_module():
    assert isinstance(make_conv(), MessagePassing)


def test_without_pyg_it_is_a_plain_module():
    program = """
import sys
sys.modules["torch_geometric"] = None  # importing it raises ModuleNotFoundError
import torch
from relational_transformer.pyg import RelationalTransformerConv
conv = RelationalTransformerConv(4, 8, heads=2)
print(list(conv(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))[0].shape), conv)
try:
    from relational_transformer.pyg import AddPairEncodings
except ModuleNotFoundError as error:
    print(error)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == [
        "[3, 8] RelationalTransformerConv(4, 8, heads=2, edge_dim=None, edge_channels=8)",
        "AddPairEncodings needs PyTorch Geometric: pip install '.[pyg]' in a checkout",
    ]


def test_packing_does_not_import_pyg():
    """It takes seconds, and only the layer needs it."""
    program = "import sys; from relational_transformer.pyg import Packing; print('torch_geometric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("mode", ["sparse", "complete"])
def test_attention_is_recorded_in_both_modes(mode: str):
    conv, graphs = make_conv(mode=mode), make_graphs((4,))
    model = Sequential("x, edge_index, edge_attr", [(conv, "x, edge_index, edge_attr -> x, edge_attr")])
    *_, (pairs, weights) = conv(*graphs, return_attention_weights=True)
    with record_attention(model) as recorded:
        model(graphs.x, graphs.edge_index, graphs.edge_attr)
    (name,) = (name for name, calls in recorded.items() if calls)
    assert name.endswith("sparse_attention" if mode == "sparse" else "layer.attention")
    (kept,) = recorded[name]
    source, target = pairs
    torch.testing.assert_close(kept if mode == "sparse" else kept[0, :, target, source].T, weights)
    assert not kept.requires_grad


class Nodes(nn.Module):
    """What an exporter wants: positional arguments, tensors in and out."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
        return self.conv(x, edge_index, edge_attr)


def test_export_leaves_the_numbers_of_nodes_and_edges_open():
    conv = Nodes(make_conv()).eval()
    first, second = make_graphs((4, 3)), make_graphs((9, 6, 1))
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = {"x": {0: nodes}, "edge_index": {1: edges}, "edge_attr": {0: edges}}
    program = torch.export.export(conv, (first.x, first.edge_index, first.edge_attr), dynamic_shapes=shapes)
    for graphs in (first, second):
        inputs = graphs.x, graphs.edge_index, graphs.edge_attr
        torch.testing.assert_close(program.module()(*inputs), conv(*inputs))


@pytest.mark.slow
def test_onnx_runtime_agrees_for_all_numbers_of_nodes_and_edges(tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    conv, path = Nodes(make_conv()).eval(), tmp_path / "conv.onnx"
    first, second = make_graphs((4, 3)), make_graphs((9, 6, 1))
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = {"x": {0: nodes}, "edge_index": {1: edges}, "edge_attr": {0: edges}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exporters warn about their own internals
        torch.onnx.export(
            conv, (first.x, first.edge_index, first.edge_attr), path, dynamic_shapes=shapes, dynamo=True, verbose=False
        )
    session = onnxruntime.InferenceSession(path)
    for graphs in (first, second):
        inputs = graphs.x, graphs.edge_index, graphs.edge_attr
        named = {one.name: tensor.numpy() for one, tensor in zip(session.get_inputs(), inputs, strict=True)}
        for got, expected in zip(session.run(None, named), conv(*inputs), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), expected.detach(), rtol=1e-4, atol=1e-5)
