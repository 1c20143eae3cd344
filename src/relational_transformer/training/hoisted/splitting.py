"""The graph of a step cut in two: what is the same in all steps and computed once, and the step itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import getitem

import torch
from torch.fx import Graph, GraphModule, Node

from .distributing import distribute
from .terms import RESHAPES, Kind, Term, find_terms, without_reshapes
from .tracing import result_of, shape_of

aten = torch.ops.aten

VIEWS = (*RESHAPES, aten.expand.default, aten.permute.default, aten.transpose.int)
"""Operations that cost nothing, and whose results may take more memory than what they are made of."""


@dataclass(frozen=True)
class KeptTerm:
    """A `Term` after the cut.

    Attributes:
        weight: the number of what is learnt among the weights.
        tap: the number of the tap whose gradient is that of the term.
        shape: of the result, and of the gradient.
        row: the number of what is multiplied, among what a step leaves behind; None of a sum.
        row_shape: in which shape it is multiplied.
    """

    kind: Kind
    weight: int
    tap: int
    shape: torch.Size
    row: int | None
    row_shape: torch.Size | None


@dataclass(frozen=True)
class Pieces:
    """A step cut in two.

    Attributes:
        once: fixed tensors -> weights, others, and values that are not learnt, one after another. Weights are what
            `terms` are made of. Others, all else that is learnt, are one vector, if there are any.
        step: weights, others, values, taps, changing tensors -> results, and the rows that the terms multiply. A tap is
            added where terms end, so that its gradient is theirs; those of the weights are not computed.
        terms: all terms of a step.
        taps, rows: tensors without data like them.
    """

    once: GraphModule
    step: GraphModule
    terms: list[KeptTerm]
    num_weights: int
    has_others: bool
    taps: list[torch.Tensor]
    rows: list[torch.Tensor]


def split(traced: GraphModule, num_fixed: int, num_learnt: int = 1) -> Pieces:
    """Cut the graph of a step. Its first `num_fixed` inputs are the same in all steps; the first `num_learnt` of them
    are learnt."""
    nodes = [node for node in traced.graph.nodes if node.op == "call_function"]
    inputs = traced.graph.find_nodes(op="placeholder")
    (output,) = traced.graph.find_nodes(op="output")
    sorted_nodes = _sort(nodes, inputs[:num_fixed], inputs[num_fixed:], num_learnt)
    if distribute(traced.graph, sorted_nodes.fixed, sorted_nodes.learnt, _overwritten(nodes)):
        nodes = [node for node in traced.graph.nodes if node.op == "call_function"]
        sorted_nodes = _sort(nodes, inputs[:num_fixed], inputs[num_fixed:], num_learnt)
    overwritten = _overwritten(nodes)  # what is read of these depends on when
    ends = [node for node in sorted_nodes.changing if node not in overwritten]
    found = find_terms(ends, sorted_nodes.learnt, sorted_nodes.fixed | overwritten)
    return _Cut(traced, inputs[:num_fixed], inputs[num_fixed:], output, sorted_nodes, found).pieces()


@dataclass(frozen=True)
class _Sorted:
    """Nodes by what they depend on: `fixed` inputs, of which the `learnt` ones pass gradients on, or `changing` ones,
    in their order. All others are constants."""

    fixed: set[Node]
    learnt: set[Node]
    changing: list[Node]


def _sort(nodes: list[Node], fixed_inputs: list[Node], changing_inputs: list[Node], num_learnt: int) -> _Sorted:
    fixed, learnt = set(fixed_inputs), set(fixed_inputs[:num_learnt])
    changing, all_changing = [], {*changing_inputs, *_overwritten(nodes)}
    for node in nodes:
        before = node.all_input_nodes
        if node in all_changing or _is_random(node) or any(one in all_changing for one in before):
            all_changing.add(node)
            changing.append(node)
        elif any(one in fixed for one in before):
            fixed.add(node)
            if any(one in learnt for one in before) and _passes_gradients(node):
                learnt.add(node)
    return _Sorted(fixed, learnt, changing)


def _overwritten(nodes: Iterable[Node]) -> set[Node]:
    """Nodes that a later one writes into, and what they are views of: they must be made anew in every step."""
    found: set[Node] = set()
    for node in nodes:
        if _writes(node):
            written = node.all_input_nodes[0]
            found.add(written)
            while written.all_input_nodes and _shares_memory(written):
                written = written.all_input_nodes[0]
                found.add(written)
    return found


def _shares_memory(node: Node) -> bool:
    """Whether a result may be a view of what the node is given first."""
    schema = getattr(node.target, "_schema", None)
    aliases = schema is not None and any(result.alias_info is not None for result in schema.returns)
    return aliases or node.target in (*VIEWS, getitem)


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _passes_gradients(node: Node) -> bool:
    result = result_of(node)
    is_float = not isinstance(result, torch.Tensor) or result.dtype.is_floating_point
    return is_float and node.target != aten.detach.default


class _Cut:
    """Writes both graphs."""

    def __init__(
        self, traced: GraphModule, fixed_inputs: list[Node], changing_inputs: list[Node], output: Node,
        nodes: _Sorted, found: dict[Node, list[Term]],
    ) -> None:  # fmt: skip
        self.traced, self.fixed_inputs, self.changing_inputs = traced, fixed_inputs, changing_inputs
        self.output, self.nodes, self.found = output, nodes, found
        terms = [term for terms in found.values() for term in terms]
        self.rows = list(dict.fromkeys(without_reshapes(term.factor) for term in terms if term.factor is not None))
        self.weights = list(dict.fromkeys(term.learnt for term in terms))
        self.in_terms = {(term.user, term.learnt) for term in terms}
        crossing = [
            _source(one, self.nodes.fixed)
            for node in (*nodes.changing, output)
            for one in node.all_input_nodes
            if one in nodes.fixed and (node, one) not in self.in_terms
        ]
        used = list(dict.fromkeys(crossing))
        self.values = [node for node in used if node not in nodes.learnt]
        self.others = [node for node in used if node in nodes.learnt]

    def pieces(self) -> Pieces:
        return Pieces(
            self._once(), self._step(), list(self._terms()), len(self.weights), bool(self.others),
            [result_of(node) for node in self.found], [result_of(node) for node in self.rows],
        )  # fmt: skip

    def _terms(self) -> Iterable[KeptTerm]:
        for tap, terms in enumerate(self.found.values()):
            for term in terms:
                row = None if term.factor is None else self.rows.index(without_reshapes(term.factor))
                row_shape = None if term.factor is None else shape_of(term.factor)
                weight = self.weights.index(term.learnt)
                yield KeptTerm(term.kind, weight, tap, term.shape, row, row_shape)

    def _once(self) -> GraphModule:
        graph, made = Graph(), dict[Node, Node]()
        for node in self.fixed_inputs:
            made[node] = graph.placeholder(node.name)
        copy = _copier(graph, made)
        blocks = [graph.call_function(aten.reshape.default, (copy(node), [-1])) for node in self.others]
        blocks = [graph.call_function(aten._to_copy.default, (block,), {"dtype": self._dtype}) for block in blocks]
        others = [graph.call_function(aten.cat.default, (blocks,))] if blocks else []
        graph.output((*map(copy, self.weights), *others, *map(copy, self.values)))
        return GraphModule(self.traced, graph)

    @property
    def _dtype(self) -> torch.dtype:
        """Of the others: the widest, in which their gradients are added up."""
        return max((result_of(node).dtype for node in self.others), key=lambda dtype: dtype.itemsize)

    def _step(self) -> GraphModule:
        graph, made = Graph(), dict[Node, Node]()
        weights = {node: graph.placeholder(f"weight_{number}") for number, node in enumerate(self.weights)}
        vector = graph.placeholder("others") if self.others else None
        for number, node in enumerate(self.values):
            made[node] = graph.placeholder(f"value_{number}")
        taps = {node: graph.placeholder(f"tap_{number}") for number, node in enumerate(self.found)}
        for node in self.changing_inputs:
            made[node] = graph.placeholder(node.name)
        if vector is not None:
            sizes = [shape_of(node).numel() for node in self.others]
            blocks = graph.call_function(aten.split_with_sizes.default, (vector, sizes))
            for number, node in enumerate(self.others):
                block = graph.call_function(getitem, (blocks, number))
                block = graph.call_function(aten.view.default, (block, list(shape_of(node))))
                made[node] = graph.call_function(aten._to_copy.default, (block,), {"dtype": result_of(node).dtype})
        copy = _copier(graph, made)
        for node in self.nodes.changing:
            new = graph.node_copy(
                node, lambda one, node=node: weights[one] if (node, one) in self.in_terms else copy(one)
            )
            made[node] = graph.call_function(aten.add.Tensor, (new, taps[node])) if node in taps else new
        rows = [graph.call_function(aten.detach.default, (copy(node),)) for node in self.rows]
        (results,) = self.output.args
        graph.output((*map(copy, results), *rows))  # pyright: ignore[reportArgumentType]
        return GraphModule(self.traced, graph)


def _copier(graph: Graph, made: dict[Node, Node]) -> Callable[[Node], Node]:
    """What copies a node into a graph, with all that it needs and that is not there yet."""

    def copy(node: Node) -> Node:
        if node not in made:
            made[node] = graph.node_copy(node, copy)
        return made[node]

    return copy


def _source(node: Node, fixed: set[Node]) -> Node:
    """What a fixed node is a view of, if that is not larger: views are made where they are used."""
    while node.target in VIEWS and shape_of(node.all_input_nodes[0]).numel() <= shape_of(node).numel():
        (before, *_) = node.all_input_nodes
        assert before in fixed
        node = before
    return node
