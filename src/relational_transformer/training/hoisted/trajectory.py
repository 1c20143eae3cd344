"""Runs the steps of a trajectory, with what they share computed once."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.network import Carry, Network
from relational_transformer.reasoning.steps import Step

from ..first_carry import like_later_ones
from ..fleet_methods import FleetMethods
from ..over_seeds import over_seeds
from ..precision import Precision, for_computing
from .plan import Plan, make_plan, tensors_of, with_tensors
from .shared_steps import SharedSteps


class _Planned(NamedTuple):
    """A plan, and the carry before the first step."""

    plan: Plan
    start: Carry


class HoistedTrajectory:
    """Runs the steps of a trajectory as `Network.training_step` would, as `SharedSteps`: what they share depends on
    parameters and inputs alone."""

    def __init__(self, methods: FleetMethods, network: Network, precision: Precision) -> None:
        self.methods, self.network = methods, network
        self.precision: Precision = precision
        self._plans: list[_Planned] = []  # one, when the first trajectory has come

    def share(self, other: "HoistedTrajectory") -> None:
        """Use what another of the same shapes traces and compiles."""
        self._plans = other._plans

    def run(self, values: Tensor, inputs: Packed, steps: list[Step]) -> Carry:
        """The carry after all steps, of parameters `values`, a vector like `fleet.values`, and inputs [S, B, ...]."""
        if not self._plans:
            self._plans.append(self._make_plan(values, inputs, steps[0]))
        ((plan, start),) = self._plans
        shared = SharedSteps(plan, [values], tensors_of((inputs, steps[0].totals)), len(steps))
        carry = like_later_ones(self.network, pytree.tree_map_only(Tensor, Tensor.detach, start))
        for step in steps:
            carry = with_tensors(carry, shared(*tensors_of((carry, step._replace(totals={})))))
        return carry

    def kept_bytes(self, num_steps: int) -> int:
        """What so many steps keep for the gradients of the weights."""
        return num_steps * sum(planned.plan.bytes_of_step for planned in self._plans)

    def _make_plan(self, values: Tensor, inputs: Packed, step: Step) -> _Planned:
        """The plan for parameters `values`, inputs and steps that look like these."""
        fleet = self.methods.fleet
        prepare = partial(for_computing, precision=self.precision)
        encode, begin, advance = (
            over_seeds(self.network, method, keep_axis=True)
            for method in ("encode_inputs", "initial_carry", "training_step")
        )
        with torch.no_grad():
            parameters = fleet.split(prepare(values.detach()))
            start = begin(parameters, encode(parameters, inputs))
        fixed, changing = (inputs, step.totals), (like_later_ones(self.network, start), step._replace(totals={}))

        def whole_step(values: Tensor, *tensors: Tensor) -> list[Tensor]:
            (inputs, totals), (carry, step) = with_tensors((fixed, changing), tensors)
            parameters = fleet.split(values)
            return tensors_of(advance(parameters, encode(parameters, inputs), carry, step._replace(totals=totals)))

        plan = make_plan(
            whole_step, [values], tensors_of(fixed), tensors_of(changing),
            prepare=prepare, device=self.methods.device, compiled=self.methods.compiled,
        )  # fmt: skip
        return _Planned(plan, start)
