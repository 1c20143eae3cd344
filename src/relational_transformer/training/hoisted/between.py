"""What lies between the layers of steps (`folded_steps.between`), with the gradients of what steps share made once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from relational_transformer.reasoning.folded_steps import Entered, FoldedCarry, between
from relational_transformer.reasoning.folding import Folded
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.steps import Step

from ..fleet_methods import FleetMethods
from ..over_seeds import over_seeds
from .plan import Plan, make_plan, tensors_of, with_tensors
from .shared_steps import SharedSteps
from .tracing import as_it_is

Between = Callable[[FoldedCarry, Step, Step, Tensor, Tensor | None], Entered]
"""`between` of one trajectory, given all but what its steps share."""


class _Planned(NamedTuple):
    """A plan, and the structure of what its steps make: empty tensors."""

    plan: Plan
    made: Entered


class SharedBetween:
    """Runs `between` as `SharedSteps`: what steps share is `Folded`, and the totals of the hints."""

    def __init__(self, methods: FleetMethods, network: Network) -> None:
        self.methods, self.network = methods, network
        self._plans: list[_Planned] = []  # one, when the first trajectory has come

    def share(self, other: "SharedBetween") -> None:
        """Use what another of the same shapes traces and compiles."""
        self._plans = other._plans

    def begin(self, folded: Folded, like: Entered, steps: list[Step]) -> Between:
        """What runs from one of these steps to the next; what it will be given looks like `like`."""
        if not self._plans:
            self._plans.append(self._make_plan(folded, like, steps))
        ((plan, made),) = self._plans
        shared = SharedSteps(plan, tensors_of(folded), tensors_of(steps[0].totals), len(steps) - 1)

        def run(carry: FoldedCarry, step: Step, following: Step, nodes: Tensor, edges: Tensor | None) -> Entered:
            return with_tensors(made, shared(*tensors_of(_changing(carry, step, following, nodes, edges))))

        return run

    def kept_bytes(self, num_steps: int) -> int:
        """What so many steps keep for the gradients of what they share."""
        return max(0, num_steps - 1) * sum(planned.plan.bytes_of_step for planned in self._plans)

    def _make_plan(self, folded: Folded, like: Entered, steps: list[Step]) -> _Planned:
        run = over_seeds(self.network, between, keep_axis=True)
        fixed = (folded, steps[0].totals)
        changing = _changing(like.carry, steps[0], steps[-1], like.nodes, like.edges)
        made: list[Entered] = []

        def step(*tensors: Tensor) -> list[Tensor]:
            (folded, totals), (carry, step, following, nodes, edges) = with_tensors((fixed, changing), tensors)
            made.append(run({}, folded, carry, step._replace(totals=totals), following, nodes, edges))
            return tensors_of(made[-1])

        plan = make_plan(
            step, tensors_of(folded), tensors_of(steps[0].totals), tensors_of(changing),
            prepare=as_it_is, device=self.methods.device, compiled=self.methods.compiled,
        )  # fmt: skip
        return _Planned(plan, pytree.tree_map_only(Tensor, lambda _: torch.empty(0), made[-1]))


def _changing(carry: FoldedCarry, step: Step, following: Step, nodes: Tensor, edges: Tensor | None) -> tuple[Any, ...]:
    """All that `between` is given and that changes from step to step: of the following step what is seen."""
    seen = following._replace(next_hints={}, totals={})
    return carry, step._replace(hints={}, totals={}), seen, nodes, edges
