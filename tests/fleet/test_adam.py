import math

import pytest
import torch
from torch import nn

from relational_transformer.fleet.adam import Adam, Schedule
from relational_transformer.fleet.fleet import Fleet, initialise, keep_best
from relational_transformer.reasoning.encoders import ColumnEncoder
from relational_transformer.training.step import linears_of_encoders


def make_fleet(build, seeds=(0, 1, 2)):
    models = [initialise(build, seed) for seed in seeds]
    return models, Fleet(models, torch.device("cpu"))


@pytest.mark.parametrize("clip", [None, 2.5])  # of the gradients below, some are longer
def test_equals_torchs_adam_for_every_seed(clip: float | None):
    torch.manual_seed(0)
    models, fleet = make_fleet(lambda: nn.Linear(3, 2))
    adam = Adam(fleet, 0.01, clip=clip)
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in models]
    for _ in range(5):
        gradients = [torch.randn(3, 2, 3), torch.randn(3, 2)]
        adam.step(torch.cat([gradient.flatten() for gradient in gradients]))
        for seed, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient[seed].clone()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    for seed, model in enumerate(models):
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(fleet.parameters[name][seed], parameter.detach(), rtol=1e-5, atol=1e-6)


def build_encoder() -> nn.Module:
    return nn.ModuleDict({"encoder": ColumnEncoder([("scalar", 0, 1), ("category", 0, 2)], 4)})


def test_a_linear_of_an_encoder_without_gradient_is_left_alone():
    models, fleet = make_fleet(build_encoder, seeds=(0, 1))
    adam = Adam(fleet, 0.1, linears=linears_of_encoders(models[0]))
    adam.step(torch.ones_like(fleet.values))
    before = {name: value.detach().clone() for name, value in fleet.parameters.items()}
    moments = fleet.first.clone()
    gradient = torch.zeros(2, 3, 4)
    gradient[0, 1] = 1.0  # seed 0: one class of the category
    adam.step(torch.cat([gradient.flatten(), torch.zeros(2 * 2 * 4)]))
    moved = fleet.parameters["encoder.weight"] != before["encoder.weight"]
    assert moved.any(-1).tolist() == [[False, True, True], [False, False, False]]
    assert torch.equal(fleet.split(fleet.first)["encoder.weight"][1], fleet.split(moments)["encoder.weight"][1])


def test_encoders_are_found_wherever_they_lie_between_other_parameters():
    def build() -> nn.Module:
        encoders = {name: ColumnEncoder([("scalar", 0, 1), ("mask", 0, 1)], 4) for name in ("inputs", "hints")}
        return nn.ModuleDict({"first": nn.Linear(3, 2), **encoders, "last": nn.Linear(2, 5)})

    models, fleet = make_fleet(build, seeds=(0, 1))
    adam = Adam(fleet, 0.1, linears=linears_of_encoders(models[0]))
    adam.step(torch.ones_like(fleet.values))
    before = {name: value.detach().clone() for name, value in fleet.parameters.items()}
    gradient = torch.zeros_like(fleet.values)
    fleet.split(gradient)["hints.weight"][1, 0, 2] = 1.0
    adam.step(gradient)
    moved = {name: (value != before[name]).flatten(2).any(-1).tolist() for name, value in fleet.parameters.items()
             if name.endswith("s.weight")}  # fmt: skip
    assert moved == {"inputs.weight": [[False] * 2] * 2, "hints.weight": [[False] * 2, [True, False]]}
    for name in ("first.weight", "first.bias", "last.weight", "last.bias", "inputs.bias", "hints.bias"):
        assert (fleet.parameters[name] != before[name]).all(), f"{name} goes on along its momentum"


def test_keep_best_copies_the_better_seeds_alone():
    _, fleet = make_fleet(lambda: nn.Linear(3, 2))
    best = torch.zeros_like(fleet.values)
    keep_best(fleet, best, torch.tensor([True, False, True]))
    for name, block in fleet.split(best).items():
        assert torch.equal(block[0], fleet.parameters[name][0])
        assert not block[1].any()


def test_initialisation_depends_on_the_seed_alone():
    torch.manual_seed(5)
    one = initialise(lambda: nn.Linear(3, 2), 1)
    torch.rand(7)
    other = initialise(lambda: nn.Linear(3, 2), 1)
    assert torch.equal(one.weight, other.weight)
    assert not torch.equal(one.weight, initialise(lambda: nn.Linear(3, 2), 2).weight)


@pytest.mark.parametrize("decay", ["constant", "cosine", "linear"])
def test_a_learning_rate_follows_its_schedule(decay: str):
    """The gradient is the same at all steps, so that each of them moves by the learning rate."""
    _, fleet = make_fleet(lambda: nn.Linear(3, 2), seeds=(0, 1))
    warmup, total = 4, 12
    adam = Adam(fleet, 0.1, epsilon=0.0, schedule=Schedule(warmup, decay), total_steps=total)  # pyright: ignore
    after = {
        "constant": lambda t: 1.0,
        "linear": lambda t: 1 - t,
        "cosine": lambda t: 0.5 * (1 + math.cos(math.pi * t)),
    }
    for step in range(1, total + 1):
        before = fleet.values.clone()
        adam.step(torch.ones_like(fleet.values))
        rate = 0.1 * (step / warmup if step < warmup else after[decay]((step - warmup) / (total - warmup)))
        torch.testing.assert_close(before - fleet.values, torch.full_like(before, rate), rtol=1e-3, atol=1e-6)


def test_a_scheduled_step_is_as_few_graphs_as_a_constant_one_and_counts_on_the_device(traced):
    _, fleet = make_fleet(lambda: nn.Linear(3, 2))
    adam = Adam(fleet, 0.1, clip=1.0, schedule=Schedule(2, "cosine"), total_steps=10, compiled=True)
    for _ in range(5):
        adam.step(torch.ones_like(fleet.values))
    assert len(traced) == 2


@pytest.mark.parametrize(("field", "value"), [("warmup_steps", -1), ("decay", "exponential")])
def test_schedules_that_are_none_are_refused(field: str, value):
    with pytest.raises(ValueError, match=field.replace("_", "-")):
        Schedule(**{field: value})


@pytest.mark.parametrize("decay", ["constant", "cosine"])
def test_weight_decay_is_that_of_torchs_adamw(decay):
    model = nn.Linear(3, 2)
    fleet = Fleet([model], torch.device("cpu"))
    adam = Adam(fleet, 0.1, schedule=Schedule(decay=decay), total_steps=4, weight_decay=0.3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.3)
    rates = {"constant": [0.1] * 3, "cosine": [0.05 * (1 + math.cos(math.pi * done)) for done in (0.25, 0.5, 0.75)]}
    for rate in rates[decay]:
        gradient = torch.randn(8)
        adam.step(gradient)
        for parameter, part in zip(model.parameters(), gradient.split([6, 2]), strict=True):
            parameter.grad = part.view_as(parameter).clone()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    expected = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    torch.testing.assert_close(fleet.values, expected, rtol=1e-5, atol=1e-6)
