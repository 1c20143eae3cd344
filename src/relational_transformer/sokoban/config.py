"""The configuration of a training run on Sokoban: the agent's model, a recipe, levels and seeds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from relational_transformer.bounds import check_bounds
from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.precision import Precision
from relational_transformer.runs.config import RunConfig

from .agent import Agent, Model
from .game.levels import Levels, load_levels
from .settings import AgentSettings, Recipe
from .splits import Split, Splits, SplitsIdentity, generate_split

MOST_LEVELS = 10**7


@dataclass(frozen=True)
class SokobanConfig(RunConfig):
    """One fleet: `seeds` of one agent. Besides these fields only the device and the kernels' switch change the numbers
    of a run; the result names both.

    >>> from relational_transformer.sokoban import RECIPES
    >>> config = SokobanConfig("rt", RECIPES["original"], seeds=(0, 1))
    >>> SokobanConfig.from_dict(config.as_dict()) == config
    True
    """

    called = "a Sokoban run"

    model: Model
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)
    levels: SplitsIdentity | None = None
    """The identity of the levels of a Boxoban folder (`load_splits(folder, 1_000).identity`); None for generated
    levels. The folder itself is given when the run is trained."""
    train_levels: int = 20_000
    """The number of generated training levels. Of a folder, all levels are used."""
    test_levels: int = 1_000
    """The number of test levels, the first ones of the test split."""
    settings: AgentSettings = field(default_factory=AgentSettings)
    precision: Precision = "tf32"
    compile: CompileMode = "auto"
    schedule: Schedule = CONSTANT
    task: Literal["sokoban"] = "sokoban"

    def __post_init__(self) -> None:
        if self.model not in get_args(Model):
            raise ValueError(f"the agent has no model {self.model!r}; the models are {', '.join(get_args(Model))}")
        super().__post_init__()
        check_bounds(self, dict.fromkeys(("train_levels", "test_levels"), (1, MOST_LEVELS)))
        if not isinstance(self.levels, SplitsIdentity | None):
            raise ValueError(f"levels must be load_splits(folder, ...).identity, or None, got {self.levels!r}")
        if self.levels is not None and self.levels.test > self.test_levels:
            raise ValueError(f"{self.levels.test} levels cannot be tested with test_levels={self.test_levels}")

    def build(self) -> Agent:
        """The agent, freshly initialised."""
        return Agent(self.model, self.settings)

    def load(self, split: Split, folder: Path | str | None = None) -> Levels:
        """The levels of a split: generated, or read from `folder` and compared with the run's."""
        count = self.test_levels if split == "test" else self.train_levels
        if self.levels is None:
            return generate_split(split, count)
        if folder is None:
            raise ValueError("the levels of this run are those of a Boxoban folder: give it with --levels")
        levels = load_levels(folder, split)
        levels = levels[: self.levels.test] if split == "test" else levels
        self.levels.check(split, levels, str(folder))
        return levels

    def load_both(self, folder: Path | str | None = None) -> Splits:
        """All levels of the run."""
        place = None if self.levels is None or folder is None else Path(folder)
        test = self.load("test", place)  # first, because it is small and may be missing
        return Splits(self.load("train", place), test, place)
