"""Adam with clipping for a fleet, against torch's own for each seed."""

import copy

import pytest
import torch
from torch import nn

from relational_transformer.fleet.adam import Adam, clipped, clipping_of
from relational_transformer.fleet.fleet import Fleet

CPU = torch.device("cpu")


def test_a_fleet_steps_like_torch_for_each_seed():
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double() for _ in range(3)]
    fleet = Fleet(models, CPU)
    adam = Adam(fleet, learning_rate=0.01, epsilon=1e-5, clip=1.0)
    alone = [copy.deepcopy(model) for model in models]
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-5) for model in alone]
    for scale in (0.01, 3.0, 0.5):  # some gradients are longer than 1, some are not
        gradient = scale * torch.randn_like(fleet.values)
        by_name = {name: block.clone() for name, block in fleet.split(gradient).items()}
        for number, (model, optimizer) in enumerate(zip(alone, optimizers, strict=True)):
            for name, parameter in model.named_parameters():
                parameter.grad = by_name[name][number].clone()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        adam.step(gradient)
    for number, model in enumerate(alone):
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(fleet.parameters[name][number], parameter.detach(), rtol=1e-6, atol=1e-9)


def test_a_seed_without_finite_gradient_leaves_the_others_alone():
    torch.manual_seed(0)
    models = [nn.Linear(3, 2) for _ in range(2)]
    fleet = Fleet(models, CPU)
    gradient = torch.ones_like(fleet.values)
    fleet.split(gradient)["weight"][0, 0, 0] = float("nan")
    Adam(fleet, learning_rate=0.01, epsilon=1e-5, clip=1.0).step(gradient)
    assert fleet.parameters["weight"][0].isnan().any()
    assert fleet.parameters["weight"][1].isfinite().all()


def test_two_graphs_without_a_break_make_the_same_step(traced):
    """One counts and makes powers, which would else be made again for every number, one does all the rest."""
    fleets = []
    for compiled in (False, True):
        torch.manual_seed(0)
        fleet = Fleet([nn.Linear(3, 2) for _ in range(3)], CPU)
        adam = Adam(fleet, learning_rate=0.01, epsilon=1e-5, clip=1.0, compiled=compiled)
        for _ in range(3):
            adam.step(torch.randn_like(fleet.values))
        fleets.append(fleet)
    plain, compiled = fleets
    assert len(traced) == 2
    assert [sum("pow" in str(node.target) for node in graph.graph.nodes) for graph in traced] == [2, 0]
    assert plain.count.item() == compiled.count.item() == 3
    for name, tensor in plain.state().items():
        torch.testing.assert_close(compiled.state()[name], tensor)


@pytest.mark.parametrize("seeds", [1, 3])
def test_only_gradients_that_are_too_long_are_shrunk_to_the_norm(seeds: int):
    fleet = Fleet([nn.Linear(3, 2) for _ in range(seeds)], CPU)
    gradient = torch.ones_like(fleet.values)
    for block in fleet.split(gradient).values():
        block[0] *= 10.0
    blocks = fleet.split(clipped(gradient, clipping_of(fleet, 4.0)))
    norms = torch.stack([block.flatten(1).square().sum(1) for block in blocks.values()]).sum(0).sqrt()
    expected = torch.tensor([4.0] + [8**0.5] * (seeds - 1))
    torch.testing.assert_close(norms, expected)
