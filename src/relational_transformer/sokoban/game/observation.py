"""The agent's observation: a core vector, and a factor for every open cell but its own. It has no relations between
factors."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .levels import CELLS, SIDE, Levels
from .rules import ACTIONS, Board

REACH = SIDE - 3
"""The largest distance of two open cells in rows or columns."""
POSITION_SIZE = 2 * (1 + 2 * REACH + 1)  # column and row, each a number and a one-hot code
CORE_SIZE = len(ACTIONS) + 1 + 1 + 4
FACTOR_SIZE = POSITION_SIZE + 3 + 4
NEIGHBOURS = (-1, -SIDE, 1, SIDE)  # left, up, right, down
BOX_BIT, WALL_BIT, CONTENTS = 2, 64, 64
LEVELS_AT_ONCE = 65_536
"""The number of levels from which tables are computed at a time; the computation takes many times their memory."""


class Observation(NamedTuple):
    """`core` [B, 11], `factors` [B, F, 39], and which factors are present, `present` bool [B, F].

    core: the last action (one-hot, 5), the last reward, whether the agent stands on a target, walls at its left, up,
    right and down.

    factor: column and row relative to the agent (for each the distance / 7, then a one-hot code of -7 .. 7), whether
    the cell has a target, a box, the agent (never), walls at its left, up, right and down. Factors are in the order of
    the cells; those that are not present are zero.
    """

    core: Tensor
    factors: Tensor
    present: Tensor


class Observer:
    """Makes observations of boards, with tables on the device.

    Args:
        levels: the levels that are played.
        capacity: the number of factors of an observation; by default as many as the levels need.
    """

    def __init__(self, levels: Levels, capacity: int | None = None) -> None:
        self.levels = levels
        self.capacity = levels.open_cells - 1 if capacity is None else capacity
        if self.capacity < levels.open_cells - 1:
            raise ValueError(
                f"the levels have up to {levels.open_cells} open cells, too many for {self.capacity} factors"
            )
        device = levels.agent.device
        self.places = torch.arange(self.capacity, device=device)
        self.surroundings = surroundings(levels).flatten()
        self.open_cells, self.ranks = open_cells(levels, self.capacity + 1)
        self.num_seen = levels.num_open - 1
        self.positions = _with_nothing(position_codes().flatten(0, 1)).to(device)
        self.actions = torch.eye(len(ACTIONS), device=device)
        self.contents = _with_nothing(content_codes()).to(device)

    def observe(self, board: Board) -> Observation:
        """What the agent sees on every board."""
        first_cell, agent = board.level * CELLS, board.agent
        cells = self._seen_cells(board)
        present = self.places < self.num_seen[board.level].unsqueeze(1)
        # The content of a cell is a number below 64, or more for a wall. Content and position are looked up in small
        # tables.
        content = self.surroundings[first_cell.unsqueeze(1) + cells].long() + BOX_BIT * board.boxes.gather(1, cells)
        position = agent.unsqueeze(1) * CELLS + cells
        factors = torch.cat(
            [
                F.embedding(position.masked_fill(~present, CELLS * CELLS), self.positions),
                F.embedding(content.masked_fill(~present, CONTENTS), self.contents),
            ],
            dim=-1,
        )
        here = self.contents[self.surroundings[first_cell + agent].long()]  # the agent's own cell has no box, [B, 7]
        action = F.embedding(board.action, self.actions)
        core = torch.cat([action, board.reward.unsqueeze(1), here[:, :1], here[:, 3:]], dim=1)
        return Observation(core, factors, present)

    def _seen_cells(self, board: Board) -> Tensor:
        """The open cells of every level but the agent's own, in order, followed by wall cells as padding, [B, F]."""
        cells = self.open_cells[board.level]  # [B, F + 1]
        own = self.ranks[board.level * CELLS + board.agent].unsqueeze(1)
        return torch.where(self.places < own, cells[:, :-1], cells[:, 1:]).long()


def open_cells(levels: Levels, room: int) -> tuple[Tensor, Tensor]:
    """The open cells of every level in order, padded with cell 0, a wall, uint8 [M, room]; and for each cell the number
    of open cells before it, uint8 [M · 100]."""
    cells = torch.arange(CELLS, dtype=torch.uint8, device=levels.agent.device)
    listed, ranks = [], []
    for walls in levels.walls.split(LEVELS_AT_ONCE):
        place = (~walls).cumsum(1)  # from 1 on for open cells
        # Walls go to a place in front, which is cut off.
        found = cells.new_zeros(len(walls), room + 1)
        listed.append(found.scatter_(1, place.masked_fill(walls, 0), cells.expand_as(place))[:, 1:])
        ranks.append((place - (~walls).long()).to(torch.uint8))
    return torch.cat(listed), torch.cat(ranks).flatten()


def surroundings(levels: Levels) -> Tensor:
    """What never changes at each cell, as a bit field, uint8 [M, 100].

    The bits are 1 target, 4 .. 32 walls left, up, right and down, 64 a wall here; 2 is left for a box.
    """
    walls = levels.walls
    code = levels.targets.byte()
    for number, offset in enumerate(NEIGHBOURS):
        code = code | walls.roll(-offset, dims=1).byte() << (2 + number)
    return torch.where(walls, WALL_BIT, code)


def content_codes() -> Tensor:
    """Content numbers as vectors, [64, 7]: target, box, agent (never), walls left, up, right, down."""
    bits = (torch.arange(CONTENTS).unsqueeze(1) >> torch.arange(6)) & 1
    return torch.cat([bits[:, :2], torch.zeros(CONTENTS, 1), bits[:, 2:]], dim=1)


def position_codes() -> Tensor:
    """The code of every cell as seen from every other, [100 (agent), 100 (cell), 32]."""
    cells = torch.arange(CELLS)
    columns, rows = cells % SIDE, cells // SIDE
    return torch.cat([_offset_code(columns), _offset_code(rows)], dim=-1)


def _offset_code(place: Tensor) -> Tensor:
    offset = (place.unsqueeze(0) - place.unsqueeze(1)).clamp(-REACH, REACH)  # further away is only the border
    return torch.cat([offset.unsqueeze(-1) / REACH, F.one_hot(offset + REACH, 2 * REACH + 1)], dim=-1)


def _with_nothing(table: Tensor) -> Tensor:
    """The table with a row of zeros at its end, for absent cells."""
    return torch.cat([table, table.new_zeros(1, table.shape[1])])
