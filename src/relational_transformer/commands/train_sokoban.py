"""`rt train sokoban`: train agents that play Sokoban."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import consecutive_seeds
from relational_transformer.fleet.precision import Precision, default_device, find_device
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train
from relational_transformer.sokoban import RECIPES, AgentSettings, Recipe, SokobanConfig, SokobanTask, load_splits
from relational_transformer.sokoban.agent import Model
from relational_transformer.sokoban.curves import draw_curves

from .train_live_line import say
from .train_sokoban_display import SokobanDisplay, show_result


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
    seeds: int = 1
    """How many seeds are trained together."""
    first_seed: int = 0
    """The first of them; the others follow."""
    out: Path | None = None
    """Folder of the run; by default runs/sokoban-MODEL-RECIPE."""
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
    report_interval: int | None = None
    """Steps over which the share of solved levels is taken; the parameters after the best interval are tested."""
    train_levels: int = SokobanConfig.train_levels
    """How many levels are generated to train on, where no folder is given."""
    test_levels: int = SokobanConfig.test_levels
    """How many levels the agents are tested on."""
    size: int = AgentSettings.size
    """Channels of a node."""
    num_layers: int = AgentSettings.num_layers
    precision: Precision = "tf32"
    """tf32 (on a CPU the same as fp32), bf16, fp32 or fp64."""
    compile: CompileMode = "auto"
    """Compile all that an update does: on CUDA, and in long runs on a CPU."""
    device: str = field(default_factory=default_device)
    checkpoint_seconds: float = 60.0
    """A checkpoint is written about so often, and at the end."""


def run(arguments: TrainSokobanArguments) -> None:
    levels = None if arguments.levels is None else load_splits(arguments.levels, arguments.test_levels)
    config = SokobanConfig(
        model=arguments.model,
        recipe=_recipe(arguments),
        seeds=consecutive_seeds(arguments.first_seed, arguments.seeds),
        levels=None if levels is None else levels.identity,
        train_levels=arguments.train_levels,
        test_levels=arguments.test_levels,
        settings=AgentSettings(size=arguments.size, num_layers=arguments.num_layers),
        precision=arguments.precision,
        compile=arguments.compile,
    )
    folder = RunFolder(arguments.out or Path("runs") / f"sokoban-{arguments.model}-{arguments.recipe}")
    with SokobanDisplay(config) as display:
        result = train(
            SokobanTask(config, levels=levels),
            folder.path,
            find_device(arguments.device),
            report=display.update,
            checkpoint_seconds=arguments.checkpoint_seconds,
        )
    show_result(result, folder)
    try:
        draw_curves(folder.curves, f"{arguments.model} on sokoban", folder.read_metrics(), result["seeds"])
        say(f"picture  {folder.curves}")
    except ModuleNotFoundError as error:  # the run is whole without it
        say(f"picture  none: {error}")


def _recipe(arguments: TrainSokobanArguments) -> Recipe:
    recipe = RECIPES[arguments.recipe]
    if arguments.games is not None:
        recipe = recipe.with_games(arguments.games)
    names = ("steps", "window", "size_classes", "learning_rate", "report_interval")
    given = {name: getattr(arguments, name) for name in names}
    return replace(recipe, **{name: value for name, value in given.items() if value is not None})
