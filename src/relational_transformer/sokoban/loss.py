"""The actor-critic loss on a window of steps, with n-step returns up to the end of the window."""

from typing import NamedTuple

import torch
from torch import Tensor

from .settings import Recipe


class Window(NamedTuple):
    """Steps of games, time first: log-probabilities of all actions [T, S, B, 5], the action made, value, reward and
    whether the game ended with the step [T, S, B]."""

    log_probabilities: Tensor
    action: Tensor
    value: Tensor
    reward: Tensor
    done: Tensor


def n_step_returns(reward: Tensor, done: Tensor, value_after: Tensor, discount: float) -> Tensor:
    r"""$R_t = r_t + \gamma R_{t+1}$, with nothing after the end of a game, and the value of the state after the
    window as its last return. Shapes: [T, ...], [T, ...], [...] -> [T, ...].

    >>> n_step_returns(torch.tensor([1.0, 0.0, 2.0]), torch.tensor([False, True, False]), torch.tensor(10.0), 0.5)
    tensor([1., 0., 7.])
    """
    returns = []
    after = value_after
    for step in range(len(reward) - 1, -1, -1):
        after = reward[step] + discount * after * ~done[step]
        returns.append(after)
    return torch.stack(returns[::-1])


def actor_critic_loss(window: Window, value_after: Tensor, recipe: Recipe) -> Tensor:
    r"""The loss of every seed, [S]: summed over the steps of the window, averaged over the games.

    $$\sum_t -\log \pi(a_t) (R_t - V_t) + \tfrac12 (R_t - V_t)^2 - 0.02\, H(\pi_t)$$

    The first difference is not differentiated. `value_after` [S, B] is the value after the window.
    """
    reward = recipe.reward_scale * window.reward
    returns = n_step_returns(reward, window.done, value_after, recipe.discount)
    error = returns - window.value
    chosen = window.log_probabilities.gather(-1, window.action.unsqueeze(-1)).squeeze(-1)
    entropy = -(window.log_probabilities * window.log_probabilities.exp()).sum(-1)
    loss = -chosen * error.detach() + recipe.value_weight * error.square() - recipe.entropy_weight * entropy
    return loss.sum(0).mean(-1)
