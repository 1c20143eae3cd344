"""Where a trained network goes wrong: the score of every hint by step, and which hint is the first to be wrong."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from relational_transformer.clrs.spec import Type
from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.fleet.precision import set_precision
from relational_transformer.reasoning.features import Batch, FeatureGroup, Packed
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count, count_all, mean_score, score
from relational_transformer.runs.checkpoint import load_trained
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.training.data import load_split, make_split
from relational_transformer.training.evaluation import CHANNELS_AT_ONCE, size_of_chunks
from relational_transformer.training.task import CLRSTask

from .rollout import RolledStep, roll_out

ENDS = (0.1, 0.25, 0.5, 0.75, 1.0)
SHARES = {f"to {high:.0%}": (low, high) for low, high in zip((0.0, *ENDS), ENDS, strict=False)}
RANGES = ("first", *SHARES, "last")
"""Stretches of a trajectory of L steps: step s is in a stretch if low < s / L <= high. The first and the last step are
stretches of their own as well."""

TOLERANCE = 0.25
"""A scalar is wrong if any of its elements is off by more than this many spreads."""

NEVER = 2**31
"""The first wrong step of a hint that is never wrong."""

DATA_SEED = 4
"""The seed of the graphs. It differs from that of the test, so that no choice is made on the test set."""


@dataclass(frozen=True)
class HintScore:
    """How one hint is predicted. A score is an accuracy, or the F1 of a mask, or the mean absolute error of a scalar.

    Attributes:
        spread: of a scalar, the standard deviation of its true values (their size, if they are all the same).
        by_range: the score in each of `RANGES`; None where no example has such a step.
        by_step: the score at every step, from the first.
        by_step_given_truth: the same for steps that see the true hints.
        given_truth: the score over all these steps.
        wrong_given_truth: the share of these steps, over all examples, at which any element of the hint is wrong.
        first: the share of examples in which this hint is wrong before all others. Several hints may be wrong at the
            same step. Scalars are never exact, so they never count as wrong before another hint.
        first_step: the median of the first wrong step, over examples in which the hint is ever wrong.
    """

    name: str
    type: Type
    spread: float | None
    by_range: Mapping[str, float | None]
    by_step: tuple[float, ...]
    by_step_given_truth: tuple[float, ...]
    given_truth: float
    wrong_given_truth: float
    first: float
    first_step: float | None


@dataclass(frozen=True)
class HintScores:
    """How networks of one algorithm predict its hints on graphs of one size.

    Attributes:
        nodes, examples: size and number of the graphs, summed over networks.
        running: by step, the number of examples that have it.
        hints: in the order of the network's groups.
        all_right: the share of examples in which no hint but scalars is ever wrong.
        output: the score of the outputs, as in a test; the mean over networks.
    """

    nodes: int
    examples: int
    running: tuple[int, ...]
    hints: tuple[HintScore, ...]
    all_right: float
    output: float


def score_steps(networks: Iterable[Network], data: Trajectories, device: torch.device) -> HintScores:
    """Run networks of one algorithm over all examples twice, once on their own hints and once on the true ones.

    Memory is bounded: examples are cut into chunks, and only counts are kept of each step.
    """
    own = given_truth = None
    first_wrong: list[Tensor] = []
    outputs: list[float] = []
    for network in networks:
        if not network.hints:
            raise ValueError("this model has no hints to score: its hint-mode is none")
        if own is None or given_truth is None:
            own, given_truth = Sums(network.hints, data, device), Sums(network.hints, data, device)
        counts: Packed = {}
        for batch in chunks(network, data, device):
            first, logits = _run(network, batch, own, true_hints=False)
            _run(network, batch, given_truth, true_hints=True)
            first_wrong.append(first)
            more = count_all(network.outputs, logits, batch.outputs)
            counts = {key: counts[key] + more[key] if counts else more[key] for key in more}
        outputs.append(mean_score(network.outputs, counts).item())
    if own is None or given_truth is None:
        raise ValueError("there is no network to score")
    return _summary(data, own, given_truth, torch.cat(first_wrong).cpu().numpy(), sum(outputs) / len(outputs))


def evaluate_hints(
    folder: RunFolder,
    device: torch.device,
    *,
    nodes: int | None = None,
    examples: int | None = None,
    data_seed: int | None = None,
    seed: int | None = None,
) -> HintScores:
    """How the networks of a run predict its hints: those of all seeds that did not fail, or of one seed. Examples have
    the form of test examples; by default also their number and size.

    >>> found = evaluate_hints(RunFolder("runs/bfs-rt-paper"), torch.device("cpu"), nodes=32)  # doctest: +SKIP
    """
    trained = load_trained(CLRSTask, folder)
    config = trained.config
    given = {"test_nodes": nodes, "evaluation_examples": examples}
    changes = {name: value for name, value in given.items() if value is not None}
    protocol = replace(config.protocol, **changes, test_data_seed=DATA_SEED if data_seed is None else data_seed)
    first = trained.number_of(seed)
    numbers = [first] if seed is not None else [number for number, is_good in enumerate(trained.good) if is_good]

    def network(number: int) -> Network:
        found = trained.model_of(number)
        set_precision(config.precision, found)
        return (found.bfloat16() if config.precision == "bf16" else found).to(device)

    return score_steps(map(network, numbers), make_split(config.task, "test", protocol), device)


def chunks(network: Network, data: Trajectories, device: torch.device) -> Iterator[Batch]:
    """The examples in order of length, in chunks that fit into memory."""
    at_once = max(1, CHANNELS_AT_ONCE[device.type] // (data.num_nodes**2 * network.hidden_size))
    size, order = size_of_chunks(len(data), at_once), np.argsort(data.lengths, kind="stable")
    for start in range(0, len(data), size):
        yield load_split(network, data.select(order[start : start + size]), device).examples


def _run(network: Network, batch: Batch, sums: "Sums", *, true_hints: bool) -> tuple[Tensor, Packed]:
    """The first step at which each hint is wrong, [B, H], and the logits of the outputs."""
    first = torch.full((len(batch.lengths), len(sums.names)), NEVER, device=batch.lengths.device)
    outputs: Packed = {}
    for step in roll_out(network, batch, true_hints=true_hints):
        wrong = sums.add(step, batch.lengths)
        first = torch.where(wrong & (first == NEVER), step.number, first)
        outputs = step.outputs
    return first, outputs


class Sums:
    """The counts from which scores are computed, `scores.count` of all H hints side by side, summed over examples.

    Attributes:
        by_step: [steps, 3, H].
        by_range: [R, 3, H].
        wrong: the number of steps, over all examples, at which each hint is wrong, [H].
        running: the number of examples that have the step, [steps].
        in_range: the number of steps in each range, over all examples, [R].
    """

    def __init__(self, groups: tuple[FeatureGroup, ...], data: Trajectories, device: torch.device) -> None:
        self.groups = groups
        self.names = [name for group in groups for name in group.names]
        self.spreads = {
            name: spread(data, name) for group in groups if group.type == Type.SCALAR for name in group.names
        }
        steps, hints = max(1, data.num_steps - 1), len(self.names)
        self.by_step = torch.zeros(steps, 3, hints, dtype=torch.float64, device=device)
        self.by_range = torch.zeros(len(RANGES), 3, hints, dtype=torch.float64, device=device)
        self.wrong = torch.zeros(hints, dtype=torch.long, device=device)
        self.running = torch.zeros(steps, dtype=torch.long, device=device)
        self.in_range = torch.zeros(len(RANGES), dtype=torch.long, device=device)

    def add(self, step: RolledStep, lengths: Tensor) -> Tensor:
        """Count a step. Returns whether each hint of each example is wrong, bool [B, H]."""
        found = [self._tally(group, step.logits[group.key], step.truth[group.key]) for group in self.groups]
        is_running = step.is_running
        counts = torch.cat([counts for counts, _ in found], dim=-1)  # [B, 3, H]
        counts = torch.where(is_running[:, None, None], counts, 0.0)
        wrong = torch.cat([wrong for _, wrong in found], dim=-1) & is_running.unsqueeze(-1)
        in_range = ranges_of(step.number, lengths - 1) & is_running.unsqueeze(-1)  # [B, R]
        self.by_step[step.number - 1] += counts.sum(0)
        self.by_range += torch.einsum("br,bch->rch", in_range.double(), counts)
        self.wrong += wrong.sum(0)
        self.running[step.number - 1] += is_running.sum()
        self.in_range += in_range.sum(0)
        return wrong

    def _tally(self, group: FeatureGroup, logits: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """By example: counts [B, 3, F], with absolute errors of a scalar; and whether anything is wrong, [B, F]."""
        if group.type == Type.SCALAR:
            errors = (logits - truth).double().abs().reshape(len(truth), -1, len(group.names))  # [B, elements, F]
            number = torch.full_like(errors[:, 0], errors.shape[1])
            largest = TOLERANCE * torch.tensor([self.spreads[name] for name in group.names], device=errors.device)
            counts = torch.stack([errors.sum(1), number, torch.zeros_like(number)], dim=1)
            return counts, (~(errors <= largest)).any(1)  # what is no number is wrong
        counts = torch.vmap(lambda logits, truth: count(group, logits.unsqueeze(0), truth.unsqueeze(0)))(logits, truth)
        hits, second, third = counts.unbind(1)
        return counts, (second + third if group.type == Type.MASK else second - hits) > 0

    def score(self, counts: Tensor) -> np.ndarray:
        """Scores [..., H] of counts [..., 3, H]."""
        blocks = counts.split([len(group.names) for group in self.groups], dim=-1)
        scores = [score(group, block.movedim(-2, 0)) for group, block in zip(self.groups, blocks, strict=True)]
        return torch.cat(scores, dim=-1).cpu().numpy()


def ranges_of(step: int, lengths: Tensor) -> Tensor:
    """Whether step number `step` is in each of `RANGES`, for trajectories of these lengths [B]; bool [B, R]."""
    share = step / lengths.clamp(min=1).double()
    within = [(low < share) & (share <= high) for low, high in SHARES.values()]
    return torch.stack([torch.full_like(within[0], step == 1), *within, lengths == step], dim=-1)


def spread(data: Trajectories, name: str) -> float:
    """The standard deviation of the true values of a scalar hint; their size, or 1, if they are all the same."""
    numbers = np.arange(data.num_steps)[:, None]
    values = data.hints[name][(numbers > 0) & (numbers < data.lengths)].astype(np.float64)
    if not values.size:
        return 1.0
    deviation = float(values.std())
    return deviation if deviation > 1e-6 else float(np.abs(values).max()) or 1.0


def _summary(data: Trajectories, own: Sums, given_truth: Sums, first_wrong: np.ndarray, output: float) -> HintScores:
    """`first_wrong` [examples, H] is the step at which each hint is wrong first."""
    types = [group.type for group in own.groups for _ in group.names]
    is_decision = [kind != Type.SCALAR for kind in types]
    earliest = first_wrong.min(1, where=is_decision, initial=NEVER)
    is_first = (first_wrong <= earliest[:, None]) & (first_wrong < NEVER)
    by_step, by_range = own.score(own.by_step), own.score(own.by_range)
    of_truth, all_of_truth = (own.score(counts) for counts in (given_truth.by_step, given_truth.by_step.sum(0)))
    wrong_share = (given_truth.wrong.double() / given_truth.running.sum().clamp(min=1)).tolist()
    is_there = own.in_range.tolist()

    def of(number: int, name: str, kind: Type) -> HintScore:
        steps = first_wrong[:, number][first_wrong[:, number] < NEVER]
        ranges = zip(RANGES, by_range[:, number].tolist(), is_there, strict=True)
        return HintScore(
            name=name,
            type=kind,
            spread=own.spreads.get(name),
            by_range={name: value if exists else None for name, value, exists in ranges},
            by_step=tuple(by_step[:, number].tolist()),
            by_step_given_truth=tuple(of_truth[:, number].tolist()),
            given_truth=float(all_of_truth[number]),
            wrong_given_truth=wrong_share[number],
            first=float(is_first[:, number].mean()),
            first_step=float(np.median(steps)) if len(steps) else None,
        )

    return HintScores(
        nodes=data.num_nodes,
        examples=len(data),
        running=tuple(own.running.tolist()),
        hints=tuple(of(number, name, kind) for number, (name, kind) in enumerate(zip(own.names, types, strict=True))),
        all_right=float((earliest == NEVER).mean()),
        output=output,
    )
