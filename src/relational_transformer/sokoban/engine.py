"""One update of a whole fleet: play a window, differentiate the loss, Adam; on CUDA one graph launch."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from relational_transformer.training.clipped_adam import ClippedAdam
from relational_transformer.training.fleet import Fleet
from relational_transformer.training.memory import free_bytes, saved_bytes
from relational_transformer.training.precision import Precision, for_computing
from relational_transformer.training.recording import record

from .agent import Agent, Decision, Memo
from .chance import Draw, sample
from .environment import Environment
from .fleet_agent import FleetAgent
from .loss import Window, actor_critic_loss
from .observation import Observation
from .settings import Recipe
from .size_classes import SizeClass

SHARE_FOR_ACTIVATIONS = 0.6
"""Of the free memory; where a window would need more, its steps are recomputed in the backward pass."""


class Engine:
    """Plays and learns with chance that was drawn beforehand (`load`, then `update` so many times).

    The games of all seeds are one batch of the environment. Games, observations, policy, sampling and update are on the
    device, and nothing here waits for it. The policy that plays a window is the one that is differentiated, so that a
    step costs one forward pass and one backward pass, and a window one more forward pass for the value after it.

    The memo is differentiated within a window and is a number at its beginning; it is lost when a game ends. A window
    has always as many steps: where a game ends in it, the next one begins. (WMG updates there at once, after fewer.)

    With `classes` the agent looks at the games of each class by themselves, padded to what their levels need, which
    changes no decision.

    Attributes:
        losses, rewards, finished, solved: sums over the updates since `forget_sums`, of every seed, [S]: loss, raw
            reward, games that ended, games that ended solved.
        finite: whether every loss of a seed so far was a finite number, bool [S].
    """

    def __init__(
        self, agent: Agent, fleet: Fleet, environment: Environment, recipe: Recipe,
        *, precision: Precision, compiled: bool, classes: Sequence[SizeClass] | None = None,
    ) -> None:  # fmt: skip
        self.fleet, self.environment, self.recipe = fleet, environment, recipe
        self.precision: Precision = precision
        self.classes = classes
        self.device = fleet.values.device
        self.agent = FleetAgent(agent, fleet, compiled)
        self.adam = ClippedAdam(fleet, recipe.learning_rate, recipe.adam_epsilon, recipe.gradient_clip, compiled)
        seeds, games = fleet.num_seeds, recipe.num_games
        memo_size, kind = agent.settings.memo_size, fleet.values.dtype
        self.memo = Memo(
            torch.zeros(seeds, games, memo_size, device=self.device, dtype=kind),
            torch.zeros(seeds, games, device=self.device, dtype=torch.bool),
        )
        sums = torch.zeros(4, seeds, device=self.device, dtype=torch.float64)
        self.losses, self.rewards, self.finished, self.solved = sums
        self.finite = torch.ones(seeds, device=self.device, dtype=torch.bool)
        self.position = torch.zeros(1, device=self.device, dtype=torch.long)
        self.draw = Draw(torch.zeros(0, device=self.device), torch.zeros(0, device=self.device))
        self._graph: Callable[[], None] | None = None
        self._decided_on_memory = False

    def load(self, draw: Draw, position: int = 0) -> None:
        """Take what chance has decided for the next updates; begin with update number `position` of them."""
        if self.device.type != "cuda":
            self.draw = draw
        elif self.draw.uniform.shape != draw.uniform.shape:
            self._graph = None  # it holds the addresses of the tensors it was captured with
            self.draw = Draw(*(tensor.to(self.device) for tensor in draw))
        else:
            for held, new in zip(self.draw, draw, strict=True):
                held.copy_(new.pin_memory(), non_blocking=True)
        self.position.fill_(position)

    def update(self) -> None:
        """Play the next window and learn from it."""
        if not self._decided_on_memory:
            self.agent.recompute = self._must_recompute()
            self._decided_on_memory = True
        if self.device.type != "cuda":
            self._update()
            return
        if self._graph is None:
            self._graph = record(self._update, {**self.fleet.state(), **self.state()}, self.device)
        self._graph()

    def forget_sums(self) -> None:
        for total in (self.losses, self.rewards, self.finished, self.solved):
            total.zero_()

    def state(self) -> dict[str, Tensor]:
        """Everything an update changes, by name."""
        board = {f"board.{name}": tensor for name, tensor in self.environment.board._asdict().items()}
        memo = {"memo.vector": self.memo.vector, "memo.kept": self.memo.kept}
        names = ("losses", "rewards", "finished", "solved", "finite", "position")
        return {**board, **memo, **{name: getattr(self, name) for name in names}}

    def _update(self) -> None:
        # A new leaf every time: autograd ties a leaf to the stream of its first use, a graph is captured on another.
        values = self.fleet.values.detach().requires_grad_()
        losses = self._losses(values)
        (gradient,) = torch.autograd.grad(losses.sum(), values)
        self.adam.step(gradient)
        losses = losses.detach()
        self.losses += losses
        self.finite &= losses.isfinite()
        self.position += 1

    def _losses(self, values: Tensor) -> Tensor:
        """Play a window; the loss of every seed, [S]."""
        parts = self.agent.split(for_computing(values, self.precision))
        uniform, next_level = (drawn.index_select(0, self.position).squeeze(0) for drawn in self.draw)
        # The first memo must look like all others to the compiler: it has gradients too.
        memo = Memo(self.memo.vector.detach().clone().requires_grad_(), self.memo.kept.clone())
        steps = []
        for step in range(self.recipe.window):
            decision = self._decide(parts, memo)
            log_probabilities = decision.logits.log_softmax(-1)
            action = sample(log_probabilities.detach().exp(), uniform[step])
            outcome = self.environment.step(action.flatten())
            done, solved = self._by_seed(outcome.done), self._by_seed(outcome.solved)
            reward = self._by_seed(outcome.board.reward)
            steps.append((log_probabilities, action, decision.value, reward, done))
            self.environment.restart(outcome.done, next_level[step].flatten())
            memo = Memo(decision.memo, ~done)
            self._count(reward, done, solved)
        # With gradients, which nobody takes, so that it is the same compiled function as in the steps.
        after = self._decide(parts, memo).value.detach()
        with torch.no_grad():
            self.memo.vector.copy_(memo.vector)
            self.memo.kept.copy_(memo.kept)
        window = Window(*(torch.stack(tensors) for tensors in zip(*steps, strict=True)))
        return actor_critic_loss(window, after, self.recipe)

    def _decide(self, parts: list[Tensor], memo: Memo) -> Decision:
        """What the agent decides in every game, [S, B, ...]."""
        seen = self._observe()
        if self.classes is None:
            return self.agent(parts, seen, memo)
        of_classes = [
            self.agent(parts, one.cut(seen), Memo(memo.vector[:, one.games], memo.kept[:, one.games]))
            for one in self.classes
        ]
        return Decision(*(torch.cat(pieces, dim=1) for pieces in zip(*of_classes, strict=True)))

    def _observe(self) -> Observation:
        return Observation(*(self._by_seed(tensor) for tensor in self.environment.observe()))

    def _count(self, reward: Tensor, done: Tensor, solved: Tensor) -> None:
        self.rewards += reward.sum(-1)
        self.finished += done.sum(-1)
        self.solved += solved.sum(-1)

    def _by_seed(self, tensor: Tensor) -> Tensor:
        """[S · B, ...] -> [S, B, ...]."""
        return tensor.unflatten(0, (self.fleet.num_seeds, -1))

    def _must_recompute(self) -> bool:
        """Whether the activations of a window would take too much of the memory that is free."""
        parts = self.agent.split(for_computing(self.fleet.values.detach().requires_grad_(), self.precision))
        memo = Memo(self.memo.vector.detach().clone().requires_grad_(), self.memo.kept)
        of_step = saved_bytes(lambda: self._decide(parts, memo))
        return of_step * (self.recipe.window + 1) > SHARE_FOR_ACTIVATIONS * free_bytes(self.device)
