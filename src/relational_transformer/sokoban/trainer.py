"""The training loop: a fleet of agents that plays, learns, reports, and resumes as if nothing had happened."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from relational_transformer.files import write_json
from relational_transformer.fleet.compiling import should_compile
from relational_transformer.fleet.fleet import Fleet, initialise, keep_best
from relational_transformer.fleet.over_seeds import Parameters
from relational_transformer.fleet.precision import for_computing
from relational_transformer.runs.checkpoint import load_checkpoint, save_checkpoint
from relational_transformer.runs.pace import Pace
from relational_transformer.runs.provenance import commits_with_this, provenance
from relational_transformer.runs.run_folder import RunFolder

from .chance import draw, first_levels, test_noise
from .config import SokobanConfig
from .engine import Engine
from .environment import Environment
from .evaluation import Player, solved_levels, tests_compiled
from .rules import TIME_LIMIT
from .size_classes import size_classes
from .splits import Splits

UPDATES_AT_ONCE = 16
"""Updates between two moments at which a run can be saved."""
CALLS_IN_FLIGHT = 2
"""How many times so many updates the device has before it is busy."""
TESTS = ("test", "test_greedy", "test_of_last")
"""Names of a seed's scores: with the best parameters, sampled and greedy; with the last ones, sampled."""


@dataclass(frozen=True)
class Progress:
    """How far a run is; of every seed the share of games solved and the loss in the last interval that has ended, or
    NaN."""

    steps: int
    total_steps: int
    losses: list[float]
    solved: list[float]
    finite: list[bool]
    steps_per_second: float

    @property
    def seconds_left(self) -> float:
        left = (self.total_steps - self.steps) * len(self.losses)
        return left / self.steps_per_second if self.steps_per_second else math.nan


class SokobanTrainer:
    """Trains one fleet in one run folder.

    A run is cut into parts of `report_interval` steps. After each, the share of games that were solved in it is noted
    for every seed; the parameters after the best part are kept and tested, as WMG does. A last part that is shorter
    than the others does not compete: few games say less, and the best of many lucky numbers would be one of them.
    `run` yields every few updates without waiting for the device; `save` may be called whenever it has.
    """

    def __init__(self, config: SokobanConfig, folder: RunFolder, device: torch.device, splits: Splits) -> None:
        self.config, self.folder, self.device, self.splits = config, folder, device, splits
        recipe, seeds = config.recipe, len(config.seeds)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        config.prepare_torch()
        agents = [initialise(config.build, seed) for seed in config.seeds]
        if config.precision == "fp64":
            agents = [agent.double() for agent in agents]
        self.agent = agents[0].to(device)
        self.total_updates = recipe.num_updates
        self.total_parts = math.ceil(self.total_updates / recipe.updates_of_part)
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))
        with self._on_stream():
            self.fleet = Fleet(agents, device)
            self.classes = size_classes(splits.train, recipe.num_games, recipe.size_classes)
            levels = splits.train.to(device)
            first = first_levels(config.seeds, self.classes).flatten()
            self.engine = Engine(
                self.agent,
                self.fleet,
                Environment(levels, first, capacity=self.classes[-1].capacity),
                recipe,
                # A transformer has few large tensors: it is faster with all games in one.
                classes=self.classes if config.model == "rt" else None,
                precision=config.precision,
                compiled=should_compile(config.compile, device, self.total_updates),
            )
            self.best = self.fleet.values.clone()
            self.best_solved = torch.full((seeds,), -1.0, dtype=torch.float64, device=device)
            self.rows = torch.full((self.total_parts, 4, seeds), math.nan, dtype=torch.float64, device=device)
        self.updates = 0
        self.seconds_before = 0.0
        self._loaded_part: int | None = None
        self._events: list[torch.cuda.Event] = []
        self._started = time.monotonic()
        self.commits = commits_with_this()
        self._resume()
        self._pace = Pace(self.examples)

    @property
    def examples(self) -> int:
        """Steps that each seed has played."""
        return self.updates * self.config.recipe.steps_of_update

    @property
    def seconds(self) -> float:
        """Time spent on this run, earlier sittings included."""
        return self.seconds_before + time.monotonic() - self._started

    def run(self) -> Iterator[None]:
        """Train to the end of the recipe; yields every few updates."""
        self._started = time.monotonic()
        self._pace = Pace(self.examples)
        in_part = self.config.recipe.updates_of_part
        while self.updates < self.total_updates:
            part = self.updates // in_part
            end = min((part + 1) * in_part, self.total_updates)
            with self._on_stream():
                self._load(part)
                for _ in range(min(UPDATES_AT_ONCE, end - self.updates)):
                    self.engine.update()
                    self.updates += 1
                if self.updates == end:
                    self._end_part(part, end - part * in_part)
            if self.stream is not None:
                event = torch.cuda.Event()
                event.record(self.stream)
                self._events.append(event)
            yield
        self._wait()

    @property
    def has_failed(self) -> bool:
        """Whether every seed has had a loss that is no finite number, as far as the device is."""
        return not self.engine.finite.any().item()

    @property
    def busy(self) -> bool:
        """Whether the device has enough to do for now."""
        while self._events and self._events[0].query():
            self._events.pop(0)
        return len(self._events) >= CALLS_IN_FLIGHT

    def progress(self) -> Progress:
        """How far the run is. Waits for the few updates under way."""
        self._wait()
        last = max(0, self._parts_ended - 1)
        losses, solved = self.rows[last, 0], self.rows[last, 1] / self.rows[last, 2]
        return Progress(
            steps=self.examples,
            total_steps=self.total_updates * self.config.recipe.steps_of_update,
            losses=losses.tolist(),
            solved=solved.tolist(),
            finite=self.engine.finite.tolist(),
            steps_per_second=self._pace.per_second(self.examples) * len(self.config.seeds),
        )

    def save(self) -> None:
        """Write a checkpoint and the metrics so far."""
        self._wait()
        progress = {"updates": self.updates, "seconds": self.seconds, "commits": self.commits}
        save_checkpoint(self.folder, self._state(), progress)
        self.folder.write_metrics(self.metrics())

    save_soon = save  # it can be saved after any turn

    def metrics(self) -> list[dict[str, Any]]:
        """One row a part: steps so far, and of every seed the loss of an update, the share of the games ending in this
        part that were solved ("validation": the best decides what is tested), their number, the reward of a step."""
        recipe = self.config.recipe
        ends = [min((part + 1) * recipe.updates_of_part, self.total_updates) for part in range(self.total_parts)]
        return [
            {
                "examples": end * recipe.steps_of_update,
                "loss": [_number(value) for value in loss],
                "validation": [won / games if games else None for won, games in zip(solved, finished, strict=True)],
                "games": [int(games) for games in finished],
                "reward": reward,
            }
            for end, (loss, solved, finished, reward) in zip(ends, self.rows.tolist(), strict=True)
            if end <= self.updates
        ]

    def finish(self) -> dict[str, Any]:
        """Test every seed and write the result."""
        self.save()
        seconds = self.seconds
        finite, best_solved = self.engine.finite.tolist(), self.best_solved.tolist()
        shares = self._test([number for number, is_finite in enumerate(finite) if is_finite])
        rows = []
        for number, seed in enumerate(self.config.seeds):
            row: dict[str, Any] = {"seed": seed, "validation": None, "examples_of_best": None}
            row |= dict.fromkeys(TESTS)
            if finite[number]:
                row |= {"validation": best_solved[number], "examples_of_best": self._examples_of_best(number)}
                row |= shares[number]
            rows.append({**row, "failed": not finite[number]})
        result = {
            "config": self.config.as_dict(),
            "seeds": rows,
            "levels": asdict(self.splits.identity),
            "parameters": sum(parameter.numel() for parameter in self.agent.parameters()),
            "seconds": seconds,
            "seconds_of_test": self.seconds - seconds,
            "recompute": self.engine.agent.recompute,
            **provenance(self.device, self.commits),
        }
        write_json(self.folder.result, result)
        return result

    def _test(self, numbers: list[int]) -> dict[int, dict[str, float]]:
        """The shares of the test levels that some seeds solve, by number and name, all played at once."""
        best, last = self.fleet.split(self.best), self.fleet.parameters
        levels = self.splits.test.to(self.device)
        players: list[Player] = []
        for number in numbers:
            noise = test_noise(self.config.seeds[number], TIME_LIMIT, len(levels)).to(self.device)
            own, own_last = (self._for_computing(vectors, number) for vectors in (best, last))
            players += [Player(own, noise), Player(own, None), Player(own_last, noise)]
        if not players:
            return {}
        compiled = tests_compiled(self.config.compile, self.device)
        solved = solved_levels(self.agent, players, levels, compiled=compiled).double().mean(1).view(-1, len(TESTS))
        by_seed = zip(numbers, solved.tolist(), strict=True)
        return {number: dict(zip(TESTS, shares, strict=True)) for number, shares in by_seed}

    def _for_computing(self, parameters: Parameters, number: int) -> Parameters:
        return {name: for_computing(values[number], self.config.precision) for name, values in parameters.items()}

    def _load(self, part: int) -> None:
        """Draw what chance decides in a part, unless it is the one under way."""
        if part == self._loaded_part:
            return
        recipe = self.config.recipe
        drawn = draw(self.config.seeds, part, recipe.updates_of_part, recipe.window, self.classes)
        self.engine.load(drawn, self.updates - part * recipe.updates_of_part)
        self._loaded_part = part

    def _end_part(self, part: int, updates: int) -> None:
        engine = self.engine
        steps = updates * self.config.recipe.steps_of_update
        sums = torch.stack([engine.losses / updates, engine.solved, engine.finished, engine.rewards / steps])
        self.rows[part] = sums
        if updates == self.config.recipe.updates_of_part or self.total_parts == 1:
            solved = engine.solved / engine.finished.clamp(min=1)
            better = (solved > self.best_solved) & engine.finite
            self.best_solved.copy_(torch.where(better, solved, self.best_solved))
            keep_best(self.fleet, self.best, better)
        engine.forget_sums()

    @property
    def _parts_ended(self) -> int:
        at_the_end = self.updates == self.total_updates
        return self.total_parts if at_the_end else self.updates // self.config.recipe.updates_of_part

    def _state(self) -> dict[str, Tensor]:
        own = {"best_solved": self.best_solved, "rows": self.rows}
        return {**self.fleet.named_state(self.best), **own, **self.engine.state()}

    def _resume(self) -> None:
        found = load_checkpoint(self.folder, put_aside=True)
        if found is None:
            return
        tensors, progress = found
        with self._on_stream(), torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(tensors[name])
        self.updates, self.seconds_before = progress["updates"], progress["seconds"]
        self.commits = commits_with_this(progress.get("commits", []))

    def _examples_of_best(self, number: int) -> int:
        rates = (self.rows[:, 1, number] / self.rows[:, 2, number].clamp(min=1)).tolist()
        end = min((rates.index(self.best_solved[number].item()) + 1) * self.config.recipe.updates_of_part, self.updates)
        return end * self.config.recipe.steps_of_update

    def _wait(self) -> None:
        """Wait until the device has done all it was given."""
        while self._events:
            self._events.pop(0).synchronize()

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None
