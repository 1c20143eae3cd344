"""The plain edge update, whose hidden sizes are padded where half precision wants aligned ones."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, vmap

from relational_transformer.nn import EdgeUpdate
from relational_transformer.nn import edge_update as function  # the module's name is the function's here
from relational_transformer.nn.alignment import padded
from relational_transformer.nn.edge_update import wants_aligned_sizes


@pytest.fixture
def always_aligned(monkeypatch) -> None:
    """Pad on this device and in any precision."""
    monkeypatch.setitem(function.__globals__, "wants_aligned_sizes", lambda edges: True)


def make_update(hidden_sizes: tuple[int, int]) -> EdgeUpdate:
    return EdgeUpdate(node_size=6, edge_size=8, hidden_sizes=hidden_sizes).double()


def result_and_gradients(update: EdgeUpdate) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randn(2, 4, 4, 8, generator=generator, dtype=torch.float64).requires_grad_()
    nodes = torch.randn(2, 4, 6, generator=generator, dtype=torch.float64).requires_grad_()
    result = update(edges, nodes)
    weights = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    return [result, *torch.autograd.grad((weights * result).sum(), [edges, nodes, *update.parameters()])]


def operations(update: EdgeUpdate) -> list[str]:
    program = torch.export.export(update.float(), (torch.randn(2, 4, 4, 8), torch.randn(2, 4, 6)))
    return [str(node.target) for node in program.graph.nodes]


def test_half_precision_on_cuda_wants_aligned_sizes(monkeypatch):
    def wants(device: str, dtype: torch.dtype) -> bool:
        return wants_aligned_sizes(torch.empty(1, 1, 1, 12, device=device, dtype=dtype))

    with FakeTensorMode():
        assert wants("cuda", torch.bfloat16)
        assert wants("cuda", torch.float16)
        assert not wants("cuda", torch.float32)
        assert not wants("cpu", torch.bfloat16)
        monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: True)
        monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.bfloat16)
        assert wants("cuda", torch.float32)


def test_padding_adds_zeros_up_to_a_multiple_of_eight():
    ones = torch.ones(12, 5)
    assert padded(ones, -1).shape == (12, 8)
    assert padded(ones, -2).shape == (16, 5)
    assert padded(ones, -1).sum() == padded(ones, -2).sum() == ones.sum()
    even = torch.ones(16, 8)
    assert padded(even, -1) is padded(even, -2) is even


@pytest.mark.parametrize("hidden_sizes", [(16, 12), (5, 8), (5, 3), (16, 8)])
def test_padding_changes_no_result_and_no_gradient(hidden_sizes, request):
    update = make_update(hidden_sizes)
    expected = result_and_gradients(update)
    request.getfixturevalue("always_aligned")
    for ours, theirs in zip(result_and_gradients(update), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("always_aligned")
def test_padding_works_under_vmap():
    updates = [make_update((5, 12)) for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(updates)  # pyright: ignore[reportArgumentType]
    edges, nodes = torch.randn(3, 4, 4, 8, dtype=torch.float64), torch.randn(3, 4, 6, dtype=torch.float64)
    together = vmap(lambda *inputs: functional_call(updates[0], inputs[0], inputs[1:]))(parameters, edges, nodes)
    for update, own_edges, own_nodes, ours in zip(updates, edges, nodes, together, strict=True):
        torch.testing.assert_close(ours, update(own_edges, own_nodes), rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("always_aligned")
def test_padding_works_under_autocast_and_compiles_as_one_graph():
    update = make_update((5, 12)).float()
    edges, nodes = torch.randn(2, 4, 4, 8), torch.randn(2, 4, 6)
    expected = update(edges, nodes)
    torch.compiler.reset()
    compiled = torch.compile(update, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(edges, nodes), expected, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        rough = update(edges, nodes)
    assert (rough - expected).norm() / expected.norm() < 0.03


@pytest.mark.filterwarnings("ignore")  # the exporter warns about its own internals
@pytest.mark.usefixtures("always_aligned")
def test_only_odd_sizes_are_padded():
    assert any("pad" in name for name in operations(make_update((16, 12))))
    assert not any("pad" in name for name in operations(make_update((16, 8))))
