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
    """Train Working Memory Graph agents to push four boxes onto four targets within 120 steps, and test them on 1,000
    levels: the paper's third experiment, in which no graph is given and edges are latent. The paper's agents leave 34%
    of the levels unsolved with a transformer and 29% with the Relational Transformer in its place.

    The run is a folder. Killed at any moment, the same command goes on from the last checkpoint and ends with the same
    numbers.
    """

    model: Model = "rt"
    """The Relational Transformer inside the agent, or the standard transformer that it replaces."""
    recipe: Literal["batched", "original"] = "batched"
    """Many games at once, or WMG's numbers: one game and an update every 4 steps (weeks for all steps). The options
    below change single numbers of it."""
    levels: Path | None = None
    """A Boxoban folder (https://github.com/google-deepmind/boxoban-levels), the paper's levels; by default own, easier
    levels are generated."""
    run: Annotated[RunOptions, tyro.conf.arg(name="")] = field(default_factory=RunOptions)
    steps: int | None = None
    """Steps that each seed plays; 10 million by default."""
    games: int | None = None
    """Games that each seed plays at once; the learning rate grows with the square root of their number."""
    window: int | None = None
    """Steps of every game between two updates."""
    size_classes: int | None = None
    """Classes of games by the size of their levels, at most; each is padded to its own largest level."""
    learning_rate: float | None = None
    """Adam's; by default 1.6e-5 times the square root of the number of games."""
    gradient_clip: float | None = None
    """Largest norm of a gradient; 512 by default."""
    report_interval: int | None = None
    """Steps over which the share of solved levels is taken; the parameters after the best interval are tested."""
    train_levels: int = SokobanConfig.train_levels
    """How many levels are generated to train on, where no folder is given."""
    test_levels: int = SokobanConfig.test_levels
    """How many levels the agents are tested on."""
    settings: Annotated[AgentSettings, tyro.conf.arg(name="")] = field(default_factory=AgentSettings)


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
