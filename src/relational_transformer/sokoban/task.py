"""Sokoban as a task: agents learn from the games that they play, and are scored by the share of levels that they
solve."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.pieces import Parameters
from relational_transformer.fleet.precision import Precision, for_computing
from relational_transformer.runs.run_folder import MetricsRow, RunFolder
from relational_transformer.runs.task import Evaluation, Optimiser, Start, Task

from .agent import Agent
from .chance import draw, first_levels, test_noise
from .config import SokobanConfig
from .cost import flop
from .curves import draw_curves
from .evaluation import Player, solved_levels, tests_compiled
from .game.environment import Environment
from .game.rules import TIME_LIMIT
from .game.size_classes import size_classes
from .settings import RECIPES, AgentSettings
from .splits import Splits, SplitsIdentity, remember_folder, remembered_folder
from .step import TrainingStep


class GamesRow(MetricsRow):
    """A line of the metrics: also the number of games that ended, and the mean reward of a step."""

    games: list[int]
    reward: list[float]


class SokobanTask(Task[SokobanConfig]):
    """A fleet of agents, each learning from games of its own. An example is a step of a game.

    The validation score of a part is the share of solved games among those that ended in it. The parameters after the
    best part are kept and tested, as in WMG. A shorter last part is left out, because the score of few games is noisy.

    `levels` are those of a Boxoban folder, `load_splits(folder, config.test_levels)`. If they are not given, they are
    read from the folder `data`, or from the folder that the run has used before.

    >>> from relational_transformer.sokoban import RECIPES
    >>> task = SokobanTask(SokobanConfig("rt", RECIPES["original"], seeds=(0, 1)))
    >>> task.num_steps, task.steps_of_part, task.examples_of_step
    (2500000, 25000, 4)
    """

    config_type = SokobanConfig
    scores = ("test", "test_greedy", "test_of_last")
    """With the best parameters, sampled and greedy, and with the last ones, sampled."""
    columns = ("games", "reward")
    steps_at_once = {"cuda": 16, "cpu": 16}  # noqa: RUF012
    only_launches = True
    title = "Sokoban: unsolved games in training"
    examples_are = "steps"
    measure = "share of levels solved"
    shown_as = ".1f"
    row_type = GamesRow

    steps: TrainingStep

    def __init__(self, config: SokobanConfig, data: str | None = None, levels: Splits | None = None) -> None:
        super().__init__(config, data)
        self._given = levels
        self._levels: Splits | None = None

    @property
    def num_steps(self) -> int:
        return self.config.recipe.num_updates

    @property
    def steps_of_part(self) -> int:
        return self.config.recipe.updates_of_part

    @property
    def examples_of_step(self) -> int:
        return self.config.recipe.steps_of_update

    @property
    def optimiser(self) -> Optimiser:
        recipe = self.config.recipe
        return Optimiser(recipe.learning_rate, recipe.adam_epsilon, recipe.gradient_clip)

    def build(self) -> Agent:
        return self.config.build()

    def check(self, folder: RunFolder, device: torch.device) -> None:
        super().check(folder, device)
        self._levels = self._find_levels(folder)

    def start(self, start: Start) -> None:
        config, recipe = self.config, self.config.recipe
        self.splits = splits = self._levels or self._find_levels(start.folder)
        if splits.folder is not None:
            remember_folder(start.folder, splits.folder)
        self.classes = size_classes(splits.train, recipe.num_games, recipe.size_classes)
        first = first_levels(config.seeds, self.classes).flatten()
        self.steps = TrainingStep(
            start.model,
            start.fleet,
            Environment(splits.train.to(start.device), first, capacity=self.classes[-1].capacity),
            recipe,
            start.adam,
            # A transformer has few large tensors: one batch of all games is faster.
            classes=self.classes if config.model == "rt" else None,
            precision=config.precision,
            compiled=start.compiled,
        )
        self.agent, self.fleet, self._device = start.model, start.fleet, start.device

    def load(self, part: int, position: int) -> None:
        drawn = draw(self.config.seeds, part, self.steps_of_part, self.config.recipe.window, self.classes)
        self.steps.load(drawn, position)

    def validate(self, steps: int) -> dict[str, Tensor]:
        played = self.steps
        return {
            "validation": played.solved / played.finished.clamp(min=1),
            "games": played.finished,
            "reward": played.rewards / (steps * self.examples_of_step),
        }

    def competes(self, steps: int) -> bool:
        return steps == self.steps_of_part or self.num_steps <= self.steps_of_part

    def test(self, best: Parameters, tested: Sequence[bool]) -> dict[str, list[float]]:
        """Let all players of all seeds play the test levels at once."""
        last, levels = self.fleet.parameters, self.splits.test.to(self._device)
        players: list[Player] = []
        for number, seed in enumerate(self.config.seeds):
            if tested[number]:
                noise = test_noise(seed, TIME_LIMIT, len(levels)).to(self._device)
                own, own_last = (self._for_computing(vectors, number) for vectors in (best, last))
                players += [Player(own, noise), Player(own, None), Player(own_last, noise)]
        compiled = tests_compiled(self.config.compile, self._device)
        solved = solved_levels(self.agent, players, levels, compiled=compiled).double().mean(1)
        shares = torch.full((len(tested), len(self.scores)), torch.nan, dtype=torch.float64, device=self._device)
        shares[torch.tensor(tested, device=self._device)] = solved.view(-1, len(self.scores))
        return {name: column.tolist() for name, column in zip(self.scores, shares.unbind(1), strict=True)}

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        games = [int(number) for number in row["games"]]
        shares = [share if number else None for share, number in zip(row["validation"], games, strict=True)]
        return {**row, "validation": shares, "games": games}

    @classmethod
    def evaluate(
        cls, folder: RunFolder, device: torch.device, nodes: int | None = None, examples: int | None = None,
        data_seed: int | None = None,
    ) -> Evaluation:  # fmt: skip
        raise ValueError(f"this is a run on Sokoban: rt evaluate sokoban {folder.path}")

    @property
    def headings(self) -> dict[str, str]:
        return {"test": "test, sampled", "test_greedy": "test, greedy", "test_of_last": "last, sampled"}

    def draw(self, path: Path, title: str, metrics: list[dict[str, Any]], seeds: list[dict[str, Any]]) -> None:
        draw_curves(path, title, metrics, seeds)

    def about(self) -> dict[str, Any]:
        return {"levels": asdict(self.splits.identity)}

    @classmethod
    def paper_config(
        cls, task: str, model: Any, seeds: tuple[int, ...], *, examples: int | None = None,
        precision: Precision = "tf32", compile: CompileMode = "auto", recipe: str = "original",
        levels: SplitsIdentity | None = None, **options: Any,
    ) -> SokobanConfig:  # fmt: skip
        chosen = RECIPES[recipe] if examples is None else replace(RECIPES[recipe], steps=examples)
        return SokobanConfig(model, chosen, seeds, levels, precision=precision, compile=compile)

    @classmethod
    def paper_values(cls, config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        return {"recipe": vars(RECIPES["original"]), "settings": vars(AgentSettings())}

    @classmethod
    def paper_unit(cls, score: float) -> float:
        """The share of levels that are not solved, in percent."""
        return 100 * (1 - score)

    def flop(self) -> float:
        return flop(self.config)

    def _for_computing(self, parameters: Parameters, number: int) -> Parameters:
        return {name: for_computing(values[number], self.config.precision) for name, values in parameters.items()}

    def _find_levels(self, folder: RunFolder) -> Splits:
        given = self._given
        if self.config.levels is None and (given is not None or self.data is not None):
            raise ValueError("levels are given, but the configuration has generated levels")
        if given is None or self.config.levels is None:
            return self.config.load_both(remembered_folder(folder) if self.data is None else self.data)
        for split in ("test", "train"):
            self.config.levels.check(split, getattr(given, split), str(given.folder or "those given"))
        return given
