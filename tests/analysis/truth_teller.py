"""A network that says what it is told: the truth, but for what is made wrong on purpose."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from relational_transformer.clrs.spec import ProtocolName, Spec, Type, spec_of
from relational_transformer.reasoning.build import build_network
from relational_transformer.reasoning.features import Batch, FeatureGroup, Packed
from relational_transformer.reasoning.hints import as_numbers
from relational_transformer.reasoning.network import Carry, EncodedInputs, Network
from tests.training.small import SETTINGS

Wrong = Mapping[tuple[str, int], Callable[[Tensor], None]]
"""By name of a hint and number of the step, what changes its logits [B, ...] in place."""


class TruthTeller(Network):
    """Knows the batch that it packed last, and counts its steps."""

    wrong: Wrong

    def pack(self, *arguments, **keywords) -> Batch:
        self.batch = super().pack(*arguments, **keywords)
        return self.batch

    def initial_carry(self, inputs: EncodedInputs) -> Carry:
        self.number = 0
        return super().initial_carry(inputs)

    def advance(self, inputs, carry: Carry, hints, teacher_forced, keeps_output) -> Carry:
        batch = self.batch
        last = int(batch.lengths.max()) - 1
        self.number += 1
        now = {key: hint[min(self.number, last)] for key, hint in batch.hints.items()}
        said = {group.key: self._logits(group, now[group.key]) for group in self.hints}
        for group in self.hints:
            for slot, name in enumerate(group.names):
                self.wrong.get((name, self.number), lambda logits: None)(said[group.key][..., slot])
        outputs: Packed = {group.key: self._logits(group, batch.outputs[group.key]) for group in self.outputs}
        return carry._replace(hints=said, outputs=outputs)

    @staticmethod
    def _logits(group: FeatureGroup, truth: Tensor) -> Tensor:
        num_nodes = truth.shape[1] if group.node_axes else 0
        numbers = as_numbers(group, truth, num_nodes, torch.float32)
        return numbers.clone() if group.type == Type.SCALAR else 2 * numbers - 1


def truth_teller(algorithm: str | Spec, wrong: Wrong | None = None, protocol: ProtocolName = "paper") -> TruthTeller:
    spec = spec_of(algorithm, protocol=protocol) if isinstance(algorithm, str) else algorithm
    network = build_network(spec, SETTINGS)
    network.__class__ = TruthTeller
    assert isinstance(network, TruthTeller)
    network.wrong = wrong or {}
    return network


def choose_another(logits: Tensor) -> None:
    """Another node, or another class, at one element of the longest example."""
    of_one = logits[-1]
    if of_one.dim() > 1:
        of_one = of_one.flatten(0, -2)[0]
    of_one.copy_(of_one.roll(1, -1))


def say_the_opposite(logits: Tensor) -> None:
    """The same of a mask."""
    logits.view(len(logits), -1)[-1, 0].neg_()


def add(number: float) -> Callable[[Tensor], None]:
    """So much more, in the longest example alone."""

    def change(logits: Tensor) -> None:
        logits[-1].add_(number)

    return change
