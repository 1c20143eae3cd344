"""The training loop: trains, validates and checkpoints a fleet of seeds, and resumes it with the same results."""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypedDict

import torch
from torch import Tensor

import relational_transformer
from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise, keep_best
from relational_transformer.fleet.graphs import own_stream, record
from relational_transformer.fleet.precision import set_matrix_products, set_precision

from .checkpoint import resume, save_checkpoint
from .progress import Pace, Progress
from .provenance import commits_with_this, provenance
from .run_folder import RunFolder
from .task import Start, Task

TURNS_IN_FLIGHT = 3
"""Turns of a run that may be queued on the device. The queue of launches is limited: a run that queued more would block
the host, and with it the other runs."""

_made_before = itertools.count()
"""Counts the trainers that the process has made."""


class SavedProgress(TypedDict):
    """The progress of a run, in its checkpoints."""

    steps: int
    seconds: float
    commits: list[str | None]
    recompute: bool | None


class Trainer:
    """Trains one run of a task in its folder.

    A run is cut into parts, each ending in a validation. `run` yields every few steps without waiting for the device.
    So several trainers, each with a stream of its own, can share one GPU: resume one that is not `busy`. `save` may be
    called whenever `run` has yielded. A run that is resumed from there ends with the same numbers.

    Attributes:
        must_capture: whether the next turn compiles and captures, as the first turn does and few others do.
        seconds_to_first_step: the time until the first step of this session is launched; None before that. For the
            first trainer of a process it counts from the start of the process, for others from their own making.

    >>> from tempfile import TemporaryDirectory
    >>> from relational_transformer.processors import Settings
    >>> from relational_transformer.training import CLRSTask, Protocol, TrainConfig, load_network
    >>> settings = Settings(hidden_size=8, num_heads=2, num_layers=1)
    >>> sizes = {"train_nodes": 4, "validation_nodes": 4, "test_nodes": 4, "evaluation_examples": 4}
    >>> protocol = Protocol(train_examples=8, examples=8, validation_interval=4, **sizes)
    >>> config = TrainConfig("bfs", "rt", settings, protocol, seeds=(0, 1), precision="fp32")
    >>> with TemporaryDirectory() as path, RunFolder(path).opened(config.as_dict()) as folder:
    ...     trainer = Trainer(CLRSTask(config), folder, torch.device("cpu"))
    ...     for _ in trainer.run():
    ...         pass
    ...     result = trainer.finish()
    ...     network = load_network(path, seed=1)
    >>> len(trainer.metrics()), [seed["failed"] for seed in result["seeds"]]
    (2, [False, False])
    """

    def __init__(self, task: Task[Any], folder: RunFolder, device: torch.device) -> None:
        self._begun = time.monotonic() if next(_made_before) else relational_transformer.IMPORTED
        self.seconds_to_first_step: float | None = None
        self.task, self.folder, self.device = task, folder, device
        self.config = config = task.config
        seeds = len(config.seeds)
        self.num_parts = math.ceil(task.num_steps / task.steps_of_part)
        self.stream = own_stream(device, self) if device.type == "cuda" else None
        models = [initialise(task.build, seed) for seed in config.seeds]
        if config.precision == "fp64":
            models = [model.double() for model in models]
        self.model = models[0].to(device)
        set_precision(config.precision, self.model)
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))
        with self._on_stream():
            self.fleet = Fleet(models, device)
            compiled = task.is_compiled(device)
            rate, epsilon, clip, weight_decay = task.optimiser
            adam = Adam(
                self.fleet, rate, epsilon=epsilon, clip=clip, schedule=config.schedule, total_steps=task.num_steps,
                linears=task.linears(self.model), weight_decay=weight_decay, compiled=compiled,
            )  # fmt: skip
            task.start(Start(self.model, self.fleet, adam, device, compiled, folder))
            self.best = self.fleet.values.clone()
            worst = -math.inf if task.higher_is_better else math.inf
            self.best_scores = torch.full((seeds,), worst, dtype=torch.float64, device=device)
            self.rows = {
                column: torch.full((self.num_parts, seeds), math.nan, dtype=torch.float64, device=device)
                for column in ("loss", "validation", *task.columns)
            }
        self.steps = 0
        self._steps_saved: int | None = None  # in this session
        self.seconds_before = 0.0
        self._part_loaded: int | None = None
        self.must_capture = False
        self._is_to_be_saved = False
        self._validation_graph: Callable[[], None] | None = None
        self._events: list[tuple[int, torch.cuda.Event]] = []  # ends of turns, each with the steps made before it
        self._started = time.monotonic()
        self.commits = commits_with_this()
        self._resume()
        self._pace = Pace(self.examples)

    def run(self) -> Iterator[None]:
        """Train to the end; yields every few steps. The first turn compiles and captures everything."""
        self._started = time.monotonic()
        self._pace = Pace(self.examples)
        a_turn = self.task.steps_at_once[self.device.type]
        most_steps = self.task.steps_of_part if self.task.records_validation else a_turn
        while self.steps < self.task.num_steps:
            self._train(most_steps)
            yield
            if self._is_to_be_saved:
                self.save()
            most_steps = a_turn
        self._wait()

    def rehearse(self) -> None:
        """Call all that a run compiles for its training and its validations, and train nothing."""
        with self._on_stream():
            self.task.load(0, 0)
            self.task.steps.rehearse()
            self._validate(1)
        if self.stream is not None:
            self.stream.synchronize()

    def _train(self, most_steps: int) -> None:
        """Launch up to `most_steps` steps of the current part, and its validation after its last step."""
        task, before = self.task, self.steps
        part = before // task.steps_of_part
        begin = part * task.steps_of_part
        end = min(begin + task.steps_of_part, task.num_steps)
        with self._on_stream():
            if part != self._part_loaded:
                has_begun = self._part_loaded is not None
                task.load(part, before - begin)
                self._part_loaded = part
                if has_begun and task.steps.must_capture:
                    self.must_capture = True
                    return
            self.must_capture = False
            while self.steps < min(end, before + most_steps):
                task.steps.make(self.steps - begin)
                self.steps += 1
                if self.seconds_to_first_step is None:
                    self.seconds_to_first_step = time.monotonic() - self._begun
            if self.steps == end:
                self._end_part(part, end - begin)
        if self.stream is not None:
            event = torch.cuda.Event()
            event.record(self.stream)
            self._events.append((before, event))

    def _end_part(self, part: int, steps: int) -> None:
        self.rows["loss"][part] = self.task.steps.losses / steps
        if not self.task.records_validation or self.device.type != "cuda":
            self._validate(steps)
        else:
            if self._validation_graph is None:
                changed = {"best": self.best, "best_scores": self.best_scores}
                self._validation_graph = record(lambda: self._validate(steps), changed, self.device)
            self._validation_graph()
        for column, values in self._columns.items():
            self.rows[column][part] = values
        self.task.steps.forget()

    @torch.no_grad()
    def _validate(self, steps: int) -> None:
        self._columns = self.task.validate(steps)
        if not self.task.competes(steps):
            return
        scores = self._columns["validation"]
        is_better = scores > self.best_scores if self.task.higher_is_better else scores < self.best_scores
        if self.task.takes_last_of_ties:
            is_better = is_better | (scores == self.best_scores)
        better = is_better & self.task.steps.finite
        self.best_scores.copy_(torch.where(better, scores, self.best_scores))
        keep_best(self.fleet, self.best, better)

    @property
    def examples(self) -> int:
        """Examples that each seed has trained on."""
        return self.steps * self.task.examples_of_step

    @property
    def part(self) -> int:
        """The number of parts that have ended."""
        return self._parts_after(self.steps)

    @property
    def seconds(self) -> float:
        """Seconds spent on this run, earlier sessions included."""
        return self.seconds_before + time.monotonic() - self._started

    @property
    def has_failed(self) -> bool:
        """Whether every seed has had a loss that is not finite. Waits for the device."""
        return not self.task.steps.finite.any().item()

    @property
    def busy(self) -> bool:
        """Whether enough turns are queued on the device. A run that is to be saved counts as busy until its queue is
        empty."""
        self._forget_done()
        is_ahead = self.steps < self.task.num_steps and not self._is_to_be_saved
        return len(self._events) >= (TURNS_IN_FLIGHT if is_ahead else 1)

    def progress(self) -> Progress:
        """The progress of the run on the device. Does not wait for queued steps."""
        done = self._steps_done
        last = max(0, self._parts_after(done) - 1)
        examples = done * self.task.examples_of_step
        return Progress(
            examples=examples,
            total_examples=self.task.num_examples,
            losses=self.rows["loss"][last].tolist(),
            validation=self.rows["validation"][last].tolist(),
            best=self.best_scores.tolist(),
            finite=self.task.steps.finite.tolist(),
            examples_per_second=self._pace.per_second(examples) * len(self.config.seeds),
        )

    def metrics_so_far(self) -> list[dict[str, Any]]:
        """A row for each validation that the device has finished. Does not wait for queued steps."""
        return self.metrics(self._parts_after(self._steps_done))

    def metrics(self, parts: int | None = None) -> list[dict[str, Any]]:
        """A row for each validation, of the first `parts` parts or of all that have ended."""
        last = self.part if parts is None else parts
        columns = {name: values[:last].tolist() for name, values in self.rows.items()}
        return [
            self.task.row(
                {
                    "examples": self._examples_after(part + 1),
                    **{name: [_number(value) for value in values[part]] for name, values in columns.items()},
                }
            )
            for part in range(last)
        ]

    def save(self) -> None:
        """Write a checkpoint and the metrics so far."""
        self._wait()
        progress: SavedProgress = {
            "steps": self.steps,
            "seconds": self.seconds,
            "commits": self.commits,
            "recompute": self.task.steps.recompute,
        }
        save_checkpoint(self.folder, self.config.as_dict(), self._state(), progress)
        self.folder.write_metrics(self.metrics())
        self._is_to_be_saved, self._steps_saved = False, self.steps

    def save_soon(self) -> None:
        """Let `run` save after its next turn. Other runs train until the device has finished that turn."""
        self._is_to_be_saved = True

    def finish(self) -> dict[str, Any]:
        """Test the best parameters of every seed and write the result."""
        if self._steps_saved != self.steps:
            self.save()
        seconds = self.seconds
        finite, best = self.task.steps.finite.tolist(), self.best_scores.tolist()
        tested = [is_finite and math.isfinite(score) for is_finite, score in zip(finite, best, strict=True)]
        set_matrix_products(self.config.precision)  # another run of this process may have changed it
        scores = {name: [math.nan] * len(tested) for name in self.task.scores}
        if any(tested):
            with self._on_stream():
                scores = self.task.test(self.fleet.split(self.best), tested)
        rows = []
        for number, seed in enumerate(self.config.seeds):
            own = {name: _number(values[number]) for name, values in scores.items()}
            failed = not tested[number] or own["test"] is None
            rows.append(
                {
                    "seed": seed,
                    "validation": _number(best[number]),
                    "examples_of_best": self._examples_of_best(number, best[number]),
                    **(dict.fromkeys(own) if failed else own),
                    "failed": failed,
                }
            )
        result = {
            "config": self.config.as_dict(),
            **self.task.about(),
            "seeds": rows,
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "seconds": seconds,
            "seconds_of_test": self.seconds - seconds,
            "seconds_to_first_step": self.seconds_to_first_step,
            "recompute": self.task.steps.recompute,
            **provenance(self.device, self.commits),
        }
        return self.folder.write_result(result)

    def _state(self) -> dict[str, Tensor]:
        return {
            **self.fleet.named_state(self.best),
            "best_scores": self.best_scores,
            "finite": self.task.steps.finite,
            "loss_so_far": self.task.steps.losses,
            **{f"rows.{column}": values for column, values in self.rows.items()},
            **self.task.steps.state(),
        }

    def _resume(self) -> None:
        most = {"steps": self.task.num_steps, "seconds": math.inf}
        with self._on_stream():
            progress = resume(self.folder, self.config.as_dict(), self._state(), SavedProgress, most)
        if progress is None:
            return
        self.steps, self.seconds_before = progress["steps"], progress["seconds"]
        self.commits = commits_with_this(progress["commits"])
        self.task.steps.recompute = progress["recompute"]  # decided once: recomputing changes roundings

    def _examples_of_best(self, seed: int, best: float) -> int | None:
        scores = self.rows["validation"][: self.part, seed].tolist()
        parts = [number for number, score in enumerate(scores, start=1) if score == best]
        return self._examples_after(parts[-1 if self.task.takes_last_of_ties else 0]) if parts else None

    def _examples_after(self, parts: int) -> int:
        return min(parts * self.task.steps_of_part, self.task.num_steps) * self.task.examples_of_step

    def _parts_after(self, steps: int) -> int:
        """The number of parts that have ended after `steps` steps; the last part ends with the run."""
        return self.num_parts if steps == self.task.num_steps else steps // self.task.steps_of_part

    @property
    def _steps_done(self) -> int:
        """The number of steps that the device has finished."""
        self._forget_done()
        return self._events[0][0] if self._events else self.steps

    def _forget_done(self) -> None:
        while self._events and self._events[0][1].query():
            self._events.pop(0)

    def _wait(self) -> None:
        """Wait until the device has finished all queued turns."""
        while self._events:
            self._events.pop(0)[1].synchronize()

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None
