"""One update of a whole fleet: play a window, differentiate the loss, Adam. On CUDA it is one launch of a graph."""

from collections.abc import Sequence

import torch
from torch import Tensor

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.graphs import is_too_much_to_keep, saved_bytes
from relational_transformer.fleet.precision import Precision, for_computing
from relational_transformer.runs.steps import Steps

from .agent import Agent, Memo
from .chance import Draw
from .fleet_agent import FleetAgent
from .game.environment import Environment
from .game.rules import Board
from .game.size_classes import SizeClass
from .settings import Recipe
from .window import Played, begin, losses_of_window, play, totals


class TrainingStep(Steps):
    """Plays and learns with random numbers that were drawn beforehand: `load` them, then `make` each update.

    The games of all seeds are one batch of the environment. Games, observations, policy, sampling and update run on the
    device. The forward pass that plays a window is the one that is differentiated. So a
    step costs one forward and one backward pass, and a window one more forward pass for the value after it.

    Gradients flow through the memo within a window, but not into the window before. The memo is dropped when a game
    ends. All windows have the same number of steps: when a game ends, the next one begins. (WMG ends the window there
    and updates.)

    Compiled functions run almost everything: the agent's modules, a step of the games with the next observation, the
    loss, the writing of the state, and Adam.

    Attributes:
        rewards, finished, solved: sums over the updates since `forget` for every seed, [S]: raw reward, games that
        ended, games that were solved.
    """

    def __init__(
        self, agent: Agent, fleet: Fleet, environment: Environment, recipe: Recipe, adam: Adam,
        *, precision: Precision, compiled: bool, classes: Sequence[SizeClass] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(fleet)
        self.environment, self.recipe = environment, recipe
        self.precision: Precision = precision
        self.agent = FleetAgent(agent, compiled=compiled, classes=classes)
        self._lay_out, self._begin, self._play, self._losses_of_window, self._keep = (
            self.agent.pieces.compile(function) for function in (self._blocks, begin, play, losses_of_window, keep)
        )
        self.adam = adam
        seeds, games = fleet.num_seeds, recipe.num_games
        memo_size, kind = agent.settings.memo_size, fleet.values.dtype
        self.memo = Memo(
            torch.zeros(seeds, games, memo_size, device=self.device, dtype=kind),
            torch.zeros(seeds, games, device=self.device, dtype=torch.bool),
        )
        self.rewards, self.finished, self.solved = (torch.zeros_like(self.losses) for _ in range(3))
        self.draw = Draw(torch.zeros(0, device=self.device), torch.zeros(0, device=self.device))

    def load(self, draw: Draw, position: int = 0) -> None:
        """Load the random numbers of the next updates; update number `position` of them is the next one."""
        if self.device.type != "cuda":
            self.draw = draw
        elif self.draw.uniform.shape != draw.uniform.shape:
            self.graphs.forget()
            self.draw = Draw(*(tensor.to(self.device) for tensor in draw))
        else:
            for held, new in zip(self.draw, draw, strict=True):
                held.copy_(new.pin_memory(), non_blocking=True)
        self.position.fill_(position)

    def make(self, number: int) -> None:
        if self.recompute is None:
            self.recompute = self._must_recompute()
        self.agent.recompute = self.recompute
        self.graphs.run("update", self._update)

    def forget(self) -> None:
        for total in self._sums():
            total.zero_()

    def state(self) -> dict[str, Tensor]:
        """The state of the games, and all sums for the metrics besides losses."""
        board = {f"board.{name}": tensor for name, tensor in self.environment.board._asdict().items()}
        memo = {"memo.vector": self.memo.vector, "memo.kept": self.memo.kept}
        return {**board, **memo, **{name: getattr(self, name) for name in ("rewards", "finished", "solved")}}

    def _update(self) -> None:
        values = self.fleet.leaf()
        losses = self._losses(values)
        (gradient,) = torch.autograd.grad(losses.sum(), values)
        self.adam.step(gradient)

    def _losses(self, values: Tensor) -> Tensor:
        """Play a window and update the sums. Returns the loss of every seed, [S]."""
        laid_out = self._lay_out(values)
        environment, board = self.environment, self.environment.board
        seen, uniform, next_level = self._begin(environment, board, self.draw, self.position, self.fleet.num_seeds)
        # The first memo requires gradients like all others, so that one compiled function runs all steps.
        memo = Memo(self.memo.vector.detach().clone().requires_grad_(), self.memo.kept.clone())
        logits, value = [], []
        played: list[Played] = []
        for step in range(self.recipe.window):
            decision = self.agent(laid_out, seen, memo)
            made = self._play(environment, board, decision.logits.detach(), uniform[step], next_level[step])
            board, seen, memo = made.board, made.seen, Memo(decision.memo, made.goes_on)
            logits.append(decision.logits)
            value.append(decision.value)
            played.append(made)
        # Not under `no_grad`, although no gradient is needed, so that the steps' compiled function is used.
        after = self.agent(laid_out, seen, memo).value.detach()
        losses = self._losses_of_window(logits, value, played, after, self.recipe)
        with torch.no_grad():
            held = (self.environment.board, self.memo, self._sums(), self.finite, self.position)
            self._keep(*held, board, Memo(memo.vector.detach(), memo.kept), played, losses.detach())
        return losses

    def _blocks(self, values: Tensor) -> list[Tensor]:
        return self.agent.lay_out(self.fleet.split(for_computing(values, self.precision)))

    def _sums(self) -> tuple[Tensor, ...]:
        return self.losses, self.rewards, self.finished, self.solved

    def _must_recompute(self) -> bool:
        """Whether the activations of a window would take too much of the free memory."""
        laid_out = self._lay_out(self.fleet.leaf())
        memo = Memo(self.memo.vector.detach().clone().requires_grad_(), self.memo.kept.clone())
        environment, seeds = self.environment, self.fleet.num_seeds
        seen, *_ = self._begin(environment, environment.board, self.draw, self.position, seeds)
        of_step = saved_bytes(lambda: self.agent(laid_out, seen, memo))
        return is_too_much_to_keep(of_step * (self.recipe.window + 1), self.device)


def keep(
    board: Board, memo: Memo, sums: tuple[Tensor, ...], finite: Tensor, position: Tensor,
    new_board: Board, new_memo: Memo, played: list[Played], losses: Tensor,
) -> None:  # fmt: skip
    """Write the state after a window into the persistent tensors, and advance to the next window."""
    for held, new in zip((*board, *memo), (*new_board, *new_memo), strict=True):
        held.copy_(new)
    for held, new in zip(sums, (losses, *totals(played)), strict=True):
        held.add_(new)
    finite.logical_and_(losses.isfinite())
    position.add_(1)
