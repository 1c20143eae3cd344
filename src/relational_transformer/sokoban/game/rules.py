"""The rules: the effect and the reward of actions on a batch of boards, as pure functions on tensors."""

from typing import NamedTuple

import torch
from torch import Tensor

from .levels import CELLS, SIDE, Levels

ACTIONS = ("wait", "up", "down", "left", "right")
MOVES = (0, -SIDE, SIDE, -1, 1)
"""What each action adds to the agent's cell."""
TIME_LIMIT = 120
REWARD_ON, REWARD_OFF, REWARD_SOLVED = 1.0, -1.0, 2.0


class Board(NamedTuple):
    """The state of B boards, with the last action and reward.

    level: number of the level being played, [B].
    agent: the agent's cell, [B].
    boxes: bool [B, 100].
    covered: targets with a box on them, [B].
    time: steps made, [B].
    action: the last action, 0 before the first, [B].
    reward: the last reward, float32 [B].
    """

    level: Tensor
    agent: Tensor
    boxes: Tensor
    covered: Tensor
    time: Tensor
    action: Tensor
    reward: Tensor


class Outcome(NamedTuple):
    """The outcome of a step; `done` and `solved` are bool [B]. A game ends when it is solved or the time limit is
    reached."""

    board: Board
    done: Tensor
    solved: Tensor


def start(levels: Levels, level: Tensor) -> Board:
    """Boards at the beginning of the levels numbered `level` [B]."""
    zeros = torch.zeros_like(level)
    covered = levels.num_covered[level]
    return Board(level, levels.agent[level], levels.boxes[level], covered, zeros, zeros, zeros.float())


def step(levels: Levels, moves: Tensor, board: Board, action: Tensor) -> Outcome:
    """Make one action [B] on every board.

    The agent steps to the next cell, unless there is a wall. A box there is pushed on, unless a wall or another box is
    behind it; then nothing moves. A box pushed onto a target earns +1, off a target -1, and +2 more when all targets
    are covered.

    Args:
        moves: `MOVES` as a tensor on the device.
    """
    ahead = board.agent + moves[action]
    beyond = (ahead + moves[action]).clamp(0, CELLS - 1)  # outside only where `ahead` is a wall
    box_ahead = _at(board.boxes, ahead)
    box_beyond = _at(board.boxes, beyond)
    first_cell = board.level * CELLS
    walls, targets = levels.walls.flatten(), levels.targets.flatten()
    pushes = box_ahead & ~box_beyond & ~walls[first_cell + beyond]
    walks = ~walls[first_cell + ahead] & (pushes | ~box_ahead)
    # A push moves a box from one of two cells to the other, so exactly these two change.
    cells = torch.arange(CELLS, device=ahead.device)
    boxes = board.boxes ^ (pushes.unsqueeze(1) & ((cells == ahead.unsqueeze(1)) | (cells == beyond.unsqueeze(1))))
    change = (targets[first_cell + beyond].long() - targets[first_cell + ahead].long()) * pushes
    covered = board.covered + change
    time = board.time + 1
    solved = covered == levels.num_targets[board.level]
    reward = REWARD_ON * (change > 0) + REWARD_OFF * (change < 0) + REWARD_SOLVED * solved
    moved = Board(board.level, torch.where(walks, ahead, board.agent), boxes, covered, time, action, reward)
    return Outcome(moved, solved | (time == TIME_LIMIT), solved)


def choose(condition: Tensor, one: Board, other: Board) -> Board:
    """The boards of `one` where the condition [B] holds, of `other` elsewhere."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(condition.view(-1, *(1,) * (a.dim() - 1)), a, b)

    return Board(*(pick(a, b) for a, b in zip(one, other, strict=True)))


def _at(layer: Tensor, cell: Tensor) -> Tensor:
    """layer[b, cell[b]], [B]."""
    return layer.gather(1, cell.unsqueeze(1)).squeeze(1)
