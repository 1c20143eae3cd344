"""The predictions of a network that runs on its own hints, step by step, beside the truth."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from relational_transformer.clrs.spec import Type
from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.reasoning.features import Batch, FeatureGroup, Packed, unpack
from relational_transformer.reasoning.hints import as_numbers, decide, soften
from relational_transformer.reasoning.losses import element_counts
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count_all, mean_score
from relational_transformer.training.data import load_split


class RolledStep(NamedTuple):
    """One step of a network, and the hints that it should have predicted.

    Attributes:
        number: the number of these hints, from 1; hint 0 is given.
        logits: the logits of the hints, packed [B, ...].
        truth: the true hints of this number, packed [B, ...].
        is_running: whether an example has a hint of this number, bool [B].
        outputs: the logits of the outputs after each example's last step so far.
    """

    number: int
    logits: Packed
    truth: Packed
    is_running: Tensor
    outputs: Packed


@torch.no_grad()
def roll_out(network: Network, batch: Batch, *, true_hints: bool = False) -> Iterator[RolledStep]:
    """Yields every step that the longest example needs; memory does not grow with their number. A step sees the hints
    predicted by the previous step, or with `true_hints` the true ones.
    """
    encoded = network.encode_inputs(batch.inputs, batch.node_mask)
    carry = network.initial_carry(encoded)
    last = int(batch.lengths.max()) - 1
    for step in range(max(1, last)):
        is_first = torch.full_like(batch.lengths, step == 0, dtype=torch.bool)
        is_running = batch.lengths > step + 1
        seen, expected = (
            {key: hint[min(number, max(0, last))] for key, hint in batch.hints.items()} for number in (step, step + 1)
        )
        carry = network.advance(encoded, carry, seen, is_first | true_hints, is_running | is_first)
        yield RolledStep(step + 1, carry.hints, expected, is_running, carry.outputs)


class PredictedHint(NamedTuple):
    """A hint of B examples as a network predicts it, beside the true one. Entry 0 is given, so it is the true hint in
    both.

    Attributes:
        predicted: the decisions of the network, in the form of the data, [T, B, ...].
        probabilities: for a pointer (with a further axis of N) or a mask_one over the nodes, for a categorical over
            the classes, for a mask of being 1; None for a scalar.
        truth: the true hint, [T, B, ...].
        counted: which elements are scored, bool [T, B], [T, B, N] or [T, B, N, N]: those of predicted hints that have a
            meaning, before the example has ended. A mask_one is one element for a whole graph.
    """

    predicted: np.ndarray
    probabilities: np.ndarray | None
    truth: np.ndarray
    counted: np.ndarray


class Predictions(NamedTuple):
    """What a network predicts for some examples, by name: hints at every step, and the decisions of outputs, [B, ...];
    and the score of the outputs, as in a test."""

    hints: dict[str, PredictedHint]
    outputs: dict[str, np.ndarray]
    score: float


def predict_steps(network: Network, data: Trajectories, *, true_hints: bool = False) -> Predictions:
    """All predictions of a network for a few examples; memory grows with the number of steps.

    >>> from relational_transformer.clrs import sample
    >>> from relational_transformer.processors import Settings
    >>> from relational_transformer.reasoning import build_network
    >>> network = build_network("bfs", Settings(hidden_size=16, num_heads=2, num_layers=1))
    >>> data = sample("bfs", num_samples=2, length=5, seed=0)
    >>> said = predict_steps(network, data).hints["pi_h"]
    >>> said.predicted.shape == data.hints["pi_h"].shape, said.probabilities.shape[2:], said.counted.shape[2:]
    (True, (5, 5), (5,))
    """
    batch = load_split(network, data, next(network.parameters()).device).examples
    steps = list(roll_out(network, batch, true_hints=true_hints))
    later = torch.stack([torch.zeros_like(batch.lengths, dtype=torch.bool), *(step.is_running for step in steps)])
    hints: dict[str, PredictedHint] = {}
    for group in network.hints:
        logits = torch.stack([step.logits[group.key] for step in steps])
        hints |= _beside_truth(group, logits, batch.hints[group.key], later, data.num_nodes)
    decided = {group.key: decide(group, steps[-1].outputs[group.key]) for group in network.outputs}
    score = mean_score(network.outputs, count_all(network.outputs, steps[-1].outputs, batch.outputs)).item()
    return Predictions(hints, _as_arrays(network.outputs, decided), score)


def _beside_truth(
    group: FeatureGroup, logits: Tensor, truth: Tensor, is_running: Tensor, num_nodes: int
) -> dict[str, PredictedHint]:
    """The hints of a group, of logits [T - 1, B, ...], true ones [T, B, ...], and which examples run, bool [T, B]."""
    logits = logits[: len(truth) - 1]  # where no example has a step there is one all the same
    counted = element_counts(group, truth)
    counted = counted & is_running[: len(truth)].reshape(*truth.shape[:2], *(1,) * (counted.dim() - 2))
    predicted = torch.cat([truth[:1], decide(group, logits).to(truth.dtype)])
    arrays = [_as_arrays((group,), {group.key: tensor}) for tensor in (predicted, truth, counted)]
    probabilities: dict[str, np.ndarray] = {}
    if group.type != Type.SCALAR:
        given = as_numbers(group, truth[:1], num_nodes, logits.dtype)
        probabilities = _as_arrays((group,), {group.key: torch.cat([given, soften(group, logits)])})
    return {
        name: PredictedHint(arrays[0][name], probabilities.get(name), arrays[1][name], arrays[2][name])
        for name in group.names
    }


def _as_arrays(groups: Iterable[FeatureGroup], packed: Packed) -> dict[str, np.ndarray]:
    """Features by name; bfloat16, which numpy does not have, as float32."""
    return {
        name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()
        for name, tensor in unpack(groups, packed).items()
    }
