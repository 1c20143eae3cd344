"""`rt train sokoban`: train agents that play Sokoban."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train
from relational_transformer.sokoban import RECIPES, AgentSettings, Recipe, SokobanConfig, SokobanTask, load_splits
from relational_transformer.sokoban.agent import Model

from .train_run import RunOptions, changes_of, train_and_show


@dataclass(frozen=True)
class TrainSokobanArguments:
    """The paper's third experiment: train Working Memory Graph (WMG) agents to push four boxes onto four targets within
    120 steps, and test them on 1,000 levels. The input has no graph; edges are latent.

    A score is the share of test levels that an agent solves. The paper's agents leave 34% unsolved with a transformer
    and 29% with the Relational Transformer. A killed run resumes from the last checkpoint with the same command, and
    ends with the same numbers.
    """

    model: Model = "rt"
    """The Relational Transformer inside the agent, or the standard transformer that it replaces."""
    recipe: Literal["batched", "original"] = "batched"
    """batched: 64 games at once; original: WMG's numbers, one game with an update every 4 steps, which takes weeks."""
    levels: Path | None = None
    """A Boxoban folder (https://github.com/google-deepmind/boxoban-levels), which has the paper's levels; by default
    easier levels are generated."""
    run: RunOptions = field(default_factory=RunOptions)
    """Seeds, the folder of the run, and how it is computed."""
    steps: int | None = None
    """Steps that each seed plays; 10 million by default."""
    games: int | None = None
    """Games that each seed plays at once; by default those of the recipe."""
    window: int | None = None
    """Steps of each game between two updates; 4 by default."""
    size_classes: int | None = None
    """The largest number of classes into which games are sorted by the size of their levels; by default that of the
    recipe, 2 or 1. Each class is padded to its largest level."""
    learning_rate: float | None = None
    """Adam's learning rate; by default 1.6e-5 times the square root of the number of games."""
    gradient_clip: float | None = None
    """The norm to which the gradient of a seed is clipped; 512 by default."""
    report_interval: int | None = None
    """Steps between two reports of the share of solved levels; 100,000 by default. The parameters after the best
    interval are tested."""
    train_levels: int = SokobanConfig.train_levels
    """The number of generated training levels, without --levels."""
    test_levels: int = SokobanConfig.test_levels
    """The number of test levels."""
    settings: Annotated[AgentSettings, tyro.conf.arg(name="agent")] = field(default_factory=AgentSettings)
    """Sizes of the agent."""


def run(arguments: TrainSokobanArguments) -> None:
    levels = None if arguments.levels is None else load_splits(arguments.levels, arguments.test_levels)
    config = SokobanConfig(
        model=arguments.model,
        recipe=_recipe(arguments),
        levels=None if levels is None else levels.identity,
        train_levels=arguments.train_levels,
        test_levels=arguments.test_levels,
        settings=arguments.settings,
        **arguments.run.as_config(),
    )
    out = arguments.run.out or Path("runs") / f"sokoban-{arguments.model}-{arguments.recipe}"
    train_and_show(SokobanTask(config, levels=levels), arguments.run, RunFolder(out), train)


def _recipe(arguments: TrainSokobanArguments) -> Recipe:
    recipe = RECIPES[arguments.recipe]
    if arguments.games is not None:
        recipe = recipe.with_games(arguments.games)
    names = ("steps", "window", "size_classes", "learning_rate", "gradient_clip", "report_interval")
    return replace(recipe, **changes_of(arguments, *names))
