import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import Sequential

from relational_transformer.nn import LayerOptions
from relational_transformer.pyg import RelationalTransformerConv
from relational_transformer.pyg.sparse_edge_update import mean_of_reverse_edges
from tests.pyg.graphs import Graphs, make_conv, make_graphs, run_dense

MODES = ["sparse", "complete"]
both_modes = pytest.mark.parametrize("mode", MODES)
VARIANTS = [
    LayerOptions(pre_norm=True, norm="rms", activation="swiglu", log_scaling_size=7),
    LayerOptions(activation="gelu", gradient_checkpointing=True),
]
all_variants = pytest.mark.parametrize("options", VARIANTS, ids=["pre-norm", "gelu"])


class TestEqualsTheDenseLayer:
    @both_modes
    @settings(deadline=None, derandomize=True, max_examples=25)
    @given(
        sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
        density=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        update_edges=st.booleans(),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_on_random_graphs(self, mode: str, sizes: tuple[int, ...], density: float, update_edges: bool, seed: int):
        torch.manual_seed(seed)
        conv, graphs = make_conv(mode=mode, update_edges=update_edges), make_graphs(sizes, density)
        with torch.no_grad():
            for got, expected in zip(conv(*graphs), run_dense(conv, graphs), strict=True):
                torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)

    @both_modes
    @pytest.mark.parametrize("options", [LayerOptions(), *VARIANTS], ids=["published", "pre-norm", "gelu"])
    def test_in_its_gradients(self, mode: str, options: LayerOptions):
        conv, graphs = make_conv(mode=mode, options=options).double(), make_graphs((3, 4))
        graphs = Graphs(graphs.x.double(), graphs.edge_index, graphs.edge_attr.double(), graphs.batch)
        names, parameters = zip(*conv.layer.named_parameters(), strict=True)
        wanted = torch.randn_like(graphs.x), torch.randn_like(graphs.edge_attr)

        def gradients(output):
            return torch.autograd.grad(
                sum((got * want).sum() for got, want in zip(output, wanted, strict=True)), parameters
            )

        for name, got, expected in zip(
            names, gradients(conv(*graphs)), gradients(run_dense(conv, graphs)), strict=True
        ):
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")

    @both_modes
    def test_with_inputs_projected_first(self, mode: str):
        conv = make_conv(in_channels=4, edge_dim=3, mode=mode)
        graphs = make_graphs((3, 2))
        x, edge_attr = torch.randn(5, 4), torch.randn(len(graphs.edge_attr), 3)
        projected = Graphs(conv.node_input(x), graphs.edge_index, conv.edge_input(edge_attr), graphs.batch)
        with torch.no_grad():
            got = conv(x, graphs.edge_index, edge_attr, graphs.batch)
            for ours, expected in zip(got, run_dense(conv, projected), strict=True):
                torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_the_modes_are_one_on_complete_graphs():
    conv, graphs = make_conv(), make_graphs((4, 2, 1), density=1.0)
    sparse = conv(*graphs)
    conv.mode = "complete"
    for got, expected in zip(conv(*graphs), sparse, strict=True):
        torch.testing.assert_close(got, expected)


@both_modes
def test_gradcheck(mode: str):
    conv, graphs = make_conv(mode=mode).double(), make_graphs((3, 2))
    inputs = graphs.x.double().requires_grad_(), graphs.edge_attr.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, edge_attr: conv(x, graphs.edge_index, edge_attr, graphs.batch), inputs)


class TestOrientation:
    """An edge j -> i carries what j knows to i, and nothing to j."""

    @pytest.mark.parametrize("edge_attr_differs", [True, False])
    def test_only_the_target_hears(self, edge_attr_differs: bool):
        conv, edge_index = make_conv(), torch.tensor([[0], [1]])
        x, edge_attr = torch.randn(2, 6), torch.randn(1, 5)
        other_x, other_attr = x.clone(), edge_attr.clone()
        if edge_attr_differs:
            other_attr += 1
        else:
            other_x[0] += 1
        before, after = conv(x, edge_index, edge_attr)[0], conv(other_x, edge_index, other_attr)[0]
        assert (before[1] - after[1]).abs().max() > 1e-3
        assert edge_attr_differs == torch.equal(
            before[0], after[0]
        )  # its own change reaches node 0, the edge's does not

    @both_modes
    def test_attention_weights_name_source_and_target(self, mode: str):
        conv, graphs = make_conv(mode=mode), make_graphs((4, 1, 3), density=0.6)
        _, _, ((source, target), weights) = conv(*graphs, return_attention_weights=True)
        assert torch.equal(graphs.batch[source], graphs.batch[target])
        assert len(source) == (graphs.edge_index.shape[1] if mode == "sparse" else 4 * 4 + 1 + 3 * 3)
        sums = torch.zeros(8, 2).index_add(0, target, weights)
        heard = torch.zeros(8, 1).index_fill(0, target, 1.0)
        torch.testing.assert_close(sums, heard.expand(8, 2))

    def test_attention_weights_of_both_modes_agree_pair_by_pair(self):
        conv, graphs = make_conv(), make_graphs((4, 3), density=1.0)

        def by_pair():
            _, _, (edge_index, weights) = conv(*graphs, return_attention_weights=True)
            return {tuple(pair): weight for pair, weight in zip(edge_index.T.tolist(), weights.tolist(), strict=True)}

        sparse = by_pair()
        conv.mode = "complete"
        complete = by_pair()
        assert sparse.keys() == complete.keys()
        for pair, weights in sparse.items():
            assert weights == pytest.approx(complete[pair], abs=1e-6)


class TestTraps:
    @both_modes
    def test_order_of_nodes_and_edges_does_not_matter(self, mode: str):
        conv, graphs = make_conv(mode=mode), make_graphs((4, 2, 3))
        nodes, edges = torch.randperm(9), torch.randperm(len(graphs.edge_attr))
        renumbered = nodes.argsort()[graphs.edge_index[:, edges]]
        got = conv(graphs.x[nodes], renumbered, graphs.edge_attr[edges], graphs.batch[nodes])
        x, edge_attr = conv(*graphs)
        torch.testing.assert_close(got[0], x[nodes])
        torch.testing.assert_close(got[1], edge_attr[edges])

    @both_modes
    def test_graphs_do_not_hear_each_other(self, mode: str):
        conv, graphs = make_conv(mode=mode), make_graphs((4, 3))
        mine = graphs.batch == 0
        louder = graphs.x.where(mine.unsqueeze(-1), 9.0)
        before, after = conv(*graphs)[0], conv(louder, *list(graphs)[1:])[0]
        torch.testing.assert_close(before[mine], after[mine])

    @both_modes
    def test_no_edges_at_all(self, mode: str):
        conv = make_conv(mode=mode)
        x, edge_attr = conv(torch.randn(3, 6), torch.empty(2, 0, dtype=torch.long), torch.empty(0, 5))
        assert x.isfinite().all()
        assert edge_attr.shape == (0, 5)

    @both_modes
    def test_no_nodes_at_all(self, mode: str):
        conv = make_conv(mode=mode)
        nothing = torch.empty(2, 0, dtype=torch.long)
        x, edge_attr = conv(torch.empty(0, 6), nothing, torch.empty(0, 5), nothing[0])
        assert (x.shape, edge_attr.shape) == ((0, 6), (0, 5))

    def test_a_batch_with_a_graph_of_no_nodes(self):
        conv, graphs = make_conv(mode="complete"), make_graphs((3, 2))
        got = conv(graphs.x, graphs.edge_index, graphs.edge_attr, graphs.batch * 2 + 1)
        torch.testing.assert_close(got, conv(*graphs))

    def test_parallel_edges_are_attended_one_by_one(self):
        """Two alike weigh as much as one whose score is larger by log 2, and their order does not matter."""
        conv, x = make_conv(), torch.randn(3, 6)
        edge_index, edge_attr = torch.tensor([[0, 0, 2, 1], [1, 1, 1, 0]]), torch.randn(4, 5)
        new_x, new_edges, (_, weights) = conv(x, edge_index, edge_attr, return_attention_weights=True)
        torch.testing.assert_close(weights[:3].sum(0), torch.ones(2))
        swapped = torch.tensor([1, 0, 2, 3])
        again_x, again_edges = conv(x, edge_index, edge_attr[swapped])
        torch.testing.assert_close(again_x, new_x)
        torch.testing.assert_close(again_edges, new_edges[swapped])

    def test_parallel_edges_cannot_be_complete(self):
        conv = make_conv(mode="complete")
        with pytest.raises(ValueError, match="edge_index has 2 from node 0 to node 1: merge them first"):
            conv(torch.randn(2, 6), torch.tensor([[0, 1, 0], [1, 0, 1]]), torch.randn(3, 5))

    def test_edges_between_graphs_cannot_be_complete(self):
        conv = make_conv(mode="complete")
        with pytest.raises(ValueError, match="edge 1 leads from node 0 of graph 0 to node 2 of graph 1"):
            conv(torch.randn(3, 6), torch.tensor([[0, 0], [1, 2]]), torch.randn(2, 5), torch.tensor([0, 0, 1]))

    def test_a_missing_edge_is_not_a_zero_feature(self):
        torch.manual_seed(1)
        conv = RelationalTransformerConv(6, 6, heads=2, edge_dim=5, edge_channels=5, mode="complete")
        x, pair = torch.randn(2, 6), torch.tensor([[0], [1]])
        absent = conv(x, pair[:, :0], torch.empty(0, 5))[0]
        zero = conv(x, pair, torch.zeros(1, 5))[0]
        assert (absent[1] - zero[1]).abs().max() > 1e-2
        torch.testing.assert_close(absent[0], zero[0])


class TestConventions:
    @both_modes
    def test_sizes_are_taken_from_the_first_input(self, mode: str):
        graphs = make_graphs((3, 2))
        conv = RelationalTransformerConv(-1, 8, heads=2, edge_dim=-1, edge_channels=4, mode=mode)
        copied = copy.deepcopy(conv)
        assert conv(*graphs)[0].shape == (5, 8)
        assert conv.node_input.weight.shape == (8, 6)
        assert conv.edge_input.weight.shape == (4, 5)
        assert conv.node_input.weight.abs().max() <= 2 / 6**0.5  # the package's initialisation, cut at two sigma
        copied.load_state_dict(conv.state_dict())
        torch.testing.assert_close(copied(*graphs), conv(*graphs))
        with pytest.raises(ValueError, match="x must have 6 channels in its last axis"):
            conv(graphs.x[:, :4], graphs.edge_index, graphs.edge_attr, graphs.batch)
        with pytest.raises(ValueError, match=r"edge_attr must be \[E, 5\]"):
            conv(graphs.x, graphs.edge_index, graphs.edge_attr[:, :2], graphs.batch)

    def test_reset_parameters_starts_again(self):
        conv = RelationalTransformerConv(6, 8, heads=2, edge_dim=5)
        before = copy.deepcopy(conv.state_dict())
        conv.reset_parameters()
        fixed = {name for name, value in conv.state_dict().items() if torch.equal(value, before[name])}
        assert all(name.endswith("bias") or "norm" in name for name in fixed)
        assert len(fixed) < len(before)

    @both_modes
    def test_without_edge_features(self, mode: str):
        conv, graphs = make_conv(edge_dim=None, mode=mode), make_graphs((3, 2))
        x, edge_attr = conv(graphs.x, graphs.edge_index, batch=graphs.batch)
        everywhere = conv.some_edge.detach().expand(len(graphs.edge_attr), -1)
        expected = run_dense(conv, Graphs(graphs.x, graphs.edge_index, everywhere, graphs.batch))
        torch.testing.assert_close((x, edge_attr), expected, rtol=1e-5, atol=1e-5)

    def test_one_number_an_edge(self):
        conv, graphs = make_conv(edge_dim=1), make_graphs((3, 2))
        weight = torch.rand(len(graphs.edge_attr))
        flat, column = conv(graphs.x, graphs.edge_index, weight), conv(graphs.x, graphs.edge_index, weight.unsqueeze(1))
        assert torch.equal(flat[0], column[0])

    @both_modes
    def test_bfloat16_autocast(self, mode: str):
        conv, graphs = make_conv(mode=mode), make_graphs((4, 3))
        expected = conv(*graphs)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = conv(*graphs)
        for ours, exact in zip(got, expected, strict=True):
            assert (ours - exact).abs().mean() < 0.05

    def test_dropout_acts_in_training_only(self):
        conv, graphs = make_conv(dropout=0.5), make_graphs((4, 3))
        assert not torch.equal(conv(*graphs)[0], conv(*graphs)[0])
        conv.eval()
        assert torch.equal(conv(*graphs)[0], conv(*graphs)[0])

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"x": torch.zeros(2, 7)}, r"x must have 6 channels"),
            ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"edge_index must be \[2, E\]"),
            ({"edge_index": torch.zeros(2, 2)}, "edge_index must be of type torch.int64, got torch.float32"),
            (
                {"edge_index": torch.tensor([[0, 1], [2, 0]])},
                "edge_index must be between 0 and 1, the last node, got 2",
            ),
            ({"edge_index": torch.tensor([[0, -1], [1, 0]])}, "edge_index must be between 0 and 1, .* got -1"),
            ({"edge_attr": None}, "edge_attr must be given"),
            ({"edge_attr": torch.zeros(4, 5)}, "a row for each of the 2 edges"),
            ({"edge_attr": torch.zeros(2, 4)}, r"edge_attr must be \[E, 5\]"),
            ({"batch": torch.zeros(3, dtype=torch.long)}, r"batch must be \[2\]"),
            ({"batch": torch.zeros(2)}, "batch must be of type torch.int64, got torch.float32"),
            ({"batch": torch.tensor([0, -1])}, "batch must be 0 or more, got -1"),
        ],
    )
    def test_wrong_inputs_are_named(self, changes: dict, message: str):
        inputs = {"x": torch.zeros(2, 6), "edge_index": torch.tensor([[0, 1], [1, 0]]), "edge_attr": torch.zeros(2, 5)}
        with pytest.raises(ValueError, match=message):
            make_conv()(**{**inputs, **changes})

    @pytest.mark.parametrize("mode", ["sparse", "complete"])
    def test_nodes_may_be_numbered_with_32_bits(self, mode):
        conv, (x, edge_index, edge_attr, batch) = make_conv(mode=mode), make_graphs((4, 3))
        expected, narrow = conv(x, edge_index, edge_attr, batch), conv(x, edge_index.int(), edge_attr, batch.int())
        for ours, wanted in zip(narrow, expected, strict=True):
            assert torch.equal(ours, wanted)

    def test_pairs_beyond_32_bits_are_told_apart(self):
        nodes = 2**17
        edge_index = torch.tensor([[5, 0], [2**15, 5]])  # 2^15 * nodes + 5 would be 5, the number of 5 -> 0
        values, missing = torch.tensor([[1.0], [2.0]]), torch.tensor([-1.0])
        for numbers in (edge_index, edge_index.int()):
            assert mean_of_reverse_edges(values, numbers, nodes, missing).flatten().tolist() == [-1.0, -1.0]

    def test_wrong_settings_are_named(self):
        with pytest.raises(ValueError, match="heads must divide out_channels=8"):
            RelationalTransformerConv(4, 8, heads=3)
        with pytest.raises(ValueError, match="mode must be one of sparse, complete"):
            RelationalTransformerConv(4, 8, mode="dense")  # pyright: ignore[reportArgumentType]


class TestWithPyG:
    @both_modes
    def test_data_loader_batches_give_what_single_graphs_give(self, mode: str):
        conv = make_conv(mode=mode)
        singles = [make_graphs((size,)) for size in (4, 1, 6, 2)]
        data = [Data(x=one.x, edge_index=one.edge_index, edge_attr=one.edge_attr) for one in singles]
        loaded = 0
        for batch in DataLoader(data, batch_size=3):
            assert isinstance(batch, Batch)
            x, edge_attr = conv(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
            count = batch.num_graphs
            expected = [conv(*one) for one in singles[loaded : loaded + count]]
            torch.testing.assert_close(x, torch.cat([nodes for nodes, _ in expected]))
            torch.testing.assert_close(edge_attr, torch.cat([edges for _, edges in expected]))
            loaded += count
        assert loaded == 4

    def test_sequential_passes_nodes_and_edges_on(self):
        graphs = make_graphs((3, 2))
        signature = "x, edge_index, edge_attr, batch -> x, edge_attr"
        model = Sequential(
            "x, edge_index, edge_attr, batch", [(make_conv(), signature), (make_conv(mode="complete"), signature)]
        )
        x, edge_attr = model(*graphs)
        assert (x.shape, edge_attr.shape) == (graphs.x.shape, graphs.edge_attr.shape)


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that is made, forward or backward."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return result


def test_no_tensor_of_a_hundred_thousand_edges_is_wider_than_the_hidden_layer_of_their_update():
    """Queries, keys and values of edges are made some at a time."""
    num_nodes, num_edges, channels = 20_000, 100_000, 16
    conv = RelationalTransformerConv(channels, channels, heads=2, edge_dim=4, edge_channels=8)
    edge_index = torch.randint(num_nodes, (2, num_edges))
    with LargestTensor() as largest:
        x, edge_attr = conv(torch.randn(num_nodes, channels), edge_index, torch.randn(num_edges, 4))
        (x.sum() + edge_attr.sum()).backward()
    assert x.isfinite().all()
    assert edge_attr.shape == (num_edges, 8)
    assert largest.numel == conv.edge_hidden_channels[0] * num_edges


@both_modes
def test_edges_without_features_are_edges_with_one_learned_vector(mode: str):
    without, given = make_conv(mode=mode, edge_dim=None).double(), make_conv(mode=mode).double()
    given.load_state_dict({name: value for name, value in without.state_dict().items() if name != "some_edge"})
    x, edge_index, _, batch = make_graphs((4, 3))
    assert without.some_edge is not None
    edge_attr = without.some_edge.expand(edge_index.shape[1], -1)
    outputs = without(x.double(), edge_index, None, batch), given(x.double(), edge_index, edge_attr, batch)
    gradients = [torch.autograd.grad(sum(one.pow(3).sum() for one in output), without.some_edge) for output in outputs]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("changes", [{}, {"return_edges": False}, {"edge_dim": None}, {"options": VARIANTS[0]}])
def test_it_compiles_as_one_graph_for_all_numbers_of_nodes_and_edges(changes: dict):
    conv = make_conv(**changes)
    torch.compiler.reset()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    for sizes in ((4, 3), (6, 2, 5)):
        graphs = make_graphs(sizes)
        inputs = graphs.x, graphs.edge_index, None if "edge_dim" in changes else graphs.edge_attr
        torch.testing.assert_close(compiled(*inputs), conv(*inputs))


class TestOptions:
    @all_variants
    def test_modes_are_one_on_complete_graphs_in_attention_as_well(self, options: LayerOptions):
        conv, graphs = make_conv(options=options), make_graphs((4, 2), density=1.0)
        *sparse, (edges, weights) = conv(*graphs, return_attention_weights=True)
        conv.mode = "complete"
        *complete, (pairs, all_weights) = conv(*graphs, return_attention_weights=True)
        torch.testing.assert_close(sparse, complete)
        numbers = {tuple(pair): number for number, pair in enumerate(pairs.T.tolist())}
        torch.testing.assert_close(weights, all_weights[[numbers[tuple(edge)] for edge in edges.T.tolist()]])

    @all_variants
    def test_edges_without_features_have_the_norm_of_one_learned_vector(self, options: LayerOptions):
        without, given = make_conv(edge_dim=None, options=options), make_conv(options=options)
        given.load_state_dict({name: value for name, value in without.state_dict().items() if name != "some_edge"})
        x, edge_index, *_ = make_graphs((4, 3))
        expected = given(x, edge_index, without.some_edge.expand(edge_index.shape[1], -1))
        torch.testing.assert_close(without(x, edge_index), expected)

    @all_variants
    def test_one_list_of_nodes_is_two_alike(self, options: LayerOptions):
        conv, graphs = make_conv(options=options, return_edges=False), make_graphs((4,))
        expected = conv(graphs.x, graphs.edge_index, graphs.edge_attr)
        torch.testing.assert_close(conv((graphs.x, graphs.x.clone()), graphs.edge_index, graphs.edge_attr), expected)

    def test_attention_dropout_keeps_the_mean_and_acts_in_training_alone(self):
        conv, graphs = make_conv(options=LayerOptions(attention_dropout=0.5)), make_graphs((4,), density=1.0)
        attention = conv.sparse_attention
        inputs = *torch.randn(3, 4, 6), torch.randn(16, 18), graphs.edge_index
        whole = attention.eval()(*inputs)
        drops = [attention.train()(*inputs) for _ in range(400)]
        assert all(torch.equal(one.weights, whole.weights) for one in drops)
        messages = torch.stack([one.messages for one in drops])
        error = messages.std(0) / len(drops) ** 0.5
        assert (messages.std(0) > 0).all()
        assert ((messages.mean(0) - whole.messages).abs() < 6 * error).all()
        with pytest.raises(AssertionError):
            torch.testing.assert_close(conv.train()(*graphs), conv.eval()(*graphs))


def test_attention_weights_are_left_out_where_none_is_said():
    conv, graphs = make_conv(), make_graphs((3,))
    output = conv(graphs.x, graphs.edge_index, graphs.edge_attr, return_attention_weights=None)  # PyG's default
    assert len(output) == 2
