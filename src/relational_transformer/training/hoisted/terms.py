"""Where a step adds, or multiplies by, something learnt that is the same in all steps.

Such a term has a gradient that is a sum over the steps, of the gradient where the term ends and of what was multiplied:

$$y_t = x_t W + b \\qquad dW = \\sum_t x_t^\\top dy_t = [x_1; \\dots; x_T]^\\top [dy_1; \\dots; dy_T] \\qquad db = \\sum_t dy_t$$
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from .tracing import result_of, shape_of

aten = torch.ops.aten

RESHAPES: tuple[Any, ...] = (
    aten.view.default, aten._unsafe_view.default, aten.alias.default, aten.unsqueeze.default,
    aten.squeeze.dims, aten.squeeze.dim,
)  # fmt: skip
"""Operations that give the same numbers in the same order in another shape."""


@dataclass(frozen=True)
class Term:
    """x · W for a matrix of each seed, or + b.

    Attributes:
        learnt: W, [S, in, out] or what is laid out like it; or b, which may be smaller than what it is added to.
        factor: x, whose rows [S, ..., in] are multiplied; None of a sum.
        result: the node that multiplies or adds.
    """

    learnt: Node
    factor: Node | None
    result: Node


Terms = dict[Node, list[Term]]
"""The terms whose gradient is that of a node, perhaps in another shape."""


def find_terms(nodes: list[Node], learnt: Container[Node]) -> Terms:
    """All terms in the nodes of a step, given what is learnt and the same in all steps.

    A product and what is added to it right away are kept under one node, so that their gradient is kept once.
    """
    changing = set(nodes)
    found: Terms = {}
    for node in nodes:
        before = [argument for argument in node.args[:2] if isinstance(argument, Node)]
        fixed = [argument for argument in before if argument in learnt]
        others = [argument for argument in before if argument in changing]
        if is_product(node, fixed, others):
            found[node] = [Term(fixed[0], others[0], node)]
        elif is_sum(node):
            whole = [other for other in others if can_go_on(other, node)]
            joined = [term for other in whole for term in found.get(other, ())]
            if len(fixed) == 1 and (joined or shape_of(fixed[0]) == shape_of(node)):
                joined.append(Term(fixed[0], None, node))
            elif len(whole) < 2 or not all(other in found for other in whole):
                continue
            for other in whole:
                found.pop(other, None)
            found[node] = joined
        elif others and others[0] in found and keeps_numbers(node) and can_go_on(others[0], node):
            found[node] = found.pop(others[0])
    return found


def is_product(node: Node, fixed: list[Node], others: list[Node]) -> bool:
    """Whether a node is x · W: a product of matrices, or of columns [S, ..., 1] and a row [S, 1, ..., out]."""
    if len(fixed) != 1 or len(others) != 1:
        return False
    if node.target == aten.bmm.default:
        return node.args[1] is fixed[0]
    if node.target != aten.mul.Tensor:
        return False
    row, column = shape_of(fixed[0]), shape_of(others[0])
    one_for_each_seed = len(row) == len(column) and row[0] == column[0] and row.numel() == row[0] * row[-1]
    return one_for_each_seed and column[-1] == 1 and column.numel() > column[0]


def is_sum(node: Node) -> bool:
    return node.target == aten.add.Tensor and not node.kwargs and len(node.args) == 2


def can_go_on(before: Node, node: Node) -> bool:
    """Whether the gradient of `before` is that of `node`: nothing else uses it, and every number of it once."""
    sizes = shape_of(before), shape_of(node)
    return len(before.users) == 1 and sizes[0].numel() == sizes[1].numel() and sizes[0][0] == sizes[1][0]


def keeps_numbers(node: Node) -> bool:
    """Whether a node gives the numbers of another as they are, or rounded."""
    if node.target in RESHAPES:
        return True
    if node.target != aten._to_copy.default or set(node.kwargs) != {"dtype"}:
        return False
    before, after = result_of(node.args[0]).dtype, result_of(node).dtype  # pyright: ignore[reportArgumentType]
    return before.is_floating_point and after.is_floating_point and after.itemsize <= before.itemsize
