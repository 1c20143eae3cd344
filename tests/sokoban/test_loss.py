"""The actor-critic loss against a loop over steps, one game at a time, as WMG's code has it."""

import torch

from relational_transformer.sokoban.loss import Window, actor_critic_loss
from relational_transformer.sokoban.settings import Recipe


def test_loss_and_gradient_are_those_of_a_loop_over_single_games():
    torch.manual_seed(0)
    recipe = Recipe(num_games=3, window=5)
    shape = (5, 2, 3)  # time, seeds, games
    logits = torch.randn(*shape, 5, dtype=torch.float64, requires_grad=True)
    values = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    actions = torch.randint(5, shape)
    rewards = torch.randint(-1, 4, shape).double()
    done = torch.rand(shape) < 0.3
    after = torch.randn(2, 3, dtype=torch.float64)
    window = Window(logits.log_softmax(-1), actions, values, rewards, done)
    losses = actor_critic_loss(window, after, recipe)
    gradients = torch.autograd.grad(losses.sum(), (logits, values))

    expected = []
    for seed in range(2):
        total = torch.zeros((), dtype=torch.float64)
        for game in range(3):
            target = after[seed, game].item()
            for step in reversed(range(5)):
                target = 4.0 * rewards[step, seed, game].item() + 0.995 * (0.0 if done[step, seed, game] else target)
                policy = torch.distributions.Categorical(logits=logits[step, seed, game])
                value = values[step, seed, game]
                advantage = target - value.item()
                total = total - policy.log_prob(actions[step, seed, game]) * advantage
                total = total + 0.5 * (target - value) ** 2 - 0.02 * policy.entropy()
        expected.append(total / 3)
    torch.testing.assert_close(losses, torch.stack(expected))
    for gradient, slow in zip(gradients, torch.autograd.grad(sum(expected), (logits, values)), strict=True):
        torch.testing.assert_close(gradient, slow)
