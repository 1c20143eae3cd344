"""What is run for every trajectory: traced, cut in two and compiled when the first one comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.network import Carry, Network
from relational_transformer.reasoning.steps import Step

from ..compiling import compiled_for
from ..first_carry import like_later_ones
from ..fleet_methods import FleetMethods
from ..over_seeds import over_seeds
from ..precision import Precision, for_computing
from .gradients import side_by_side, weight_gradients
from .splitting import Pieces, split
from .tracing import trace


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        pieces: a step cut in two.
        start: the carry before the first step.
        once: what `pieces.once` is compiled to.
        step: what `pieces.step` is compiled to.
        backward: parameters, the other fixed tensors, the gradients of weights and others -> that of the parameters.
    """

    pieces: Pieces
    start: Carry
    once: Callable[..., Sequence[Tensor]]
    step: Callable[..., Sequence[Tensor]]
    backward: Callable[..., Sequence[Tensor]]


def make_plan(
    methods: FleetMethods, network: Network, precision: Precision, values: Tensor, inputs: Packed, step: Step
) -> Plan:
    """The plan for parameters `values`, inputs and steps that look like these."""
    values = values.detach()
    computed = for_computing(values, precision).detach().requires_grad_()
    encode, begin, advance = (
        over_seeds(network, method, keep_axis=True) for method in ("encode_inputs", "initial_carry", "training_step")
    )
    with torch.no_grad():
        parameters = methods.fleet.split(computed)
        start = begin(parameters, encode(parameters, inputs))
    fixed = (computed, inputs, step.totals)
    arguments = (*fixed, like_later_ones(network, start), step._replace(totals={}))

    def whole_step(*tensors: Tensor) -> list[Tensor]:
        values, inputs, totals, carry, step = with_tensors(arguments, tensors)
        parameters = methods.fleet.split(values)
        return tensors_of(advance(parameters, encode(parameters, inputs), carry, step._replace(totals=totals)))

    _, *other_inputs = tensors_of(fixed)
    pieces = split(trace(whole_step, tensors_of(arguments), methods.compiled), 1 + len(other_inputs))
    backward, example = _trace_backward(pieces, values, other_inputs, precision, methods.compiled)
    graphs = (pieces.once, pieces.step, backward)
    plan = Plan(pieces, start, *(compiled_for(one, methods.device) if methods.compiled else one for one in graphs))
    with torch.no_grad():
        plan.backward(*example)  # compiled here, and not in the thread that autograd will call it from
    return plan


def _trace_backward(
    pieces: Pieces, values: Tensor, inputs: list[Tensor], precision: Precision, for_compiler: bool
) -> tuple[torch.fx.GraphModule, list[Tensor]]:
    """`Plan.backward` as a graph, and what it may be called with."""

    def learnt_of(values: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        return pieces.once(for_computing(values, precision), *inputs)[: pieces.num_weights + pieces.has_others]

    def backward(values: Tensor, *rest: Tensor) -> Sequence[Tensor]:
        with torch.enable_grad():
            leaf = values.detach().requires_grad_()
            results = zip(learnt_of(leaf, rest[: len(inputs)]), rest[len(inputs) :], strict=True)
            learnt = [(result, gradient) for result, gradient in results if result.requires_grad]
            return torch.autograd.grad([one for one, _ in learnt], leaf, [gradient for _, gradient in learnt])

    # The graph depends on how the gradients are laid out: so they are made once, of one step of zeros.
    with torch.no_grad():
        learnt = learnt_of(values, inputs)
        rows, taps = (
            [values.new_zeros(one.shape, dtype=one.dtype) for one in like] for like in (pieces.rows, pieces.taps)
        )
        weights, others = learnt[: pieces.num_weights], learnt[pieces.num_weights :]
        gradients = weight_gradients(pieces.terms, weights, side_by_side([rows]), side_by_side([taps]))
    example = [values, *inputs, *gradients, *others]
    graph = trace(backward, example, for_compiler)
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default  # a compiler may lay out otherwise what is seen in another shape
    graph.recompile()
    return graph, example


def tensors_of(tree: Any) -> list[Tensor]:
    """All tensors in nested dicts, tuples and named tuples, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def with_tensors(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """The same with other tensors, of which there may be more than are needed."""
    remaining = iter(tensors)
    return pytree.tree_map_only(Tensor, lambda _: next(remaining), tree)
