"""Long products of few matrices, cut into pieces that are multiplied side by side.

The gradient of a fleet's weight is one product for every seed, a sum over all rows that the weight was applied to:
[S, M, K] x [S, K, N] with a K of many thousands. cuBLAS gives every block of its 128 x 128 numbers to one
multiprocessor, which adds them up alone; a plain product it cuts along K by itself, products for several seeds it does
not. Each piece is rounded to the dtype of the product before the pieces are added up in float32.
"""

import math
from typing import Any, cast

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from .hoisted.tracing import add_call, result_of, shape_of

aten = torch.ops.aten

MULTIPROCESSORS = 132
"""Of an H100 or H200 (as `nn.kernels.tiles` has it, which needs Triton). Not asked of the device: how a sum is cut, and
so what it comes to, depends on shapes alone."""

BLOCK = 128
"""Rows and columns of a product that one multiprocessor computes at a time."""

LONG_SUM = 8192
"""Shorter sums are left whole: adding up their pieces would take what cutting saves."""

FEWEST_ROWS = 512
"""Pieces are no shorter."""


class LongProducts(CustomGraphPass):
    """`cut_long_products` as a pass of Inductor, whose caches tell versions of this file apart by its hash."""

    def __call__(self, graph: Graph) -> None:
        cut_long_products(graph)

    def uuid(self) -> Any:
        return get_hash_for_files((__file__,))


def cut_long_products(graph: Graph) -> None:
    """Cut every batched product of a graph that leaves most of a device idle and whose sum is long.

    Products whose operands would have to be copied for it are left as they are.
    """
    for node in graph.find_nodes(op="call_function", target=aten.bmm.default):
        left, right = (result_of(operand) for operand in _operands(node))
        (batch, rows, length), columns = left.shape, right.shape[-1]
        if not all(isinstance(size, int) for size in (batch, rows, length, columns)):
            continue
        pieces = num_pieces(batch, rows, length, columns)
        if pieces > 1 and can_be_cut(left, dim=2) and can_be_cut(right, dim=1):
            _cut(graph, node, pieces)
    graph.lint()


def num_pieces(batch: int, rows: int, length: int, columns: int) -> int:
    """Into how many equal pieces to cut the sums of [batch, rows, length] x [batch, length, columns].

    As many as can be computed at once. A product that takes up half of the device by itself stays whole.

    >>> num_pieces(2, 512, 89_600, 128), num_pieces(2, 128, 89_600, 64), num_pieces(2, 128, 40, 64)
    (16, 64, 1)
    """
    blocks = batch * math.ceil(rows / BLOCK) * math.ceil(columns / BLOCK)
    if length < LONG_SUM or 2 * blocks >= MULTIPROCESSORS:
        return 1
    most = min(MULTIPROCESSORS // blocks, length // FEWEST_ROWS)
    return next(pieces for pieces in range(most, 0, -1) if length % pieces == 0)


def can_be_cut(operand: torch.Tensor, dim: int) -> bool:
    """Whether pieces of a dimension and the batch, the first one, are one dimension of the same memory."""
    return len(operand) == 1 or operand.stride(0) == operand.shape[dim] * operand.stride(dim)


def _operands(product: Node) -> tuple[Node, Node]:
    return cast(tuple[Node, Node], product.args)


def _cut(graph: Graph, product: Node, pieces: int) -> None:
    left, right = _operands(product)
    value = result_of(product)
    precise = torch.promote_types(value.dtype, torch.float32)
    with graph.inserting_before(product):
        left = _in_pieces(graph, add_call(graph, aten.permute.default, left, [0, 2, 1]), pieces)  # [S P, K / P, M]
        left = add_call(graph, aten.permute.default, left, [0, 2, 1])
        right = _in_pieces(graph, right, pieces)  # [S P, K / P, N]
        products = add_call(graph, aten.bmm.default, left, right)
        products = add_call(graph, aten.reshape.default, products, [len(value), pieces, *value.shape[1:]])
        total = add_call(graph, aten.sum.dim_IntList, products, [1], dtype=precise)
        if precise != value.dtype:
            total = add_call(graph, torch.ops.prims.convert_element_type.default, total, value.dtype)
    product.replace_all_uses_with(total)
    graph.erase_node(product)


def _in_pieces(graph: Graph, rows: Node, pieces: int) -> Node:
    """[S, K, ...] -> [S P, K / P, ...]."""
    batch, length, size = shape_of(rows)
    return add_call(graph, aten.reshape.default, _reshaped(rows), [batch * pieces, length // pieces, size])


def _reshaped(node: Node) -> Node:
    """What a node is a reshaping of. The compiler would copy where pieces are not whole parts of an earlier shape, but
    not if they are pieces of the memory itself."""
    while node.target in (aten.reshape.default, aten.view.default):
        source = node.all_input_nodes[0]
        if not result_of(source).is_contiguous():
            break
        node = source
    return node
