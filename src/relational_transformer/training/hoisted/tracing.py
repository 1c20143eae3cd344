"""A function of tensors as a graph of operations, all seeds and their axis written out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx


def trace(function: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], for_compiler: bool) -> GraphModule:
    """The operations of `function(*tensors)` as autograd sees them, for tensors of these shapes.

    With `for_compiler` the function is asked for what it does when it is compiled (`torch.compiler.is_compiling()`).
    """
    leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
    # Whoever looks at what autograd saves (`memory.py`) is not to look at tensors without data.
    with _seen_as_compiled(for_compiler), torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
        graph = make_fx(function, tracing_mode="fake")(*leaves)
    for node in graph.graph.nodes:
        if node.target in (torch.ops.aten.new_zeros.default, torch.ops.aten.zeros_like.default):
            _make_constant(node)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _make_constant(node: Node) -> None:
    """Zeros like another tensor as zeros of their own, which depend on nothing."""
    zeros = result_of(node)
    node.target = torch.ops.aten.zeros.default
    node.args, node.kwargs = (list(zeros.shape),), {"dtype": zeros.dtype, "device": zeros.device}


@contextmanager
def _seen_as_compiled(compiled: bool) -> Iterator[None]:
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = compiled
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def add_call(graph: Graph, target: Callable[..., Any], *arguments: Any, **options: Any) -> Node:
    """Add a call to a graph, with the tensor without data that it gives."""
    node = graph.call_function(target, arguments, options)
    with torch.no_grad():
        node.meta["val"] = target(*torch.fx.map_arg(arguments, result_of), **options)
    return node


def result_of(node: Node) -> Any:
    """What a node of a traced graph gives: a tensor without data, or several of them."""
    return node.meta["val"]


def shape_of(node: Node) -> torch.Size:
    return result_of(node).shape
