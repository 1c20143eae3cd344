r"""Where a step adds, or multiplies by, something learnt that is the same in all steps.

The gradient of such a term is a sum over the steps, of the gradient where the term ends and of what was multiplied:

$$y_t = x_t W + b \qquad dW = \sum_t x_t^\top dy_t = [x_1; \dots; x_T]^\top [dy_1; \dots; dy_T] \qquad
db = \sum_t dy_t$$

So it is enough that a step leaves $x_t$ and $dy_t$ behind.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
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

FEW = 2**16
"""Numbers of a seed and step that are left behind without hesitation, such as those of all nodes. Sums over more of
them, such as those of all edges, are better made where the numbers are at hand."""


class Kind(Enum):
    """What becomes of something learnt: x · W, for a matrix of each seed; x ∘ w for a vector, or x · w; or + b."""

    PRODUCT = auto()
    SCALE = auto()
    DOT = auto()
    SUM = auto()


@dataclass(frozen=True)
class Term:
    """Something learnt that is added, or that something is multiplied by.

    Attributes:
        learnt: W, [S, in, out], or w or b, which may be repeated along some axes.
        factor: x, whose rows [S, ..., in] are multiplied; None of a sum.
        user: the node that multiplies or adds.
        shape: of the result, and so of the gradient.
    """

    kind: Kind
    learnt: Node
    factor: Node | None
    user: Node
    shape: torch.Size


Terms = dict[Node, list[Term]]
"""The terms whose gradient is that of a node, perhaps in another shape."""


def find_terms(nodes: Iterable[Node], learnt: Container[Node], fixed: Container[Node]) -> Terms:
    """All terms in the nodes of a step that change, given those that are the same in all steps, `learnt` or not.

    A product and what is added to it right away are under one node, so that their gradient is left behind once.
    """
    found: Terms = {}
    for node in nodes:
        before = [argument for argument in node.args[:2] if isinstance(argument, Node)]
        shared = [argument for argument in before if argument in learnt]
        others = [argument for argument in before if argument not in fixed]
        passed_on = [
            other for other in others if other in found and before.count(other) == 1 and can_go_on(other, node)
        ]
        if len(shared) == len(others) == 1 and node.target in (aten.bmm.default, aten.mul.Tensor):
            term = multiplication(node, shared[0], others[0])
            found |= {} if term is None else {node: [term]}
        elif is_addition(node) and len(shared) == len(others) == 1 and is_repeated_within(shared[0], node):
            if passed_on or shape_of(shared[0]) == shape_of(node) or is_little(node):
                _pass_on(found, passed_on, node)
                found[node].append(Term(Kind.SUM, shared[0], None, node, shape_of(node)))
        elif len(passed_on) == len(others) > 0 and (is_addition(node) or keeps_numbers(node)):
            _pass_on(found, passed_on, node)
        elif others and is_sum_of_rows(node) and are_scaled(found.get(others[0])) and len(others[0].users) == 1:
            found[node] = [replace(term, kind=Kind.DOT, shape=shape_of(node)) for term in found.pop(others[0])]
    return found


def _pass_on(found: Terms, before: list[Node], node: Node) -> None:
    found[node] = [term for one in before for term in found.pop(one)]


def multiplication(node: Node, shared: Node, other: Node) -> Term | None:
    """The term that a multiplication of `other` by something `shared` is, if it is one."""
    if node.target == aten.bmm.default:
        return Term(Kind.PRODUCT, shared, other, node, shape_of(node)) if node.args[1] is shared else None
    vector, rows = shape_of(shared), shape_of(other)
    if len(vector) != len(rows) or vector[0] != rows[0] or vector.numel() != vector[0] * vector[-1]:
        return None
    if rows[-1] == 1 and rows.numel() > rows[0]:  # columns [S, ..., 1] by a row [S, 1, ..., out]
        return Term(Kind.PRODUCT, shared, other, node, shape_of(node))
    if rows[-1] == vector[-1] and is_little(node):
        return Term(Kind.SCALE, shared, other, node, shape_of(node))
    return None


def is_repeated_within(shared: Node, node: Node) -> bool:
    """Whether each seed has its own of something added, repeated along other axes if at all."""
    return len(shape_of(shared)) == len(shape_of(node)) and shape_of(shared)[0] == shape_of(node)[0]


def are_scaled(terms: list[Term] | None) -> bool:
    return terms is not None and all(term.kind == Kind.SCALE for term in terms)


def is_little(node: Node) -> bool:
    shape = shape_of(node)
    return shape.numel() <= FEW * shape[0]


def is_addition(node: Node) -> bool:
    return node.target == aten.add.Tensor and not node.kwargs and len(node.args) == 2


def is_sum_of_rows(node: Node) -> bool:
    """Whether a node adds up the numbers of every row, along the last axis alone."""
    if node.target != aten.sum.dim_IntList or node.kwargs or len(node.args) != 2:
        return False
    (before,) = node.all_input_nodes
    return node.args[1] in ([-1], [len(shape_of(before)) - 1])


def without_reshapes(node: Node, *, keep_rows: bool = False) -> Node:
    """The node whose numbers another has in another shape, those of each seed together; with `keep_rows` in the same
    rows, along the last axis."""
    while node.target in (*RESHAPES, aten.expand.default):
        (before, *_) = node.all_input_nodes
        sizes = shape_of(before), shape_of(node)
        same_rows = sizes[0][-1:] == sizes[1][-1:] or not keep_rows
        if sizes[0].numel() != sizes[1].numel() or sizes[0][0] != sizes[1][0] or not same_rows:
            break
        node = before
    return node


def can_go_on(before: Node, node: Node) -> bool:
    """Whether the gradient of `before` is that of `node`, if numbers are kept: nothing else uses it, or repeats it."""
    if not isinstance(result_of(node), torch.Tensor):
        return False
    sizes = shape_of(before), shape_of(node)
    return len(before.users) == 1 and sizes[0].numel() == sizes[1].numel() and sizes[0][:1] == sizes[1][:1]


def keeps_numbers(node: Node) -> bool:
    """Whether a node gives the numbers of another as they are, or rounded."""
    if node.target in RESHAPES:
        return True
    if node.target != aten._to_copy.default or set(node.kwargs) != {"dtype"}:
        return False
    before, after = (result_of(one).dtype for one in (node.all_input_nodes[0], node))
    return before.is_floating_point and after.is_floating_point and after.itemsize <= before.itemsize
