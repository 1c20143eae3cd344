"""Attention and edge update by rows, run by the emulator: exactness, order of the warps, and when they are taken."""

import shutil

import pytest
import torch
from torch.func import functional_call, stack_module_state

from relational_transformer import RelationalTransformerLayer
from relational_transformer.nn import kernels
from relational_transformer.nn.kernels import attention_backward
from relational_transformer.nn.kernels.rows import fitting, takes_attention, takes_edge_update
from relational_transformer.nn.kernels.rows.chunks import capacity, rows_of_chunk
from relational_transformer.nn.kernels.rows.registers import compiled
from relational_transformer.nn.kernels.whole_layer import launching
from tests.nn.kernels.cases import (
    AttentionCase,
    EdgeUpdateCase,
    assert_at_most_twice_the_plain_error,
    output_and_gradients,
)
from tests.nn.kernels.whole_layer.emulation import COMPILER, emulated, recording

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")

Case = AttentionCase | EdgeUpdateCase


def attention(queries: int, keys: int, channels: int, **others) -> AttentionCase:
    return AttentionCase(queries, keys, heads=channels // 16, head_size=16, edge_size=channels, **others)


def edge_update(nodes: int, channels: int, **others) -> EdgeUpdateCase:
    return EdgeUpdateCase(nodes, channels, message_size=16, feed_size=8, **others)


@pytest.fixture
def launched() -> list[str]:
    """The names of the kernels that are launched from now on; they are run as well."""
    names: list[str] = []
    launching.set_emulator(recording(names))
    return names


FORWARD = [
    attention(1, 1, 128),
    attention(24, 24, 128),
    attention(9, 21, 192, masked=True, graphs=2),
    attention(7, 33, 128, masked=True, seeds=2),
    attention(5, 47, 192),
    attention(5, 57, 128, masked=True),
    attention(4, 64, 192, masked=True),
    attention(2, 150, 128),
    edge_update(1, 192),
    edge_update(21, 128, seeds=2, graphs=2),
    edge_update(24, 192),
    edge_update(33, 192),
    edge_update(64, 128),
]


@pytest.mark.parametrize("case", FORWARD, ids=str)
def test_forward_it_is_as_exact_as_the_plain_path_in_bfloat16(case: Case, launched: list[str]):
    fused, plain = case.functions()
    inputs = case.inputs(torch.bfloat16)
    with torch.no_grad():
        exact, theirs, ours = plain(*(tensor.double() for tensor in inputs)), plain(*inputs), fused(*inputs)
    assert len(launched) == 1
    assert (ours - exact).norm() <= 2 * (theirs - exact).norm()


GRADIENTS = [attention(2, 5, 128, masked=True), attention(1, 16, 192, graphs=2), attention(2, 33, 128, masked=True)]
GRADIENTS += [edge_update(5, 128), edge_update(9, 192, seeds=2)]


@pytest.mark.parametrize("case", GRADIENTS, ids=str)
def test_all_gradients_are_as_exact_as_those_of_the_plain_path(case: Case, launched: list[str]):
    assert_at_most_twice_the_plain_error(case, torch.bfloat16)
    if isinstance(case, EdgeUpdateCase):
        assert launched == ["edge_update_rows", "edge_backward_rows"]
    else:
        assert launched == ["attention_rows", *["attention_backward_rows"] * (case.keys >= 16)]


def test_gradients_made_in_pieces_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    """Rows that go through the buffer of queries and keys one after the other."""
    case = attention(2, 16, 128, graphs=2)
    fused, _ = case.functions()
    inputs, gradient = case.inputs(torch.bfloat16), torch.randn(1, 2, 2, 128).bfloat16()
    whole = output_and_gradients(fused, inputs, gradient)
    monkeypatch.setattr(attention_backward, "PAIR_BUFFER_BYTES", 16 * 2 * 128 * 2)
    for one, other in zip(output_and_gradients(fused, inputs, gradient), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("case", [attention(2, 17, 128), edge_update(5, 128)], ids=str)
def test_the_order_of_the_warps_changes_no_bit(case: Case):
    fused, _ = case.functions()
    inputs, found = case.inputs(torch.bfloat16), []
    gradient = torch.randn_like(inputs[0])
    for order in (0, 1, 2):
        launching.set_emulator(emulated(order))
        found.append(output_and_gradients(fused, inputs, gradient))
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_a_row_that_attends_to_nobody_gets_nothing():
    case = attention(3, 21, 128, masked=True)  # its first row is masked
    fused, _ = case.functions()
    with torch.no_grad():
        messages = fused(*case.inputs(torch.bfloat16))
    assert (messages[0, 0, 0] == 0).all()
    assert (messages[0, 0, 1:] != 0).any()


def test_a_layer_with_absent_nodes_is_as_exact_as_the_plain_one(launched: list[str]):
    sizes = {"node_size": 128, "edge_size": 128, "num_heads": 8, "node_hidden_size": 32}
    layer = RelationalTransformerLayer(**sizes).bfloat16()
    nodes, edges = torch.randn(2, 21, 128).bfloat16(), torch.randn(2, 21, 21, 128).bfloat16()
    mask = torch.arange(21) < torch.tensor([[21], [13]])
    nodes[~mask] = float("nan")
    ours = layer(nodes, edges, mask)
    assert launched == ["attention_rows", "edge_update_rows"]
    with kernels.use_kernels(False):
        theirs = layer(nodes, edges, mask)
        exact = layer.double()(nodes.double(), edges.double(), mask)
    present = mask, mask.unsqueeze(-1) & mask.unsqueeze(-2)
    for one, other, true, where in zip(ours, theirs, exact, present, strict=True):
        assert (one - true)[where].norm() <= 2 * (other - true)[where].norm()


@pytest.mark.parametrize("offset", [1, 4, 8])
def test_tensors_may_begin_anywhere_and_rows_may_lie_apart(offset: int):
    edges, weight = torch.randn(1, 3 * 17 * 128 + offset).bfloat16(), torch.randn(384, 128).bfloat16()
    packed, shifted = torch.randn(17, 384 + offset).bfloat16(), edges[0, offset:].view(3, 17, 128)
    query, key, value = packed[:3, :128], packed[:, 128:256], packed[:, offset + 256 :]
    with torch.no_grad():
        strided = kernels.relational_attention(query, key, value, shifted, weight, num_heads=8)
        alone = (tensor.contiguous() for tensor in (query, key, value, shifted.clone()))
        expected = kernels.relational_attention(*alone, weight, num_heads=8)
    assert torch.equal(strided, expected)


@pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals
def test_a_compiled_fleet_takes_them(launched: list[str]):
    sizes = {"node_size": 128, "edge_size": 128, "num_heads": 8, "node_hidden_size": 32}
    layers = [RelationalTransformerLayer(**sizes).bfloat16() for _ in range(2)]
    parameters, _ = stack_module_state(layers)
    inputs = torch.randn(2, 1, 3, 128).bfloat16(), torch.randn(2, 1, 3, 3, 128).bfloat16()
    fleet = torch.vmap(lambda values, *tensors: functional_call(layers[0], values, tensors).edges)
    torch.compiler.reset()
    compiled = torch.compile(fleet, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        found = [run(parameters, *inputs) for run in (fleet, compiled)]
    assert launched == 2 * ["attention_rows", "edge_update_rows"]
    assert torch.equal(*found)


def test_kernels_are_taken_on_request_only_and_where_they_fit():
    nodes, edges = torch.empty(2, 24, 192).bfloat16(), torch.empty(2, 24, 24, 192).bfloat16()
    assert takes_attention(nodes, edges, 12)
    assert not takes_attention(nodes, edges, 6)
    assert not takes_attention(nodes.float(), edges.float(), 12)
    assert not takes_attention(nodes[..., :176], edges[..., :176], 11)
    ends = nodes[..., :16], nodes[..., :16], torch.empty(8)
    assert takes_edge_update(edges, *ends, 1e-5)
    assert not takes_edge_update(edges, *ends, 1e-6)
    for mode in ("auto", False):
        with kernels.use_kernels(mode):
            assert not takes_attention(nodes, edges, 12)
            assert not takes_edge_update(edges, *ends, 1e-5)


@pytest.mark.parametrize(("channels", "most"), [(128, 400), (192, 272)])
def test_rows_that_fill_the_shared_memory_are_the_longest(channels: int, most: int):
    nodes = torch.empty(1, 1, channels, dtype=torch.bfloat16)
    for keys in (most, most + 16):
        edges = torch.empty(1, 1, keys, channels, dtype=torch.bfloat16)
        assert takes_attention(nodes, edges, channels // 16) == (keys <= most)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nothing_is_spilled_from_registers():
    most = 168  # of which 384 threads have as many
    assert compiled(launching.Kernel("edge_update_rows", channels=192)) == (most, 0)


def test_chunks_are_whole_rows_and_keep_all_blocks_busy():
    assert rows_of_chunk(graphs=1, queries=24, keys=24, blocks=264) == 1
    assert rows_of_chunk(graphs=128, queries=24, keys=24, blocks=264) == 4
    assert all(capacity(keys, rows_of_chunk(9, keys, keys, 2)) <= 128 for keys in range(1, 128))
    assert fitting.CHANNELS == (128, 192)
