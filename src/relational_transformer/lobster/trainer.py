"""The training loop: a fleet of seeds, validated, checkpointed, and resumed as if nothing had happened."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from relational_transformer.files import write_json
from relational_transformer.fleet.compiling import should_compile
from relational_transformer.fleet.fleet import Fleet, initialise, keep_best
from relational_transformer.fleet.precision import set_matrix_products
from relational_transformer.runs.checkpoint import load_checkpoint, save_checkpoint
from relational_transformer.runs.pace import Pace
from relational_transformer.runs.provenance import commits_with_this, provenance
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.training.trainer import Progress

from .batches import draw, group_by_size
from .build import build_model
from .config import LobsterConfig
from .data import Split, load_split
from .engine import Engine
from .evaluation import Evaluator, check_memory
from .graphs import Lobsters
from .oracle import oracle_losses
from .stack import FleetStack

STEPS_OF_A_PART = {"cuda": 32, "cpu": 4}
"""A run is cut into parts of so many steps, with a checkpoint possible after each. That changes no number."""

PARTS_IN_FLIGHT = 2
"""Parts of a run that the device has before it is busy."""


class LobsterTrainer:
    """Trains one fleet in one run folder.

    `run` yields after every part without waiting for the device. `save` may be called between two parts, at any time; a
    run that goes on from there ends with the same numbers. Every `validation_interval` graphs the relative loss on the
    validation set decides, for each seed, whether its parameters are the best so far. `lobster.train` does all this:

    >>> import tempfile
    >>> from relational_transformer.lobster import SETTINGS, LobsterProtocol
    >>> protocol = LobsterProtocol(train_examples=64, evaluation_examples=4, test_size=9, examples=64)
    >>> config = LobsterConfig("gcn", SETTINGS["gcn"], protocol, seeds=(0,))
    >>> with tempfile.TemporaryDirectory() as path, RunFolder(path).opened(config.as_dict()) as folder:
    ...     trainer = LobsterTrainer(config, folder, torch.device("cpu"))
    ...     parts = len(list(trainer.run()))
    >>> parts, trainer.examples
    (1, 64)
    """

    def __init__(self, config: LobsterConfig, folder: RunFolder, device: torch.device) -> None:
        self.config, self.folder, self.device = config, folder, device
        protocol, settings, seeds = config.protocol, config.settings, len(config.seeds)
        validation = protocol.validation_graphs()
        check_memory(config.model, int(validation.num_nodes.max()), config.precision, device)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        set_matrix_products(config.precision)
        models = [initialise(lambda: build_model(config.model, settings), seed) for seed in config.seeds]
        if config.precision == "fp64":
            models = [model.double() for model in models]
        self.model = models[0].to(device)
        self.total_steps = math.ceil(protocol.examples / settings.batch_size)
        self.steps_of_validation = max(1, protocol.validation_interval // settings.batch_size)
        rows = math.ceil(self.total_steps / self.steps_of_validation)
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))
        with self._on_stream():
            self.fleet = Fleet(models, device)
            compiled = should_compile(config.compile, device, self.total_steps)
            self.stack = FleetStack(self.model, compiled)
            train_split = load_split(protocol.train_graphs(), device)
            self.engine = Engine(self.stack, self.fleet, train_split, settings, config.precision, compiled)
            self.evaluator = self._evaluator(self.stack, load_split(validation, device))
            self.best = self.fleet.values.clone()
            self.best_losses = torch.full((seeds,), math.inf, dtype=torch.float64, device=device)
            self.validation = torch.full((rows, seeds), math.nan, dtype=torch.float64, device=device)
            self.losses = torch.full((rows, seeds), math.nan, dtype=torch.float64, device=device)
        self.steps = 0
        self.seconds_before = 0.0
        self._events: list[tuple[int, torch.cuda.Event]] = []  # parts under way, by their first steps
        self._started = time.monotonic()
        self.commits = commits_with_this()
        self._resume()
        self._pace = Pace(self.examples)

    @property
    def examples(self) -> int:
        """Graphs that each seed has trained on."""
        return self.steps * self.config.settings.batch_size

    @property
    def rows(self) -> int:
        """Validations made."""
        return self._rows_after(self.steps)

    @property
    def seconds(self) -> float:
        """Time spent on this run, earlier sittings included."""
        return self.seconds_before + time.monotonic() - self._started

    def run(self) -> Iterator[None]:
        """Train to the end of the protocol; yields after every part."""
        self._started = time.monotonic()
        self._pace = Pace(self.examples)
        while self.steps < self.total_steps:
            self._train_part()
            yield
        self._wait()

    @property
    def has_failed(self) -> bool:
        """Whether every seed has had a loss that is no finite number, as far as the device is."""
        return not self.engine.finite.any().item()

    @property
    def busy(self) -> bool:
        """Whether the device has enough to do for now."""
        self._forget_done()
        return len(self._events) >= PARTS_IN_FLIGHT

    def progress(self) -> Progress:
        """How far the device is with the run; `losses` are squared errors, `validation` and `best` relative losses."""
        self._forget_done()
        batch_size = self.config.settings.batch_size
        done = self._events[0][0] if self._events else self.steps
        last = max(0, self._rows_after(done) - 1)
        return Progress(
            examples=done * batch_size,
            total_examples=self.total_steps * batch_size,
            losses=self.losses[last].tolist(),
            validation=self.validation[last].tolist(),
            best=self.best_losses.tolist(),
            finite=self.engine.finite.tolist(),
            examples_per_second=self._pace.per_second(done * batch_size) * len(self.config.seeds),
        )

    def save(self) -> None:
        """Write a checkpoint and the metrics so far."""
        self._wait()
        progress = {"steps": self.steps, "seconds": self.seconds, "commits": self.commits}
        save_checkpoint(self.folder, self._state(), progress)
        self.folder.write_metrics(self.metrics())

    save_soon = save  # it can be saved after any turn

    def metrics(self) -> list[dict[str, Any]]:
        """One row a validation: the mean squared error since the row before, and the relative loss on validation."""
        losses, validation = self.losses[: self.rows].tolist(), self.validation[: self.rows].tolist()
        return [
            {
                "examples": self._examples_of_row(row),
                "loss": [_number(value) for value in loss],
                "validation": [_number(value) for value in score],
            }
            for row, (loss, score) in enumerate(zip(losses, validation, strict=True))
        ]

    def finish(self) -> dict[str, Any]:
        """Test the best parameters of every seed, and write the result. All scores are relative losses."""
        self.save()
        seconds, protocol = self.seconds, self.config.protocol
        test_graphs = protocol.test_graphs()
        test, near, train = self._test(test_graphs)
        finite, best = self.engine.finite.tolist(), self.best_losses.tolist()
        # Without a finite validation the best parameters are those of the beginning.
        good = [
            ok and math.isfinite(one) and math.isfinite(two) for ok, one, two in zip(finite, best, test, strict=True)
        ]
        result = {
            "config": self.config.as_dict(),
            "metric": "relative loss",
            "seeds": [
                {
                    "seed": seed,
                    "train": _number(train[number]) if good[number] else None,
                    "validation": _number(best[number]),
                    "examples_of_best": self._examples_of_best(number, best[number]),
                    "test": test[number] if good[number] else None,
                    "test_in_distribution": _number(near[number]) if good[number] else None,
                    "failed": not good[number],
                }
                for number, seed in enumerate(self.config.seeds)
            ],
            "oracles": oracle_losses(test_graphs.distances),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "seconds": seconds,
            "seconds_of_test": self.seconds - seconds,
            "recompute": self.engine.recompute,
            **provenance(self.device, self.commits),
        }
        write_json(self.folder.result, result)
        return result

    def _test(self, graphs: Lobsters) -> tuple[list[float], list[float], list[float]]:
        """The losses of every seed on test graphs, on graphs of the sizes of training, and on those of training; NaN
        where there is nothing to test."""
        if self.has_failed:
            nothing = [math.nan] * len(self.config.seeds)
            return nothing, nothing, nothing
        protocol = self.config.protocol
        test = self._losses_of_best(self.stack, load_split(graphs, self.device))
        plain = FleetStack(self.model, compiled=False)  # small graphs, seen once: compiling would take longer
        near = self._losses_of_best(plain, load_split(protocol.test_graphs_of_training_sizes(), self.device))
        return test, near, self._losses_of_best(plain, self.engine.split.thinned(protocol.evaluation_examples))

    def _evaluator(self, stack: FleetStack, split: Split) -> Evaluator:
        return Evaluator(stack, split, len(self.config.seeds), self.config.precision)

    def _losses_of_best(self, stack: FleetStack, split: Split) -> list[float]:
        return self._evaluator(stack, split).relative_losses(self.fleet.split(self.best)).tolist()

    def _train_part(self) -> None:
        settings, engine = self.config.settings, self.engine
        first_step, steps = self.steps, STEPS_OF_A_PART[self.device.type]
        index = draw(self.config.seeds, first_step, steps, settings.batch_size, len(engine.split))
        next_validation = min((self.rows + 1) * self.steps_of_validation, self.total_steps)
        with self._on_stream():
            engine.load(group_by_size(index, engine.split.host_num_nodes, engine.buckets))
            for number in range(min(steps, next_validation - first_step)):
                engine.step(number)
                self.steps += 1
            if self.steps == next_validation:
                self._validate(self.rows - 1)
        if self.stream is not None:
            event = torch.cuda.Event()
            event.record(self.stream)
            self._events.append((first_step, event))

    @torch.no_grad()
    def _validate(self, row: int) -> None:
        self.losses[row] = self.engine.losses / (self.steps - row * self.steps_of_validation)
        self.engine.forget_losses()
        losses = self.evaluator.relative_losses(self.fleet.parameters)
        better = (losses < self.best_losses) & self.engine.finite
        self.best_losses.copy_(torch.where(better, losses, self.best_losses))
        keep_best(self.fleet, self.best, better)
        self.validation[row] = losses

    def _state(self) -> dict[str, Tensor]:
        return {
            **self.fleet.named_state(self.best),
            "best_losses": self.best_losses,
            "finite": self.engine.finite,
            "loss_so_far": self.engine.losses,
            "losses": self.losses,
            "validation": self.validation,
        }

    def _resume(self) -> None:
        found = load_checkpoint(self.folder, put_aside=True)
        if found is None:
            return
        tensors, progress = found
        with self._on_stream(), torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(tensors[name])
        self.steps, self.seconds_before = progress["steps"], progress["seconds"]
        self.commits = commits_with_this(progress.get("commits", []))

    def _rows_after(self, steps: int) -> int:
        """Validations that were made when so many steps were; the last one is at the end, wherever that is."""
        return len(self.validation) if steps == self.total_steps else steps // self.steps_of_validation

    def _examples_of_row(self, row: int) -> int:
        return min((row + 1) * self.steps_of_validation, self.total_steps) * self.config.settings.batch_size

    def _examples_of_best(self, seed: int, best: float) -> int | None:
        losses = self.validation[: self.rows, seed].tolist()
        return self._examples_of_row(losses.index(best)) if best in losses else None

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
