"""Wrong arguments for the public doors of the library.

Each attempt puts one or two odd values in the place of right ones. It must be refused, by a TypeError or a ValueError
of one line that names an argument, or have a result that is finite, and, where the numbers are the right ones in
another form, the right result.
"""

import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .door import Door
from .doors import doors
from .outcome import Outcome


def assault(tries: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """So many attempts, the same for the same seed. Nothing is written outside of `folder`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of kinds of tensors that it calls prototypes
        known = doors(folder)
        for number in range(tries):
            chance = random.Random(f"{seed} {number}")
            yield attempt(chance.choice(known), chance, f"{seed}:{number}")


def attempt(door: Door, chance: random.Random, label: str) -> Outcome:
    """One call with wrong values for one or two arguments."""
    changed = chance.sample(sorted(door.instead), min(len(door.instead), chance.choice((1, 1, 1, 2))))
    arguments = dict(door.right)
    for name in changed:
        arguments[name] = door.instead[name](arguments.get(name), chance)
    tried = f"{label} {door.name}({', '.join(f'{name}={described(arguments[name])}' for name in changed)})"
    try:
        result = door.call(**arguments)
    except (TypeError, ValueError) as error:
        words = {*door.instead, *door.right, *door.also}
        named = any(re.search(rf"\b{re.escape(word)}\b", str(error)) for word in words)
        kind = "refused" if named and "\n" not in str(error) else "traceback"
        return Outcome(tried, kind, f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome(tried, "traceback", f"{type(error).__name__}: {error}")
    sound = is_finite(result) and (not _repeats(door, arguments, changed) or _agrees(result, door.call(**door.right)))
    return Outcome(tried, "accepted" if sound else "silent difference", described(result))


def _repeats(door: Door, arguments: dict[str, Any], changed: list[str]) -> bool:
    """Whether all that was changed are the same numbers, perhaps for several graphs."""
    for name in changed:
        value, right = arguments[name], door.right.get(name)
        if not isinstance(value, Tensor) or not isinstance(right, Tensor) or value.dtype != right.dtype:
            return False
        if value.is_nested or value.layout != torch.strided or value.device != right.device:
            return False
        if value.shape[value.dim() - right.dim() :] != right.shape or not torch.equal(value, right.expand_as(value)):
            return False
    return True


def _agrees(result: Any, right: Any) -> bool:
    pairs = list(zip(_tensors(result), _tensors(right), strict=True))
    return all(torch.allclose(ours.float(), theirs.float(), rtol=1e-4, atol=1e-5) for ours, theirs in pairs)


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        yield from _tensors(list(result.values()))
    elif isinstance(result, tuple | list):
        for part in result:
            yield from _tensors(part)


def is_finite(result: Any) -> bool:
    """Whether all numbers in a result are finite, as far as they can be seen."""
    if isinstance(result, Tensor):
        hidden = result.is_meta or torch.nn.parameter.is_lazy(result) or not result.is_floating_point()
        return hidden or bool(result.float().isfinite().all())  # which knows float8
    if isinstance(result, torch.nn.Module):
        return all(is_finite(parameter) for parameter in result.parameters())
    if isinstance(result, np.ndarray):
        return not np.issubdtype(result.dtype, np.floating) or bool(np.isfinite(result).all())
    if isinstance(result, dict):
        return all(map(is_finite, result.values()))
    return not isinstance(result, tuple | list) or all(map(is_finite, result))


def described(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, Tensor):
        shape = "nested" if value.is_nested else list(value.shape)
        return f"<{value.dtype} {shape} {value.layout} {value.device}>"
    try:
        return repr(value)[:60]
    except ValueError:  # an integer of thousands of digits
        return f"<{type(value).__name__}>"
