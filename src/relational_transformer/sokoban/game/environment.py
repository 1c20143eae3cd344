"""A batch of Sokoban games on one device, in tensors at fixed addresses, so that a CUDA graph can play."""

from typing import NamedTuple

import torch
from torch import Tensor

from .levels import Levels
from .observation import Observation, Observer
from .rules import MOVES, Board, Outcome, choose, start, step


class Turn(NamedTuple):
    """A step of every game: boards and observations after it, where ended games have been restarted; and of the step
    itself `reward` float32 [B], `done` and `solved` bool [B]."""

    board: Board
    seen: Observation
    reward: Tensor
    done: Tensor
    solved: Tensor


class Environment:
    """B games at once. No method waits for the device.

    The caller chooses the level that follows a game (`next_level`), and all random numbers.

    Attributes:
        board: the state of the games; every step writes into the same tensors.

    >>> from relational_transformer.sokoban import generate_levels
    >>> environment = Environment(generate_levels(4, seed=0), first_level=torch.arange(4))
    >>> outcome = environment.step(torch.tensor([0, 1, 2, 3]))
    >>> environment.num_games, outcome.solved.tolist()
    (4, [False, False, False, False])
    """

    def __init__(self, levels: Levels, first_level: Tensor, capacity: int | None = None) -> None:
        self.levels = levels
        self.observer = Observer(levels, capacity)
        self.moves = torch.tensor(MOVES, device=levels.agent.device)
        _ = levels.num_targets, levels.num_covered  # cached now: the compiler cannot trace a cached property
        self.board = Board(*(tensor.clone() for tensor in start(levels, first_level.to(levels.agent.device))))

    @property
    def num_games(self) -> int:
        return len(self.board.agent)

    def observe(self) -> Observation:
        """What the agent sees in every game."""
        return self.observer.observe(self.board)

    def step(self, action: Tensor) -> Outcome:
        """Make one action [B] in every game. The games that are done must be restarted before the next step."""
        outcome = step(self.levels, self.moves, self.board, action)
        self.write(outcome.board)
        return outcome

    def restart(self, done: Tensor, next_level: Tensor) -> None:
        """Begin the levels `next_level` [B] in the games that are `done` (bool [B])."""
        self.write(choose(done, start(self.levels, next_level), self.board))

    def turn(self, board: Board, action: Tensor, next_level: Tensor) -> Turn:
        """`step`, `restart` and `observe` as one pure function of the boards, which compiles to a few kernels."""
        outcome = step(self.levels, self.moves, board, action)
        begun = choose(outcome.done, start(self.levels, next_level), outcome.board)
        return Turn(begun, self.observer.observe(begun), outcome.board.reward, outcome.done, outcome.solved)

    def write(self, board: Board) -> None:
        """Continue from these boards."""
        for held, new in zip(self.board, board, strict=True):
            held.copy_(new)
