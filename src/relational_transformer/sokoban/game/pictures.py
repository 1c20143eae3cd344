"""A game as text and as an animated GIF."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from relational_transformer.files import write_atomically

from .environment import Environment
from .levels import AGENT, BOX, FLOOR, SIDE, TARGET, WALL, Levels
from .rules import ACTIONS, TIME_LIMIT

BOX_ON_TARGET, AGENT_ON_TARGET = "*", "+"
LETTERS = {"u": 1, "d": 2, "l": 3, "r": 4, "w": 0}
CELL_PIXELS = 20
COLORS = {"wall": "5b6770", "floor": "f4f1ea", "target": "d1495b", "box": "e0a030", "agent": "2e7d5b"}


@dataclass(frozen=True)
class Frame:
    """One moment of a game: ten rows of letters (`*` box on a target, `+` agent on a target), and the score."""

    rows: tuple[str, ...]
    step: int
    action: str
    reward: float
    total: float
    solved: bool

    @property
    def caption(self) -> str:
        state = "solved" if self.solved else f"{self.action:5}"
        return f"step {self.step:3} of {TIME_LIMIT}   {state}   reward {self.reward:+.0f}, {self.total:+.0f} in all"


def parse_moves(moves: str) -> list[int]:
    """Actions from letters: u, d, l, r, and w to wait.

    >>> parse_moves("urw")
    [1, 4, 0]
    """
    strange = sorted(set(moves.lower()) - set(LETTERS))
    if strange:
        raise ValueError(f"moves are the letters u, d, l, r, and w to wait, got {strange[0]!r}")
    return [LETTERS[letter] for letter in moves.lower()]


def frames(level: Levels, actions: Sequence[int]) -> Iterator[Frame]:
    """The frames of a game on the first level of `level`: before any action and after each, until the game ends."""
    environment = Environment(level, torch.tensor([0]))
    yield Frame(board_rows(environment), 0, "", 0.0, 0.0, False)
    total = 0.0
    for step, action in enumerate(actions, start=1):
        outcome = environment.step(torch.tensor([action]))
        reward = outcome.board.reward.item()
        total += reward
        yield Frame(board_rows(environment), step, ACTIONS[action], reward, total, bool(outcome.solved))
        if outcome.done:
            return


def board_rows(environment: Environment) -> tuple[str, ...]:
    """The first board of an environment as rows of letters."""
    board, levels = environment.board, environment.levels
    level = int(board.level[0])
    cells = [WALL if wall else FLOOR for wall in levels.walls[level].tolist()]
    targets = set(levels.targets[level].nonzero().flatten().tolist())
    for cell in targets:
        cells[cell] = TARGET
    for cell in board.boxes[0].nonzero().flatten().tolist():
        cells[cell] = BOX_ON_TARGET if cell in targets else BOX
    agent = int(board.agent[0])
    cells[agent] = AGENT_ON_TARGET if agent in targets else AGENT
    return tuple("".join(cells[row * SIDE : (row + 1) * SIDE]) for row in range(SIDE))


def write_gif(path: Path, game: Sequence[Frame], frames_per_second: int = 5) -> None:
    """Write an animation of a game, whose last frame is shown longer."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a GIF needs matplotlib: pip install '.[report]' in a checkout") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.animation import PillowWriter

    images = [draw(frame.rows) for frame in game]
    images += [images[-1]] * (2 * frames_per_second)
    height, width = images[0].shape[:2]
    figure = pyplot.figure(figsize=(width / 100, height / 100), dpi=100)
    shown = figure.figimage(images[0])
    writer = PillowWriter(fps=frames_per_second)

    def write(temporary: Path) -> None:
        named = temporary.with_name(f"{temporary.name}.gif")  # matplotlib takes the format from the name
        with writer.saving(figure, str(named), dpi=100):
            for image in images:
                shown.set_data(image)
                writer.grab_frame()
        os.replace(named, temporary)

    write_atomically(path, write)
    pyplot.close(figure)


def draw(rows: Sequence[str]) -> np.ndarray:
    """A board as a picture, uint8 [200, 200, 3]."""
    return np.block([[[_cell(letter)] for letter in row] for row in rows])


def _cell(letter: str) -> np.ndarray:
    """One cell, [20, 20, 3]: a target is a small diamond, a box a square, the agent a disc."""
    color = {name: np.array([int(code[k : k + 2], 16) for k in (0, 2, 4)], np.uint8) for name, code in COLORS.items()}
    image = np.broadcast_to(color["wall" if letter == WALL else "floor"], (CELL_PIXELS, CELL_PIXELS, 3)).copy()
    down, right = np.mgrid[:CELL_PIXELS, :CELL_PIXELS] - (CELL_PIXELS - 1) / 2
    if letter in (BOX, BOX_ON_TARGET):
        image[np.maximum(abs(down), abs(right)) < 8] = color["box"]
    if letter in (AGENT, AGENT_ON_TARGET):
        image[down**2 + right**2 < 64] = color["agent"]
    if letter in (TARGET, BOX_ON_TARGET, AGENT_ON_TARGET):
        image[abs(down) + abs(right) < 5] = color["target"]
    return image
