"""CLRS-30 as a task: a fleet of networks learns an algorithm and is tested on larger inputs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.clrs.spec import Spec, Stage, spec_of
from relational_transformer.clrs.task_sizes import MODERN_HINTS, TASK_SIZES
from relational_transformer.clrs.tracing import allocate
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.pieces import Parameters
from relational_transformer.fleet.precision import Precision, set_precision
from relational_transformer.processors.settings import Settings, find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.reasoning.network import Network
from relational_transformer.runs.checkpoint import load_trained
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.task import (
    FORWARD_AND_BACKWARD,
    Evaluation,
    Optimiser,
    Start,
    Task,
    count,
    without_values,
)

from .config import PROTOCOLS, TrainConfig, find_schedule
from .data import Split, draw, examples_of_test, examples_of_validation, load_split, make_split
from .evaluation import EDGES_WORTH_COMPILING, Evaluator, edges_of_steps
from .step import TrainingStep, linears_of_encoders

if TYPE_CHECKING:
    from .fresh import FreshData


class CLRSTask(Task[TrainConfig]):
    """A fleet of networks on one of the thirty algorithms, by the paper's protocol or the modern one.

    >>> from relational_transformer.processors import TUNED
    >>> from relational_transformer.training import Protocol
    >>> task = CLRSTask(TrainConfig("bfs", "rt", TUNED["rt"], Protocol(), seeds=(0, 1)))
    >>> task.num_steps, task.steps_of_part, task.examples_of_step
    (80000, 80, 4)
    """

    config_type = TrainConfig
    scores = ("train", "test")
    records_validation = True
    only_launches = True
    is_small = True

    @property
    def num_steps(self) -> int:
        return math.ceil(self.config.protocol.examples / self.config.settings.batch_size)

    @property
    def steps_of_part(self) -> int:
        return self.config.steps_of_part

    @property
    def examples_of_step(self) -> int:
        return self.config.settings.batch_size

    @property
    def optimiser(self) -> Optimiser:
        settings = self.config.settings
        return Optimiser(settings.learning_rate, clip=settings.gradient_clip, weight_decay=settings.weight_decay)

    def build(self) -> Network:
        return network_of(self.config)

    def linears(self, model: Network) -> Mapping[str, Tensor]:
        """The published training skips Linears whose gradient is zero; the modern protocol does not."""
        return {} if self.config.protocol.is_modern else linears_of_encoders(model)

    def start(self, start: Start) -> None:
        self._network, self._device, self._compiled = start.model, start.device, start.compiled
        self.fleet = start.fleet
        self._data = self._training_data(start)
        self.steps = self._data.steps
        self.evaluator = self._evaluator(self._load_split("val"), start.compiled)

    def load(self, part: int, position: int) -> None:
        self._data.load(part, position)

    @property
    def takes_last_of_ties(self) -> bool:
        return self.config.protocol.ties == "last"

    @property
    def compiling_pays_on_cuda(self) -> bool:
        """To compile for examples of several sizes, one by one, takes as long as to train (docs/performance.md)."""
        return not self.config.protocol.is_modern

    def validate(self, steps: int) -> dict[str, Tensor]:
        return {"validation": self.evaluator.scores(self.fleet.parameters)}

    def test(self, best: Parameters, tested: Sequence[bool]) -> dict[str, list[float]]:
        seen = self._data.head(len(self.evaluator.split))
        return {"train": self._scores(seen, best), "test": self._scores(self._load_split("test"), best)}

    @classmethod
    def evaluate(
        cls, folder: RunFolder, device: torch.device, nodes: int | None = None, examples: int | None = None,
        data_seed: int | None = None,
    ) -> Evaluation:  # fmt: skip
        changes = {"test_nodes": nodes, "evaluation_examples": examples, "test_data_seed": data_seed}
        given = {name: value for name, value in changes.items() if value is not None}
        trained = load_trained(cls, folder)
        config, protocol = trained.config, replace(trained.config.protocol, **given)
        network = network_of(config).to(device)
        set_precision(config.precision, network)
        split = load_split(network, make_split(config.task, "test", protocol), device)
        evaluator = Evaluator(network, split, len(config.seeds), config.precision)
        title = f"{config.model} on {config.task}, {protocol.test_nodes} nodes"
        return Evaluation(title, "score", trained.scores(evaluator.scores, device), cls.shown)

    @property
    def headings(self) -> dict[str, str]:
        return {"train": "train", "test": f"test, {self.config.protocol.test_nodes} nodes"}

    def about(self) -> dict[str, Any]:
        return {"layers_are_kernels": self.steps.layers_are_kernels}

    @classmethod
    def paper_config(
        cls, task: str, model: Any, seeds: tuple[int, ...], *, examples: int | None = None,
        precision: Precision = "tf32", compile: CompileMode = "auto", train_examples: int = 10_000,
        protocol: ProtocolName = "paper", changes: Mapping[str, Any] = MappingProxyType({}),
        schedule: Mapping[str, Any] = MappingProxyType({}), **options: Any,
    ) -> TrainConfig:  # fmt: skip
        given = {} if examples is None else {"examples": examples}
        if protocol == "paper":
            given["train_examples"] = train_examples
        numbers = replace(PROTOCOLS[protocol], **given)
        settings = replace(find_settings(model, modern=numbers.is_modern), **changes)
        schedule_of_run = replace(find_schedule(model, modern=numbers.is_modern), **schedule)
        return TrainConfig(task, model, settings, numbers, seeds, precision, compile, schedule_of_run)

    def flop(self) -> float:
        return flop(self.config)

    def _training_data(self, start: Start) -> "TrainingSet | FreshData":
        if not self.config.protocol.is_modern:
            return TrainingSet(self.config, start)
        from .fresh import FreshData  # here: a training set needs no fresh examples

        return FreshData(self.config, start)

    def _load_split(self, name: Any) -> Split:
        return load_split(self._network, make_split(self.config.task, name, self.config.protocol), self._device)

    def _evaluator(self, split: Split, compiled: bool) -> Evaluator:
        return Evaluator(self._network, split, len(self.config.seeds), self.config.precision, compiled=compiled)

    def _scores(self, split: Split, best: Parameters) -> list[float]:
        is_long = edges_of_steps(split, len(self.config.seeds)) >= EDGES_WORTH_COMPILING
        return self._evaluator(split, self._compiled and is_long).scores(best).tolist()


class TrainingSet:
    """A training set on the device, from which examples are drawn with replacement, and the training steps on it.

    Attributes:
        steps: the training steps.
    """

    def __init__(self, config: TrainConfig, start: Start) -> None:
        self.config = config
        self.split = load_split(start.model, make_split(config.task, "train", config.protocol), start.device)
        self.steps = TrainingStep.of_run(config, start, self.split)

    def load(self, part: int, position: int) -> None:
        """Draw the random numbers of a part, whose step number `position` is the next one."""
        config, split = self.config, self.split
        hint_steps, forcing = split.num_steps - 1, config.protocol.teacher_forcing
        batch_size = config.settings.batch_size
        drawn = draw(config.seeds, part, config.steps_of_part, batch_size, len(split), hint_steps, forcing)
        self.steps.load(drawn, position)

    def head(self, count: int) -> Split:
        """The first examples, for scoring."""
        return self.split.head(count)


def network_of(config: TrainConfig) -> Network:
    """The network of a run, freshly initialised."""
    protocol = config.protocol
    return build_network(
        spec_of(config.task, protocol=protocol.data),
        config.settings,
        hint_feedback=protocol.hint_feedback,
        small_scalar_hints=protocol.small_scalar_hints,
    )


def flop(config: TrainConfig) -> float:
    """Floating-point operations of a run with all its seeds: training, validations and test.

    The operations of a forward step are counted by running the network. The number of steps is the mean over the
    algorithm's trajectories, without the padding of batches.
    """
    protocol, size = config.protocol, TASK_SIZES[config.task]
    step = flop_of_step(config.task, config.settings, protocol.data)
    step_in_test = step * (size.test_nodes / size.train_nodes) ** 2  # edges dominate the cost
    tested, validated = examples_of_test(config.task, protocol), examples_of_validation(config.task, protocol)
    validations = protocol.examples // protocol.validation_interval
    in_training = FORWARD_AND_BACKWARD * protocol.examples * _steps_of_example(config)
    in_validation = validated * validations * (size.train_hints - 1)
    in_test = tested * (size.test_hints - 1)
    return len(config.seeds) * (step * (in_training + in_validation) + step_in_test * in_test)


def _steps_of_example(config: TrainConfig) -> float:
    """The mean number of steps of a training example, in steps on `train_nodes` nodes: a step on a smaller graph counts
    in proportion to its edges."""
    size = TASK_SIZES[config.task]
    if not config.protocol.is_modern:
        return size.train_hints - 1
    has_one_size = size.train_nodes == size.test_nodes  # whatever the length
    steps = [
        (hints - 1) * (1.0 if has_one_size else (length / size.train_nodes) ** 2)
        for length, hints in zip(config.protocol.sizes(config.task), _hints_of_sizes(config), strict=True)
    ]
    return sum(steps) / len(steps)


def _hints_of_sizes(config: TrainConfig) -> Sequence[float]:
    """The mean number of hints of training examples of each size."""
    sizes = config.protocol.sizes(config.task)
    if sizes == training_lengths(config.task):
        return MODERN_HINTS[config.task]
    return [sample(config.task, SAMPLED, length, 0, protocol="modern").lengths.mean() for length in sizes]


SAMPLED = 32
"""The number of examples of each size that the modern protocol does not have, over which hints are averaged."""


@cache
def flop_of_step(task: str, settings: Settings, data: ProtocolName = "paper") -> int:
    """Floating-point operations of one forward step on one training example, encoders and decoders included."""
    spec: Spec = spec_of(task, protocol=data)
    network = without_values(lambda: build_network(spec, settings))
    nodes = TASK_SIZES[task].train_nodes
    inputs, hints, outputs = (
        {name: torch.from_numpy(array) for name, array in allocate(spec, stage, front, nodes).items()}
        for stage, front in ((Stage.INPUT, (1,)), (Stage.HINT, (1, 1)), (Stage.OUTPUT, (1,)))
    )
    batch = network.pack(inputs, hints, outputs, torch.ones(1, dtype=torch.long))
    first_hints = {key: hint[0] for key, hint in batch.hints.items()}
    return count(lambda: network.predict(batch.inputs, first_hints, batch.lengths, num_steps=1))


def load_network(run: Path | str, seed: int | None = None) -> Network:
    """The trained network of one seed of the run in a folder (the first that did not fail, unless one is named).

    >>> network = load_network("/no/such/run", seed=7)
    Traceback (most recent call last):
    ValueError: /no/such/run is not a run folder: it has no config.json
    """
    trained = load_trained(CLRSTask, run)
    return trained.model_of(trained.number_of(seed))
