"""One example as text, step by step, so that a person can follow the algorithm."""

from collections.abc import Iterator

import numpy as np

from relational_transformer.clrs.classes import CLASS_OF, TITLES
from relational_transformer.clrs.feature import FeatureSpec, FeatureVersion, Location, Spec, Stage, Type
from relational_transformer.clrs.sampling import sample
from relational_transformer.clrs.spec import spec_of

INDENT = "  "


def show_example(name: str, length: int, seed: int, version: FeatureVersion = "1.0") -> Iterator[str]:
    """The lines that show the first example of a seed: its inputs, every step of its trace, its outputs.

    From the second step on, only the hints that have changed are shown.
    """
    example = sample(name, 1, length, seed, version=version)
    spec = spec_of(name, version)
    steps = int(example.lengths[0])
    yield f"{TITLES[name]} ({CLASS_OF[name]}): {example.num_nodes} nodes, {steps} steps, seed {seed}"

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
    if value.ndim == 0:
        return [_number(value)]
    texts = np.vectorize(_number, otypes=[object])(value)
    width = max(len(text) for text in texts.flat)
    rows = texts if value.ndim == 2 else [texts]
    lines = [" ".join(f"{text:>{width}}" for text in row) for row in rows]
    if feature.type in (Type.POINTER, Type.SHOULD_BE_PERMUTATION) and value.ndim == 1:
        return [" ".join(f"{node}→{target}" for node, target in enumerate(value) if node != target) or "each to itself"]
    return lines


def _number(value: np.generic | np.ndarray) -> str:
    """Up to three decimals; a dot where there is no meaning or nothing."""
    return (
        "." if value == -1 and np.issubdtype(value.dtype, np.integer) else f"{float(value):.3f}".rstrip("0").rstrip(".")
    )
