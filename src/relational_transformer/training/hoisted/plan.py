"""What is run for every trajectory: traced, cut in two and compiled when the first one comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..compiling import compiled_for
from .gradients import gradients_over_steps, lie_side_by_side
from .splitting import Pieces, split
from .tracing import trace

Prepare = Callable[[Tensor], Tensor]
"""What is done to something learnt before steps see it, such as to round it."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        prepare: what is done first to each tensor that is learnt.
        pieces: a step cut in two.
        once: what `pieces.once` is compiled to.
        step: what `pieces.step` is compiled to.
        backward: what is learnt, the other fixed tensors, the gradients of weights and others -> those of what is
            learnt.
        joined: whether the gradient of a weight is one product of all steps, or added up over them.
    """

    prepare: Prepare
    pieces: Pieces
    once: Callable[..., Sequence[Tensor]]
    step: Callable[..., Sequence[Tensor]]
    backward: Callable[..., Sequence[Tensor]]
    joined: bool

    @property
    def bytes_of_step(self) -> int:
        """What a step leaves behind for the gradients of the weights: as it leaves it, and side by side if need be."""
        kept = (*self.pieces.rows, *self.pieces.taps)
        return (1 + self.joined) * sum(tensor.numel() * tensor.element_size() for tensor in kept)


def make_plan(
    step: Callable[..., list[Tensor]],
    learnt: Sequence[Tensor],
    inputs: Sequence[Tensor],
    changing: Sequence[Tensor],
    *,
    prepare: Prepare,
    device: torch.device,
    compiled: bool,
) -> Plan:
    """The plan for a step, `step(*learnt, *inputs, *changing)`, of tensors that look like these. What is `learnt` (it
    is given prepared) and the `inputs` are the same in all steps."""
    learnt = [tensor.detach() for tensor in learnt]
    prepared = [prepare(tensor).detach().requires_grad_() for tensor in learnt]
    traced = trace(step, [*prepared, *inputs, *changing], compiled)
    pieces = split(traced, len(learnt) + len(inputs), len(learnt))
    joined = lie_side_by_side(device, prepared[0].dtype)
    backward, example = _trace_backward(pieces, learnt, inputs, prepare, joined, compiled)
    graphs = (pieces.once, pieces.step, backward)
    once, one_step, last = (compiled_for(one, device) if compiled else one for one in graphs)
    plan = Plan(prepare, pieces, once, one_step, last, joined)
    with torch.no_grad():
        plan.backward(*example)  # compiled here, and not in the thread that autograd will call it from
    return plan


def _trace_backward(
    pieces: Pieces,
    learnt: Sequence[Tensor],
    inputs: Sequence[Tensor],
    prepare: Prepare,
    joined: bool,
    for_compiler: bool,
) -> tuple[torch.fx.GraphModule, list[Tensor]]:
    """`Plan.backward` as a graph, and what it may be called with."""
    num_learnt, num_fixed = len(learnt), len(learnt) + len(inputs)

    def weights_and_others(fixed: Sequence[Tensor]) -> Sequence[Tensor]:
        results = pieces.once(*map(prepare, fixed[:num_learnt]), *fixed[num_learnt:])
        return results[: pieces.num_weights + pieces.has_others]

    def backward(*tensors: Tensor) -> Sequence[Tensor]:
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in tensors[:num_learnt]]
            made = weights_and_others([*leaves, *tensors[num_learnt:num_fixed]])
            pairs = [pair for pair in zip(made, tensors[num_fixed:], strict=True) if pair[0].requires_grad]
            return torch.autograd.grad(
                [result for result, _ in pairs],
                leaves,
                [gradient for _, gradient in pairs],
                allow_unused=True,
                materialize_grads=True,
            )

    # The graph depends on how the gradients are laid out: so they are made once, of one step of zeros.
    with torch.no_grad():
        made = weights_and_others([*learnt, *inputs])
        rows, taps = (
            [learnt[0].new_zeros(one.shape, dtype=one.dtype) for one in like] for like in (pieces.rows, pieces.taps)
        )
        weights, others = made[: pieces.num_weights], made[pieces.num_weights :]
        gradients = gradients_over_steps(pieces.terms, weights, [rows], [taps], joined)
    example = [*learnt, *inputs, *gradients, *others]
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
