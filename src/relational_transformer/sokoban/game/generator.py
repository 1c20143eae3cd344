"""Generates levels by playing backwards from the solved position: every level can be solved within the time limit."""

import numpy as np
import torch

from .levels import CELLS, SIDE, Levels, join_levels
from .rules import MOVES, TIME_LIMIT

NUM_BOXES = 4
ROOM_STEPS = 45
TURN_CHANCE = 0.45
OPEN_CELLS = range(20, 57)
PULL_WEIGHT, WALK_WEIGHT, BACK_WEIGHT = 6.0, 1.0, 0.15
CANDIDATES = 1_000
OPPOSITE = np.array([0, 2, 1, 4, 3])


def generate_levels(count: int, seed: int, num_boxes: int = NUM_BOXES) -> Levels:
    """`count` solvable levels, the same for the same seed on every machine.

    >>> levels = generate_levels(3, seed=0, num_boxes=2)
    >>> len(levels), levels.boxes.sum(1).tolist(), levels.targets.sum(1).tolist()
    (3, [2, 2, 2], [2, 2, 2])
    """
    return generate_with_solutions(count, seed, num_boxes)[0]


def generate_with_solutions(count: int, seed: int, num_boxes: int = NUM_BOXES) -> tuple[Levels, torch.Tensor]:
    """Levels, and a solution of each as actions [count, 120]. Solutions are not the shortest; after the last push they
    wait.

    A random walk digs a room. Boxes are put on random targets. Then the agent walks and pulls at random, backwards in
    time: reversed, pulls are pushes, so the reversed walk solves the level. A level begins at a position without a box
    or the agent on a target.
    """
    if count < 1 or not 1 <= num_boxes <= 8:
        raise ValueError(f"levels and boxes must be at least 1, boxes at most 8, got {count} and {num_boxes}")
    generator = np.random.Generator(np.random.Philox(key=[seed, num_boxes]))
    parts: list[tuple[Levels, torch.Tensor]] = []
    while sum(len(levels) for levels, _ in parts) < count:
        parts.append(_candidates(generator, num_boxes))
    levels = join_levels(levels for levels, _ in parts)
    solutions = torch.cat([solutions for _, solutions in parts])
    return levels[:count], solutions[:count]


def _candidates(generator: np.random.Generator, num_boxes: int) -> tuple[Levels, torch.Tensor]:
    walls = _dig_rooms(generator, CANDIDATES)
    num_open = CELLS - walls.sum(1)
    walls = walls[(num_open >= OPEN_CELLS.start) & (num_open < OPEN_CELLS.stop)]
    # Open cells in random order: the first of them are the targets, the next is where the walk begins.
    order = np.argsort(generator.random(walls.shape) + walls, axis=1)
    targets = np.zeros_like(walls)
    np.put_along_axis(targets, order[:, :num_boxes], True, axis=1)
    agent, boxes, solution, kept = _walk_backwards(generator, walls, targets, order[:, num_boxes])
    tensors = (torch.from_numpy(array[kept]) for array in (walls, targets, boxes, agent))
    return Levels(*tensors), torch.from_numpy(solution[kept])


def _dig_rooms(generator: np.random.Generator, count: int) -> np.ndarray:
    """Walls [count, 100] around the cells that a random walk has dug. Each step is up to two cells wide."""
    walls = np.ones((count, CELLS), dtype=bool)
    row, column = generator.integers(1, SIDE - 1, size=(2, count))
    direction = generator.integers(0, 4, size=count)
    games = np.arange(count)
    for _ in range(ROOM_STEPS):
        turns = generator.random(count) < TURN_CHANCE
        direction = np.where(turns, generator.integers(0, 4, size=count), direction)
        down, right = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])[direction].T
        row, column = np.clip(row + down, 1, SIDE - 2), np.clip(column + right, 1, SIDE - 2)
        walls[games, row * SIDE + column] = False
        beside = np.clip(row + right, 1, SIDE - 2) * SIDE + np.clip(column + down, 1, SIDE - 2)
        walls[games, beside] &= generator.random(count) < 0.5
    return walls


def _walk_backwards(
    generator: np.random.Generator, walls: np.ndarray, targets: np.ndarray, agent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Agent and boxes at the last position of a walk of 120 steps at which a level can begin, the actions of its
    solution, and whether there is such a position."""
    games = np.arange(len(walls))
    boxes, last = targets.copy(), np.zeros(len(walls), dtype=np.int64)
    actions = np.zeros((len(walls), TIME_LIMIT), dtype=np.int64)
    steps = np.array(MOVES)
    first_agent, first_boxes, first_time = agent.copy(), boxes.copy(), np.full(len(walls), TIME_LIMIT)
    for time in reversed(range(TIME_LIMIT)):
        action = _choose(generator, walls, boxes, agent, last)
        behind = agent - steps[action]
        pulls = boxes[games, behind] & (action > 0)
        boxes[games[pulls], behind[pulls]] = False
        boxes[games[pulls], agent[pulls]] = True
        agent = agent + steps[action]
        actions[:, time] = OPPOSITE[action]
        last = action
        starts = ~(boxes & targets).any(1) & ~targets[games, agent]
        first_agent, first_time = np.where(starts, agent, first_agent), np.where(starts, time, first_time)
        first_boxes[starts] = boxes[starts]
    actions *= np.arange(TIME_LIMIT) >= first_time[:, None]
    return first_agent, first_boxes, _without_waits(actions), first_time < TIME_LIMIT


def _choose(
    generator: np.random.Generator, walls: np.ndarray, boxes: np.ndarray, agent: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """A random direction, preferably one that pulls a box, and seldom straight back; 0 where all are blocked."""
    games = np.arange(len(walls))
    weights = np.zeros((len(walls), len(MOVES)))
    for action in range(1, len(MOVES)):
        ahead, behind = agent + MOVES[action], agent - MOVES[action]
        free = ~walls[games, ahead] & ~boxes[games, ahead]
        weight = np.where(boxes[games, behind], PULL_WEIGHT, WALK_WEIGHT)
        weights[:, action] = free * np.where(action == OPPOSITE[last], BACK_WEIGHT, weight)
    total = weights.sum(1)
    passed = (weights.cumsum(1) <= (generator.random(len(walls)) * total)[:, None]).sum(1)
    return np.where(total > 0, np.minimum(passed, len(MOVES) - 1), 0)


def _without_waits(actions: np.ndarray) -> np.ndarray:
    """The actions of every row with its waits moved to the end."""
    order = np.argsort(actions == 0, axis=1, kind="stable")
    return np.take_along_axis(actions, order, axis=1)
