"""One example as text, step by step, so that a person can follow the algorithm."""

from collections.abc import Iterator

import numpy as np

from relational_transformer.clrs.classes import CLASS_OF, TITLES
from relational_transformer.clrs.feature import FeatureSpec, FeatureVersion, Location, ProtocolName, Spec, Stage, Type
from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.clrs.spec import spec_of

INDENT = "  "
POINTERS = (Type.POINTER, Type.SHOULD_BE_PERMUTATION, Type.PERMUTATION_POINTER)


def show_example(
    name: str, length: int, seed: int, version: FeatureVersion | None = None, protocol: ProtocolName = "paper"
) -> Iterator[str]:
    """The lines that show the first example of a seed: its inputs, every step of its trace, its outputs.

    From the second step on, only the hints that have changed are shown.
    """
    example = sample(name, 1, length, seed, version=version, protocol=protocol)
    spec = spec_of(name, version, protocol=protocol)
    steps = int(example.lengths[0])
    yield f"{TITLES[name]} ({CLASS_OF[name]}): {example.num_nodes} nodes, {steps} step{'s' * (steps != 1)}, seed {seed}"

    yield ""
    yield "inputs"
    yield from _features(spec, Stage.INPUT, {name: array[0] for name, array in example.inputs.items()})
    before: dict[str, np.ndarray] = {}
    for step in range(steps):
        now = {name: array[step, 0] for name, array in example.hints.items()}
        changed = {name: value for name, value in now.items() if name not in before or (value != before[name]).any()}
        yield ""
        yield f"step {step}" if changed else f"step {step}: nothing changes"
        yield from _features(spec, Stage.HINT, changed)
        before = now
    yield ""
    yield "outputs"
    yield from _features(spec, Stage.OUTPUT, {name: array[0] for name, array in example.outputs.items()})


def _features(spec: Spec, stage: Stage, values: dict[str, np.ndarray]) -> Iterator[str]:
    width = max(len(name) for name, feature in spec.items() if feature.stage == stage)
    for name, value in values.items():
        first, *rest = _describe(spec[name], value)
        yield f"{INDENT}{name:{width}}  {first}"
        for line in rest:
            yield f"{INDENT}{'':{width}}  {line}"


def _describe(feature: FeatureSpec, value: np.ndarray) -> list[str]:
    """A value in words: nodes by number, sets in braces, a number for every node, a line for every row of a matrix."""
    if feature.type == Type.CATEGORICAL:
        value = np.where((value == 1).any(axis=-1), value.argmax(axis=-1), -1)
    elif feature.type == Type.MASK_ONE:
        return [f"node {int(value.argmax())}"]
    elif feature.type == Type.MASK and feature.location != Location.GRAPH:
        places = ("-".join(str(index) for index in place) for place in np.argwhere(value == 1))
        return [f"{{{', '.join(places)}}}"]
    elif feature.type == Type.PERMUTATION_POINTER:
        value = value.argmax(axis=-1)
    if value.ndim == 0:
        return [_number(value.item())]
    if feature.type in POINTERS and value.ndim == 1:
        return [" ".join(f"{node}→{target}" for node, target in enumerate(value) if node != target) or "each to itself"]
    rows = [[_number(number) for number in row] for row in np.atleast_2d(value).tolist()]
    width = max(len(text) for row in rows for text in row)
    return [" ".join(f"{text:>{width}}" for text in row) for row in rows]


def _number(number: float) -> str:
    """Up to three decimals; a dot for a whole -1, which says that there is no meaning."""
    if isinstance(number, int):
        return "." if number == -1 else str(number)
    return f"{number:.3f}".rstrip("0").rstrip(".")
