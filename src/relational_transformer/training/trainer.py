"""The training loop: a fleet of seeds, validated, checkpointed, and resumed as if nothing had happened."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from relational_transformer.files import write_json
from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.compiling import should_compile
from relational_transformer.fleet.fleet import Fleet, initialise, keep_best
from relational_transformer.fleet.graphs import own_stream, record
from relational_transformer.fleet.precision import set_matrix_products, set_precision
from relational_transformer.reasoning.build import build_network
from relational_transformer.runs.checkpoint import load_checkpoint, save_checkpoint
from relational_transformer.runs.pace import Pace
from relational_transformer.runs.provenance import commits_with_this, provenance
from relational_transformer.runs.run_folder import RunFolder

from .config import TrainConfig
from .data import Draw, Split, draw, load_split, make_split
from .evaluation import EDGES_WORTH_COMPILING, Evaluator, edges_of_steps
from .step import TrainingStep, linears_of_encoders

STEPS_AT_ONCE = 8
"""Steps that are launched before other fleets have their turn. A device takes only so many launches ahead of what it
does; who launches more waits, and so would the fleets whose turn comes later."""

TURNS_IN_FLIGHT = 3
"""Turns of a run that the device has before it is busy."""


@dataclass(frozen=True)
class Progress:
    """How far a run is; scores and losses of every seed, NaN where there is none yet.

    >>> half = Progress(500, 1000, [0.3], [0.9], best=[0.9], finite=[True], examples_per_second=50.0)
    >>> half.seconds_left
    10.0
    """

    examples: int
    total_examples: int
    losses: list[float]
    validation: list[float]
    best: list[float]
    finite: list[bool]
    examples_per_second: float

    @property
    def seconds_left(self) -> float:
        left = (self.total_examples - self.examples) * len(self.losses)
        return left / self.examples_per_second if self.examples_per_second else math.nan


class Trainer:
    """Trains one fleet in one run folder.

    A run is cut into parts, each ending in a validation. `run` yields every few steps without waiting for the device,
    so several trainers, each with a stream of its own, can share one GPU: go on with one that is not `busy`.

    `save` may be called whenever `run` has yielded: it completes the part that is under way. A run that goes on from
    there ends with the same numbers.

    >>> from tempfile import TemporaryDirectory
    >>> from relational_transformer.processors import Settings
    >>> from relational_transformer.training import Protocol, load_network
    >>> settings = Settings(hidden_size=8, num_heads=2, num_layers=1)
    >>> sizes = {"train_nodes": 4, "validation_nodes": 4, "test_nodes": 4, "evaluation_examples": 4}
    >>> protocol = Protocol(train_examples=8, examples=8, validation_interval=4, **sizes)
    >>> config = TrainConfig("bfs", "rt", settings, protocol, seeds=(0, 1), precision="fp32")
    >>> with TemporaryDirectory() as path, RunFolder(path).opened(config.as_dict()) as folder:
    ...     trainer = Trainer(config, folder, torch.device("cpu"))
    ...     for _ in trainer.run():
    ...         pass
    ...     result = trainer.finish()
    ...     network = load_network(path, seed=1)
    >>> len(trainer.metrics()), [seed["failed"] for seed in result["seeds"]]
    (2, [False, False])
    """

    def __init__(self, config: TrainConfig, folder: RunFolder, device: torch.device) -> None:
        self.config, self.folder, self.device = config, folder, device
        protocol, settings = config.protocol, config.settings
        self.stream = own_stream(device, self) if device.type == "cuda" else None
        models = [initialise(lambda: build_network(config.task, settings), seed) for seed in config.seeds]
        self.network = models[0].to(device)
        set_precision(config.precision, self.network)
        if config.precision == "fp64":
            models = [model.double() for model in models]
        self.steps_per_part = max(1, protocol.validation_interval // settings.batch_size)
        self.total_steps = math.ceil(protocol.examples / settings.batch_size)
        self.total_parts = math.ceil(self.total_steps / self.steps_per_part)
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))
        with self._on_stream():
            self.fleet = Fleet(models, device)
            split = load_split(self.network, make_split(config.task, "train", protocol), device)
            validation = load_split(self.network, make_split(config.task, "val", protocol), device)
            self.compiled = should_compile(config.compile, device, self.total_steps)
            adam = Adam(
                self.fleet,
                settings.learning_rate,
                clip=settings.gradient_clip,
                linears=linears_of_encoders(self.network),
                compiled=self.compiled,
            )
            self.engine = TrainingStep(
                self.network,
                self.fleet,
                split,
                adam,
                batch_size=settings.batch_size,
                precision=config.precision,
                compiled=self.compiled,
            )
            self.evaluator = Evaluator(
                self.network, validation, len(config.seeds), config.precision, compiled=self.compiled
            )
            self.best = self.fleet.values.clone()
            seeds = len(config.seeds)
            self.best_scores = torch.full((seeds,), -1.0, dtype=torch.float64, device=device)
            self.validation_scores = torch.full((self.total_parts, seeds), math.nan, dtype=torch.float64, device=device)
            self.losses = torch.full((self.total_parts, seeds), math.nan, dtype=torch.float64, device=device)
        self.part = 0
        self._steps_of_part = 0
        self.seconds_before = 0.0
        self._is_to_be_saved = False
        self._validate_graph: Callable[[], None] | None = None
        self._events: list[tuple[int, torch.cuda.Event]] = []  # of turns, with the parts that ended before them
        self._started = time.monotonic()
        self.commits = commits_with_this()
        self._resume()
        self._pace = Pace(self.examples)

    @property
    def examples(self) -> int:
        """Examples that each seed has trained on."""
        return self._examples_after(self.part)

    @property
    def seconds(self) -> float:
        """Time spent on this run, earlier sittings included."""
        return self.seconds_before + time.monotonic() - self._started

    def run(self) -> Iterator[None]:
        """Train to the end of the protocol; yields after the first part, for which all is compiled and recorded, and
        then every few steps."""
        self._started = time.monotonic()
        self._pace = Pace(self.examples)
        steps = self.steps_per_part
        while self.part < self.total_parts:
            self._train(steps)
            yield
            if self._saves_next:
                self.save()
            steps = STEPS_AT_ONCE
        self._wait()

    @property
    def has_failed(self) -> bool:
        """Whether every seed has had a loss that is no finite number, as far as the device is."""
        return not self.engine.finite.any().item()

    @property
    def busy(self) -> bool:
        """Whether the device has enough to do for now."""
        self._forget_done()
        is_ahead = self.part < self.total_parts and not self._saves_next  # else it is to come to its end
        return len(self._events) >= (TURNS_IN_FLIGHT if is_ahead else 1)

    def progress(self) -> Progress:
        """How far the device is with the run; does not wait for what is under way."""
        done = self._parts_done
        examples = self._examples_after(done)
        last = max(0, done - 1)
        return Progress(
            examples=examples,
            total_examples=self._examples_after(self.total_parts),
            losses=self.losses[last].tolist(),
            validation=self.validation_scores[last].tolist(),
            best=self.best_scores.tolist(),
            finite=self.engine.finite.tolist(),
            examples_per_second=self._pace.per_second(examples) * len(self.config.seeds),
        )

    def save(self) -> None:
        """Complete the part under way, and write a checkpoint and the metrics so far."""
        if self._steps_of_part > 0:
            self._train(self.steps_per_part)
        self._wait()
        progress = {
            "part": self.part,
            "seconds": self.seconds,
            "commits": self.commits,
            "recompute": self.engine.recompute,
        }
        save_checkpoint(self.folder, self._state(), progress)
        self.folder.write_metrics(self.metrics())
        self._is_to_be_saved = False

    def save_soon(self) -> None:
        """Let `run` save when the part under way has ended: other fleets train until the device is done with it."""
        self._is_to_be_saved = True

    @property
    def _saves_next(self) -> bool:
        """Whether the next turn begins with a checkpoint."""
        return self._is_to_be_saved and self._steps_of_part == 0

    @property
    def _parts_done(self) -> int:
        """Parts that the device has done."""
        self._forget_done()
        return self._events[0][0] if self._events else self.part

    def metrics_so_far(self) -> list[dict[str, Any]]:
        """One row a validation that the device has done; does not wait for what is under way."""
        return self.metrics(self._parts_done)

    def metrics(self, parts: int | None = None) -> list[dict[str, Any]]:
        """One row a validation, of all parts or the first so many."""
        last = self.part if parts is None else parts
        losses, scores = self.losses[:last].tolist(), self.validation_scores[:last].tolist()
        return [
            {
                "examples": self._examples_after(part + 1),
                "loss": [_number(value) for value in loss],
                "validation": [_number(value) for value in score],
            }
            for part, (loss, score) in enumerate(zip(losses, scores, strict=True))
        ]

    def finish(self) -> dict[str, Any]:
        """Test the best parameters of every seed, and write the result."""
        self.save()
        seconds = self.seconds
        set_matrix_products(self.config.precision)  # another fleet of this process may have changed it
        with self._on_stream():
            scores, train_scores = self._test()
        finite = self.engine.finite.tolist()
        best = self.best_scores.tolist()
        reached = [self._examples_of_best(seed, best[seed]) for seed in range(len(best))]
        rows = zip(self.config.seeds, train_scores, best, reached, scores, finite, strict=True)
        result = {
            "config": self.config.as_dict(),
            "seeds": [
                {
                    "seed": seed,
                    "train": train if is_finite else None,
                    "validation": validation if validation >= 0 else None,
                    "examples_of_best": examples,
                    "test": score if is_finite else None,
                    "failed": not is_finite,
                }
                for seed, train, validation, examples, score, is_finite in rows
            ],
            "parameters": sum(parameter.numel() for parameter in self.network.parameters()),
            "seconds": seconds,
            "seconds_of_test": self.seconds - seconds,
            "recompute": self.engine.recompute,
            "layers_are_kernels": self.engine.layers_are_kernels,
            **provenance(self.device, self.commits),
        }
        write_json(self.folder.result, result)
        return result

    def _test(self) -> tuple[list[float], list[float]]:
        """The scores of every seed on test data and on training data; NaN where there is nothing to test."""
        if self.has_failed:
            nothing = [math.nan] * len(self.config.seeds)
            return nothing, nothing
        test = load_split(self.network, make_split(self.config.task, "test", self.config.protocol), self.device)
        return self._scores_of_best(test), self._scores_of_best(self.engine.split.head(len(self.evaluator.split)))

    def _scores_of_best(self, split: Split) -> list[float]:
        seeds = len(self.config.seeds)
        compiled = self.compiled and edges_of_steps(split, seeds) >= EDGES_WORTH_COMPILING
        evaluator = Evaluator(self.network, split, seeds, self.config.precision, compiled=compiled)
        return evaluator.scores(self.fleet.split(self.best)).tolist()

    def _train(self, most_steps: int) -> None:
        """Launch so many steps of the part under way, fewer if it ends; with its last step, its validation."""
        part, first = self.part, self._steps_of_part
        steps = min(self.steps_per_part, self.total_steps - part * self.steps_per_part)
        end = min(steps, first + most_steps)
        with self._on_stream():
            if first == 0:
                self.engine.load(self._draw())
            for number in range(first, end):
                self.engine.make(number)
            if end == steps:
                self.losses[part] = self.engine.losses / steps
                self._validate()
                self.validation_scores[part] = self._scores
        self.part, self._steps_of_part = (part + 1, 0) if end == steps else (part, end)
        if self.stream is not None:
            event = torch.cuda.Event()
            event.record(self.stream)
            self._events.append((part, event))

    def _draw(self) -> Draw:
        """What the steps of the part under way are made of."""
        split, protocol = self.engine.split, self.config.protocol
        return draw(
            self.config.seeds,
            self.part,
            self.steps_per_part,
            self.config.settings.batch_size,
            len(split),
            split.num_steps - 1,
            protocol.teacher_forcing,
        )

    def _validate(self) -> None:
        if self.device.type != "cuda":
            self._validate_now()
            return
        if self._validate_graph is None:
            changed = {"best": self.best, "best_scores": self.best_scores}
            self._validate_graph = record(self._validate_now, changed, self.device)
        self._validate_graph()

    @torch.no_grad()
    def _validate_now(self) -> None:
        self._scores = self.evaluator.scores(self.fleet.parameters)
        better = (self._scores > self.best_scores) & self.engine.finite
        self.best_scores.copy_(torch.where(better, self._scores, self.best_scores))
        keep_best(self.fleet, self.best, better)

    def _state(self) -> dict[str, Tensor]:
        return {
            **self.fleet.named_state(self.best),
            "best_scores": self.best_scores,
            "finite": self.engine.finite,
            "losses": self.losses,
            "validation_scores": self.validation_scores,
        }

    def _resume(self) -> None:
        found = load_checkpoint(self.folder, put_aside=True)
        if found is None:
            return
        tensors, progress = found
        with self._on_stream(), torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(tensors[name])
        self.part, self.seconds_before = progress["part"], progress["seconds"]
        self.commits = commits_with_this(progress.get("commits", []))
        self.engine.recompute = progress.get("recompute")  # decided once: else it would be rounded otherwise

    def _examples_of_best(self, seed: int, best: float) -> int | None:
        scores = self.validation_scores[: self.part, seed].tolist()
        return self._examples_after(scores.index(best) + 1) if best in scores else None

    def _examples_after(self, parts: int) -> int:
        return min(parts * self.steps_per_part, self.total_steps) * self.config.settings.batch_size

    def _forget_done(self) -> None:
        while self._events and self._events[0][1].query():
            self._events.pop(0)

    def _wait(self) -> None:
        """Wait until the device has done all it was given."""
        while self._events:
            self._events.pop(0)[1].synchronize()

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None
