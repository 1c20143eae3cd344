"""Clipped Adam of a fleet against torch's own, seed by seed."""

import torch
from torch import nn

from relational_transformer.sokoban.optimizer import ClippedAdam
from relational_transformer.sokoban.settings import Recipe
from relational_transformer.training.fleet import Fleet


def test_every_seed_moves_as_torch_moves_it_alone():
    torch.manual_seed(0)
    recipe = Recipe(learning_rate=1e-2, gradient_clip=1.0)
    models = [nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double() for _ in range(2)]
    fleet = Fleet(models, torch.device("cpu"))
    ours = ClippedAdam(fleet, recipe)
    theirs = [torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-10) for model in models]
    for scale in (0.01, 10.0, 1.0):  # below the bound, above it, near it
        gradients = [
            {name: scale * torch.randn_like(one) for name, one in model.named_parameters()} for model in models
        ]
        blocks = [torch.stack([gradient[name] for gradient in gradients]).flatten() for name in fleet.shapes]
        ours.step(torch.cat(blocks))
        for model, optimizer, gradient in zip(models, theirs, gradients, strict=True):
            for name, parameter in model.named_parameters():
                parameter.grad = gradient[name].clone()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    for seed, model in enumerate(models):
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(fleet.parameters[name][seed], parameter.detach())
