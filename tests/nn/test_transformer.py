import pytest
import torch

from relational_transformer import RelationalTransformer, causal_mask
from tests.nn import oracle
from tests.nn.graphs import SIZES, make_graph, make_stack

MODES = ["cat", "core", "att"]


def make_inputs(*batch: int, num_nodes: int = 4):
    nodes, edges = make_graph(*batch, num_nodes=num_nodes, node_size=4, edge_size=3)
    return nodes, edges, torch.randn(*batch, 2)


@pytest.mark.usefixtures("double")
class TestAgainstTheEquations:
    @pytest.mark.parametrize("mode", MODES)
    def test_values(self, mode: str):
        model, inputs = make_stack(global_input_size=2, global_mode=mode), make_inputs()
        for ours, expected in zip(model(*inputs), oracle.run_stack(model, *inputs), strict=True):
            if expected is None:
                assert ours is None
            else:
                torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)

    def test_values_without_globals(self):
        model, (nodes, edges, _) = make_stack(), make_inputs()
        expected = oracle.run_stack(model, nodes, edges)
        for ours, want in zip(model(nodes, edges)[:2], expected[:2], strict=True):
            torch.testing.assert_close(ours, want, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("mode", MODES)
    def test_gradients(self, mode: str):
        model, inputs = make_stack(global_input_size=2, global_mode=mode), make_inputs(num_nodes=3)
        parameters = list(model.parameters())

        def loss(output):
            return sum((tensor**3).sum() for tensor in output if tensor is not None)

        ours = torch.autograd.grad(loss(model(*inputs)), parameters)
        expected = torch.autograd.grad(loss(oracle.run_stack(model, *inputs)), parameters)
        for got, want in zip(ours, expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_inputs_in_parts(mode: str):
    model, (nodes, edges, globals) = make_stack(global_input_size=2, global_mode=mode), make_inputs(2)
    whole = model(nodes, edges, globals)
    parts = model(nodes.split([1, 3], -1), edges.split([2, 1], -1), globals.split([1, 1], -1))
    for ours, expected in zip(parts, whole, strict=True):
        if expected is not None:
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_padding_changes_nothing(mode: str):
    model, (nodes, edges, globals) = make_stack(global_input_size=2, global_mode=mode), make_inputs(2, num_nodes=6)
    present = torch.arange(6) < 4
    inside = model(nodes[:, :4], edges[:, :4, :4], globals)
    padded = model(nodes, edges, globals, node_mask=present.expand(2, 6))
    torch.testing.assert_close(padded.nodes[:, :4], inside.nodes, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded.edges[:, :4, :4], inside.edges, rtol=1e-4, atol=1e-5)
    if mode == "core":
        torch.testing.assert_close(padded.globals, inside.globals, rtol=1e-4, atol=1e-5)


def test_an_attention_mask_leaves_the_core_in_sight():
    model, (nodes, edges, globals) = make_stack(global_input_size=2, global_mode="core"), make_inputs()
    alone = torch.eye(4, dtype=torch.bool)
    one, other = (model(nodes, edges, vector, attention_mask=alone).nodes for vector in (globals, globals + 1))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("mode", MODES)
def test_globals_broadcast_and_come_in_parts(mode: str):
    model, (nodes, edges, globals) = make_stack(global_input_size=2, global_mode=mode), make_inputs(2)
    for_all = globals[0]
    expected = model(nodes, edges, for_all.expand(2, 2))
    for given in (for_all, for_all[None], (for_all[:1].expand(2, 1), for_all[1:])):
        torch.testing.assert_close(model(nodes, edges, given).nodes, expected.nodes)
    same_nodes = model(nodes[0], edges[0], globals)
    torch.testing.assert_close(same_nodes.nodes[1], model(nodes[0], edges[0], globals[1]).nodes)


def test_a_core_node_tells_all_of_what_a_mask_hides():
    """As documented: without it the mask holds."""
    nodes, edges, globals = make_inputs()
    changed = nodes.clone()
    changed[..., -1, :] += 1
    for mode, meets in (("core", True), ("cat", False)):
        model = make_stack(global_input_size=2, global_mode=mode)
        one, other = (model(x, edges, globals, attention_mask=causal_mask(4)).nodes for x in (nodes, changed))
        assert torch.equal(one[..., 0, :], other[..., 0, :]) is not meets


def test_sizes_of_globals_are_checked():
    with pytest.raises(ValueError, match="global_input_size must be a positive integer, got -2"):
        RelationalTransformer(4, 3, -2, **SIZES)


@pytest.mark.parametrize("mode", MODES)
def test_masks_broadcast(mode: str):
    model, inputs = make_stack(global_input_size=2, global_mode=mode), make_inputs(2)
    columns, nodes = torch.tensor([[[True, True, False, True]]]), torch.tensor([[True]])
    narrow = model(*inputs, node_mask=nodes, attention_mask=columns)
    wide = model(*inputs, node_mask=nodes.expand(2, 4), attention_mask=columns.expand(2, 4, 4))
    torch.testing.assert_close(narrow.nodes, wide.nodes)


def test_globals_are_required_exactly_where_the_model_has_them():
    nodes, edges, globals = make_inputs()
    with pytest.raises(ValueError, match="globals must be given for a model with global_input_size=2"):
        make_stack(global_input_size=2)(nodes, edges)
    with pytest.raises(ValueError, match="globals must be None for a model with global_input_size=0"):
        make_stack()(nodes, edges, globals)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (
            torch.zeros(2, 5, 3),
            torch.zeros(2, 5, 5, 4),
            r"nodes must have 7 channels in the last axis, got shape \[2, 5, 3\]",
        ),
        (torch.zeros(7), torch.zeros(2, 5, 5, 4), r"nodes must have 2 axes or more, got shape \[7\]"),
        (torch.zeros(5, 7), None, "edges must have 4 channels in the last axis, got None"),
        (torch.zeros(5, 7), torch.zeros(5, 4), r"edges must have 3 axes or more, got shape \[5, 4\]"),
        ([[1.0] * 7], torch.zeros(1, 1, 4), "nodes must be a tensor or a tuple of tensors, got list"),
        (
            torch.zeros(2, 5, 7).long(),
            torch.zeros(2, 5, 5, 4),
            "nodes must be a floating-point tensor, got torch.int64",
        ),
        (torch.zeros(2, 5, 7), torch.zeros(3, 5, 5, 4), r"batch axes do not fit together: nodes \[2\], edges \[3\]"),
        ((torch.zeros(5, 4), torch.zeros(5, 4)), torch.zeros(5, 5, 4), r"got shape \[5, 4\] and \[5, 4\]"),
    ],
)
def test_what_a_model_cannot_read_is_named(nodes, edges, message: str):
    model = RelationalTransformer(7, 4, node_size=8, edge_size=8, num_heads=2, head_size=4, node_hidden_size=8)
    with pytest.raises(ValueError, match=message):
        model(nodes, edges)


def test_unknown_mode_lists_the_known_ones():
    with pytest.raises(ValueError, match="global_mode must be one of cat, core, att, got 'sum'"):
        RelationalTransformer(4, 3, **SIZES, global_mode="sum")


def test_reset_parameters_draws_anew():
    model = make_stack(global_input_size=2, global_mode="core")
    before = [parameter.clone() for parameter in model.parameters()]
    model.reset_parameters()
    unchanged = [torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert not any(unchanged)
