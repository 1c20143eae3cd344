"""Compiling: many models in one process, each with versions of its own."""

import pytest
import torch
from torch import Tensor, nn

from relational_transformer.fleet.compiling import compiled_for, should_compile, with_own_code
from relational_transformer.fleet.pieces import over_seeds

CPU = torch.device("cpu")


def fleet_function(size: int):
    """A compiled function of a fleet of two Linears, and the parameters and inputs to call it with."""
    linear = nn.Linear(size, size)
    parameters = {name: torch.stack([value.detach()] * 2) for name, value in linear.named_parameters()}
    return compiled_for(over_seeds(linear, "forward"), CPU), parameters, torch.ones(2, 3, size)


def test_more_models_than_the_compiler_takes_versions_of_a_function(traced, monkeypatch):
    monkeypatch.setattr("relational_transformer.fleet.compiling.VERSIONS_OF_A_FUNCTION", 2)
    with torch._dynamo.config.patch(recompile_limit=2, accumulated_recompile_limit=2):
        calls = [fleet_function(size) for size in range(1, 6)]
        results = [function(parameters, inputs) for function, parameters, inputs in calls for _ in range(2)]
    assert [result.shape[-1] for result in results] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert len(traced) == 5


def test_a_function_may_be_called_with_more_shapes_than_the_compiler_takes_by_itself(traced):
    with torch._dynamo.config.patch(recompile_limit=8):
        compiled = compiled_for(lambda x: x + 1, CPU)
        for size in range(2, 12):
            compiled(torch.zeros(size))
    assert len(traced) == 10


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, number: int, *, times: int = 1) -> int:
        self.count += number * times
        return self.count


def test_functions_and_methods_keep_what_they_are():
    counter = Counter()
    add = with_own_code(counter.add)
    assert add(2, times=3) == counter.count == 6
    assert add(1) == 7

    def outer(offset: float, scale: float = 2.0):
        def inner(x: Tensor) -> Tensor:
            return scale * x + offset

        return inner

    inner = outer(1.0)
    assert with_own_code(inner)(3.0) == 7.0
    assert with_own_code(inner).__qualname__ == inner.__qualname__
    assert with_own_code(outer).__defaults__ == (2.0,)


def test_modules_are_compiled_as_they_are():
    linear = nn.Linear(2, 2)
    assert with_own_code(linear) is linear


@pytest.mark.parametrize("limit", [8, 1000])
def test_a_higher_limit_is_left_alone(limit: int):
    with torch._dynamo.config.patch(recompile_limit=limit):
        compiled_for(lambda x: x, CPU)
        assert torch._dynamo.config.recompile_limit == max(limit, 64)


@pytest.mark.parametrize(
    ("device", "steps", "compiler", "compiled"),
    [
        ("cuda", 10, None, True),
        ("cpu", 80_000, "g++", True),
        ("cpu", 80_000, "clang++", True),
        ("cpu", 80_000, None, False),
        ("cpu", 400, "g++", False),
    ],
)
def test_a_run_is_compiled_where_it_pays_and_where_there_is_a_compiler(monkeypatch, device, steps, compiler, compiled):
    monkeypatch.setattr(
        "relational_transformer.fleet.compiling.shutil.which", lambda name: name if name == compiler else None
    )
    assert should_compile("auto", torch.device(device), steps) is compiled
    assert should_compile("on", torch.device(device), steps)
    assert not should_compile("off", torch.device(device), steps)
