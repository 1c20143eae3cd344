"""Random examples in the form of any algorithm's data."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from relational_transformer.clrs.spec import SPECS, FeatureSpec, Location, Spec, Type


class Examples(NamedTuple):
    """Features by name, as `clrs.sample` gives them: hints have their steps first."""

    inputs: dict[str, Tensor]
    hints: dict[str, Tensor]
    outputs: dict[str, Tensor]
    lengths: Tensor


def _draw(feature: FeatureSpec, leading: tuple[int, ...], num_nodes: int, generator: torch.Generator) -> Tensor:
    over_nodes = {Location.GRAPH: 0, Location.NODE: 1, Location.EDGE: 2}[feature.location]
    shape = leading + (num_nodes,) * over_nodes
    if feature.type == Type.SCALAR:
        return torch.randn(shape, generator=generator)
    if feature.type == Type.MASK:
        # Masked (-1) somewhere, as in bridges.
        return torch.randint(-1 if feature.location == Location.EDGE else 0, 2, shape, generator=generator).to(
            torch.int8
        )
    if feature.type == Type.MASK_ONE:
        chosen = torch.randint(num_nodes, leading, generator=generator)
        return (torch.arange(num_nodes) == chosen.unsqueeze(-1)).to(torch.int8)
    if feature.type == Type.CATEGORICAL:
        assert feature.classes is not None
        chosen = torch.randint(feature.classes, shape, generator=generator).unsqueeze(-1)
        one_hot = (torch.arange(feature.classes) == chosen).to(torch.int8)
        if feature.location == Location.EDGE:  # cells without meaning hold a single -1, as in lcs_length
            unused = torch.rand(shape, generator=generator) < 0.2
            masked = torch.tensor([-1] + [0] * (feature.classes - 1), dtype=torch.int8)
            one_hot = torch.where(unused.unsqueeze(-1), masked, one_hot)
        return one_hot
    if feature.type == Type.PERMUTATION_POINTER:  # one cycle through all nodes
        order = torch.rand(shape, generator=generator).argsort(-1)
        before = torch.empty_like(order).scatter(-1, order, order.roll(1, dims=-1))
        return torch.nn.functional.one_hot(before, num_nodes).to(torch.int8)
    return torch.randint(num_nodes, shape, generator=generator).to(torch.int16)


def draw_examples(
    algorithm: str | Spec, *, batch: int = 3, num_nodes: int = 5, num_steps: int = 4, seed: int = 0
) -> Examples:
    """Examples of lengths 2, 3, ... up to `num_steps` hints, with random values in every feature."""
    generator = torch.Generator().manual_seed(seed)
    stages: dict[str, dict[str, Tensor]] = {"input": {}, "hint": {}, "output": {}}
    for name, feature in (SPECS[algorithm] if isinstance(algorithm, str) else algorithm).items():
        leading = (num_steps, batch) if feature.stage == "hint" else (batch,)
        stages[feature.stage][name] = _draw(feature, leading, num_nodes, generator)
    lengths = torch.arange(batch) % (num_steps - 1) + 2 if num_steps > 1 else torch.ones(batch)
    return Examples(stages["input"], stages["hint"], stages["output"], lengths.int())


@pytest.fixture
def examples() -> Callable[..., Examples]:
    return draw_examples
