"""`rt play`: watch a trained agent, replay moves, or play by keyboard."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.live import Live
from rich.text import Text

from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.sokoban import Levels, SokobanConfig, load_levels
from relational_transformer.sokoban.chance import test_noise
from relational_transformer.sokoban.game.keyboard import keys
from relational_transformer.sokoban.game.pictures import Frame, frames, parse_moves, write_gif
from relational_transformer.sokoban.game.rules import TIME_LIMIT
from relational_transformer.sokoban.splits import generate_split
from relational_transformer.sokoban.trained import agent_actions, levels_of_run, load_seed

LOOKS = {
    "#": ("  ", "on grey35"),
    " ": ("  ", ""),
    ".": ("<>", "red"),
    "$": ("[]", "bold yellow"),
    "*": ("[]", "bold green"),
    "@": ("()", "bold cyan"),
    "+": ("()", "bold magenta"),
}
KEYS = {"up": 1, "down": 2, "left": 3, "right": 4, " ": 0}


@dataclass(frozen=True)
class PlayArguments:
    """Play Sokoban in the terminal: watch the agent of a run, replay moves, or play yourself with the arrow keys.

    Push every box onto a target within 120 steps: () is the player, [] a box (yellow, and green on a target), <> a
    target. Without a run and without --moves you play: arrows move, space waits, r restarts the level, n goes to the
    next level, q ends.

    An agent plays as in its test, with the test's levels and random numbers. On another device than that of the test,
    rounding may change an action.
    """

    game: Annotated[Literal["sokoban"], tyro.conf.Positional]
    """The game: sokoban."""
    run: Annotated[Path | None, tyro.conf.Positional] = None
    """The folder of the run whose agent plays."""
    moves: str | None = None
    """Moves to replay: the letters u, d, l, r, and w to wait."""
    levels: Path | None = None
    """A Boxoban folder with test levels; by default those of the run, or generated ones without a run."""
    level: int = 0
    """The number of the level, from 0."""
    seed: int | None = None
    """The seed of the run whose agent plays; by default the first that did not fail."""
    greedy: bool = False
    """Take the most probable action in every step instead of sampling."""
    delay: float = 0.2
    """Seconds between two steps."""
    gif: Path | None = None
    """Also write the game to this file as an animated GIF."""


def run(arguments: PlayArguments) -> None:
    if arguments.run is not None and arguments.moves is not None:
        raise ValueError("give a run, whose agent plays, or --moves to replay, not both")
    if arguments.run is None and arguments.moves is None and not sys.stdin.isatty():
        raise ValueError("playing by keyboard needs a terminal; name a run to watch, or give --moves")
    if not 0 <= arguments.delay < math.inf:
        raise ValueError(f"--delay must be a finite number of at least 0, got {arguments.delay:g}")
    if arguments.run is None and (arguments.seed is not None or arguments.greedy):
        raise ValueError("--seed and --greedy need an agent: name the run whose agent plays")
    if arguments.run is None and arguments.moves is None and arguments.gif is not None:
        raise ValueError("--gif needs a run or --moves: a game by keyboard cannot be written")
    levels = _find_levels(arguments)
    if not 0 <= arguments.level < len(levels):
        raise ValueError(f"there are levels 0 to {len(levels) - 1}, not {arguments.level}")
    if arguments.run is None and arguments.moves is None:
        _play_by_keyboard(levels, arguments.level)
        return
    game = list(frames(levels[arguments.level], _actions(arguments, levels)))
    _show(game, arguments.delay)
    if arguments.gif is not None:
        write_gif(arguments.gif, game)
        Console().print(f"picture  {arguments.gif}", highlight=False, markup=False, soft_wrap=True)


def _find_levels(arguments: PlayArguments) -> Levels:
    if arguments.run is not None:
        return levels_of_run(RunFolder(arguments.run), elsewhere=arguments.levels)
    if arguments.levels is not None:
        return load_levels(arguments.levels, "test")
    return generate_split("test", SokobanConfig.test_levels)


def _actions(arguments: PlayArguments, levels: Levels) -> Sequence[int]:
    if arguments.run is None:
        return parse_moves(arguments.moves or "")
    seed, agent = load_seed(arguments.run, arguments.seed)
    noise = test_noise(seed, TIME_LIMIT, len(levels))[:, arguments.level]
    return agent_actions(agent, levels[arguments.level], None if arguments.greedy else noise)


def _show(game: Sequence[Frame], delay: float) -> None:
    """Show the game step by step in a terminal, or print only its last step where there is no terminal."""
    console = Console()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            for frame in game:
                live.update(_picture(frame), refresh=True)
                time.sleep(delay)
        return
    print("\n".join([*game[-1].rows, game[-1].caption]))


def _play_by_keyboard(levels: Levels, number: int) -> None:
    actions: list[int] = []
    with keys() as pressed, Live(console=Console(), auto_refresh=False) as live:
        while True:
            level = levels[number]
            game = list(frames(level, actions))
            over = game[-1].solved or game[-1].step == TIME_LIMIT
            live.update(_picture(game[-1], f"level {number}   arrows, r again, n next, q quit"), refresh=True)
            key = next(pressed)
            if key == "q":
                return
            if key in ("r", "n"):
                number, actions = (number + (key == "n")) % len(levels), []
            elif key in KEYS and not over:
                actions.append(KEYS[key])


def _picture(frame: Frame, note: str = "") -> Text:
    text = Text()
    for row in frame.rows:
        for letter in row:
            text.append(*LOOKS[letter])
        text.append("\n")
    text.append(frame.caption)
    if note:
        text.append(f"\n{note}", "dim")
    return text
