r"""Products of sums as sums of products, where most of them are then the same in all steps.

Encoded features of a step are $x = x_0 + \sum_k c_k E_k$: inputs, and columns of hints times learnt rows. A Linear that
reads them is

$$x W = x_0 W + \sum_k c_k \, (E_k W)$$

of which a step has but the multiples to add. Of a graph with N nodes x is of the size of N² edges, and W is a product
with each of them, forward and twice backward.
"""

import functools
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

from .terms import is_addition, without_reshapes
from .tracing import add_call, result_of, shape_of

aten = torch.ops.aten


class Multiple(NamedTuple):
    """A summand: something shared, [S, ..., in], times a column of the step, [S, ..., 1], if there is one."""

    shared: Node
    column: Node | None


def distribute(graph: Graph, fixed: Container[Node], learnt: Container[Node], overwritten: Container[Node]) -> bool:
    """Rewrite all products of such sums; whether there were any.

    Args:
        fixed: nodes that are the same in all steps.
        learnt: those of them that pass gradients on.
        overwritten: nodes that later ones write into, which are not what they seem.
    """
    found = False
    sums = _Sums(fixed, learnt, overwritten)
    for node in list(graph.nodes):
        if node.target != aten.bmm.default or node.args[1] not in learnt or node.args[0] in fixed:
            continue
        rows, weight = node.args
        assert isinstance(rows, Node)
        assert isinstance(weight, Node)
        summed = without_reshapes(rows, keep_rows=True)
        summands = sums.summands_of(summed)
        if summands:
            _Rewriting(graph, node, weight, shape_of(summed)).replace(summands)
            found = True
    if found:
        graph.eliminate_dead_code()
    return found


class _Sums(NamedTuple):
    """Takes sums to pieces; the nodes as `distribute` gets them."""

    fixed: Container[Node]
    learnt: Container[Node]
    overwritten: Container[Node]

    def summands_of(self, node: Node) -> list[Multiple] | None:
        """The summands of a sum that changes from step to step, if all are shared or multiples of what is learnt."""
        if node in self.overwritten:
            return None
        if node in self.fixed:
            return [Multiple(node, None)]
        if node.target == aten.zeros.default:
            return []
        before = [argument for argument in node.args[:2] if isinstance(argument, Node)]
        if is_addition(node) and len(before) == 2 and all(len(shape_of(one)) == len(shape_of(node)) for one in before):
            parts = [self.summands_of(one) for one in before]
            return None if None in parts else [summand for part in parts for summand in part or ()]
        if node.target == aten._to_copy.default and set(node.kwargs) == {"dtype"}:
            return self.summands_of(before[0])
        if node.target == aten.constant_pad_nd.default and _pads_with_zeros_at_the_end(node):
            return self.summands_of(before[0])
        if node.target == aten.mul.Tensor and len(before) == 2:
            rows = [one for one in before if one in self.learnt]
            columns = [one for one in before if one not in self.fixed and one not in self.overwritten]
            if len(rows) == len(columns) == 1 and _is_column_by_row(columns[0], rows[0]):
                return [Multiple(rows[0], columns[0])]
        return None


def _pads_with_zeros_at_the_end(node: Node) -> bool:
    _, sizes, *value = node.args
    at_the_end = isinstance(sizes, list | tuple) and len(sizes) == 2 and list(sizes[:1]) == [0]
    return at_the_end and value in ([], [0], [0.0])


def _is_column_by_row(column: Node, row: Node) -> bool:
    sizes = shape_of(column), shape_of(row)
    return len(sizes[0]) == len(sizes[1]) and sizes[0][-1] == 1 and sizes[1].numel() == sizes[1][0] * sizes[1][-1]


class _Rewriting:
    """Writes the sum of products that a product of a sum is, in front of it."""

    def __init__(self, graph: Graph, product: Node, weight: Node, shape: torch.Size) -> None:
        self.graph, self.product, self.weight = graph, product, weight
        self.dtype, self.out = result_of(product).dtype, shape_of(product)[-1]
        self.shape = torch.Size((*shape[:-1], self.out))

    def replace(self, summands: Sequence[Multiple]) -> None:
        with self.graph.inserting_before(self.product):
            products = self._products([summand.shared for summand in summands])
            total: Node | None = None
            # What steps multiply first: what is added to it then ends where it does.
            for shared, column in sorted(summands, key=lambda summand: summand.column is None):
                part = products[shared]
                part = part if column is None else self._call(aten.mul.Tensor, column, part)
                total = part if total is None else self._call(aten.add.Tensor, total, part)
            assert total is not None
            total = self._as(total, self.dtype)
            if shape_of(total) != self.shape:
                total = self._call(aten.clone.default, self._call(aten.expand.default, total, list(self.shape)))
            self.product.replace_all_uses_with(self._call(aten.view.default, total, list(shape_of(self.product))))

    def _products(self, shared: Iterable[Node]) -> dict[Node, Node]:
        """Each of what is shared, [S, ..., in], times W, [S, ..., out]. Single rows of a seed are one product."""
        rows = [node for node in shared if shape_of(node).numel() == shape_of(node)[0] * shape_of(node)[-1]]
        products = {node: self._times_weight(node, self.dtype) for node in shared if node not in rows}
        if rows:
            dtype = functools.reduce(torch.promote_types, [result_of(node).dtype for node in rows])
            seeds, *_, size = shape_of(rows[0])
            blocks = [self._as(self._call(aten.reshape.default, node, [seeds, 1, size]), dtype) for node in rows]
            made = self._times_weight(self._call(aten.cat.default, blocks, 1))
            for number, node in enumerate(rows):
                row = self._call(aten.slice.Tensor, made, 1, number, number + 1)
                products[node] = self._call(aten.reshape.default, row, [*shape_of(node)[:-1], self.out])
        return products

    def _times_weight(self, rows: Node, kept_in: torch.dtype | None = None) -> Node:
        """[S, ..., in] times W, [S, ..., out], in the more precise of both dtypes."""
        seeds, *_, size = shape_of(rows)
        weight = self.weight
        if size < shape_of(weight)[1]:  # what was padded
            weight = self._call(aten.slice.Tensor, weight, 1, 0, size)
        dtype = torch.promote_types(result_of(rows).dtype, result_of(weight).dtype)
        flat = self._call(aten.reshape.default, rows, [seeds, -1, size])
        made = self._call(aten.bmm.default, self._as(flat, dtype), self._as(weight, dtype))
        return self._call(aten.view.default, self._as(made, kept_in or dtype), [*shape_of(rows)[:-1], self.out])

    def _as(self, node: Node, dtype: torch.dtype) -> Node:
        return node if result_of(node).dtype == dtype else self._call(aten._to_copy.default, node, dtype=dtype)

    def _call(self, target: Any, *arguments: Any, **options: Any) -> Node:
        return add_call(self.graph, target, *arguments, **options)
