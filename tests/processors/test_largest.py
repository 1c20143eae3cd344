"""The maximum along an axis: as `amax`, but in compiled code with a gradient that needs no equality of numbers."""

import ast
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from relational_transformer import processors, reasoning
from relational_transformer.processors.largest import largest
from relational_transformer.processors.pgn import MessagePassingLayer
from relational_transformer.reasoning.decoders import mask_outside, pool
from relational_transformer.reasoning.losses import log_probabilities

pytestmark = pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals


@pytest.mark.parametrize(("axis", "keepdim"), [(-1, False), (-2, True), (-3, False)])
@pytest.mark.parametrize("compiled", [False, True])
def test_it_is_the_maximum_with_its_gradient(axis: int, keepdim: bool, compiled: bool) -> None:
    values = torch.randn(3, 4, 5, 6, dtype=torch.float64, requires_grad=True)
    ours = torch.vmap(partial(largest, axis=axis, keepdim=keepdim))
    if compiled:
        ours = torch.compile(ours, backend="eager", fullgraph=True)
    results = ours(values), values.amax(axis, keepdim=keepdim)
    assert torch.equal(*results)
    seen = torch.randn_like(results[0])
    assert torch.equal(*(torch.autograd.grad(result, values, seen)[0] for result in results))


def test_elements_that_are_equal_share_the_gradient_and_in_compiled_code_the_first_gets_it() -> None:
    values = torch.tensor([1.0, 4.0, 4.0], requires_grad=True)
    compiled = torch.compile(partial(largest, axis=-1), backend="eager", fullgraph=True)
    gradients = [torch.autograd.grad(made, values)[0].tolist() for made in (largest(values, -1), compiled(values))]
    assert gradients == [[0, 0.5, 0.5], [0, 1, 0]]


LAYER = MessagePassingLayer(node_size=8, size=8)


def received(nodes: Tensor, edges: Tensor, adjacency: Tensor | None = None) -> Tensor:
    """The largest message to each node."""
    return LAYER.exchange(nodes, edges, nodes[:, 0], adjacency)[1]


MAXIMA: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pool": lambda nodes, _: pool(2 * nodes),
    "pool_of_some_nodes": lambda nodes, _: pool(2 * nodes, torch.arange(5).expand(2, 5) < 3),
    "log_probabilities": lambda _, edges: log_probabilities(2 * edges),
    "mask_outside": lambda _, edges: mask_outside(2 * edges, torch.eye(5, dtype=torch.bool), None),
    "messages": received,
    "messages_of_some_nodes": partial(received, adjacency=torch.eye(5, dtype=torch.bool)),
}


@pytest.mark.parametrize("function", MAXIMA.values(), ids=MAXIMA)
def test_compiled_no_gradient_asks_whether_computed_numbers_are_equal(function: Callable) -> None:
    graphs: list[GraphModule] = []

    def note(graph: GraphModule, _: list[Tensor]) -> GraphModule:
        graphs.append(graph)
        return graph

    inputs = torch.randn(2, 5, 8, requires_grad=True), torch.randn(2, 5, 5, 8, requires_grad=True)
    made = torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=note, bw_compiler=note))(*inputs)
    made.sum().backward()
    assert len(graphs) == 2
    assert [node.name for graph in graphs for node in equalities(graph)] == []


def equalities(graph: GraphModule) -> Iterator[torch.fx.Node]:
    """Where a graph compares two tensors of floating-point numbers for equality."""
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.eq.Tensor):
        if all(operand.meta["val"].is_floating_point() for operand in node.all_input_nodes):
            yield node


def test_an_equality_would_be_seen() -> None:
    values = torch.randn(3, 4, requires_grad=True)
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: torch.autograd.grad(x.amax(-1).sum(), x)[0])(values)
    assert len(list(equalities(graph))) == 1


def test_all_maxima_of_processors_and_of_networks_are_of_this_kind() -> None:
    files = [file for room in (processors, reasoning) for file in Path(*room.__path__).glob("*.py")]
    names = [file.name for file in files if takes_maxima(ast.parse(file.read_text()))]
    assert names == ["largest.py"]


def takes_maxima(code: ast.Module) -> bool:
    return any(getattr(node, "attr", None) in ("amax", "amin") for node in ast.walk(code))


@pytest.mark.slow
def test_compiled_it_has_a_gradient_where_sums_are_not_rounded() -> None:
    """Inductor keeps sums of bfloat16 numbers in float32 within a kernel, where none equals its rounded maximum."""
    given = torch.randn(7, 16).bfloat16().requires_grad_(), torch.randn(7, 16).requires_grad_()

    def loss() -> Tensor:
        nodes, change = given
        return (pool(nodes + change.square().bfloat16()).float() * torch.arange(16)).sum()

    losses = torch.compile(loss, fullgraph=True, dynamic=False)(), loss()
    for ours, theirs in zip(*(torch.autograd.grad(made, given) for made in losses), strict=True):
        assert (ours - theirs).norm() <= 0.05 * theirs.norm()
