"""Bounds of the numbers in a configuration, beyond which they are mistakes. Needs Python alone."""

import math
from collections.abc import Mapping

ABOVE_ZERO = math.ulp(0.0)
"""The smallest positive number, a bound for numbers that must be above zero."""
LARGEST_COUNT = 10**12
"""The largest number of examples or steps."""
MOST_SEEDS = 10_000
LARGEST_SEED = 2**63 - 1
"""The largest seed that torch accepts."""
LARGEST_FACTOR = 1e30
"""The largest factor in float32 products."""


def check_bounds(settings: object, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Every named attribute must lie between its two bounds, and be a whole number if both bounds are. None is
    accepted.

    >>> from types import SimpleNamespace
    >>> check_bounds(SimpleNamespace(num_layers=3, dropout=0.5), {"num_layers": (1, 10), "dropout": (0.0, 1.0)})
    >>> check_bounds(SimpleNamespace(num_layers=30), {"num_layers": (1, 10)})
    Traceback (most recent call last):
    ValueError: num-layers must be at most 10, got 30
    """
    for name, (least, most) in bounds.items():
        check_bound(name, getattr(settings, name), least, most)


def check_bound(name: str, number: object, least: float, most: float) -> None:
    """Check one number as `check_bounds` does."""
    called = name.replace("_", "-")
    if number is None:
        return
    kinds = int if isinstance(least, int) and isinstance(most, int) else int | float
    if not isinstance(number, kinds) or isinstance(number, bool):
        raise ValueError(f"{called} must be a {'whole ' if kinds is int else ''}number, got {_shown(number)}")
    if math.isnan(number) or number < least:
        wanted = "a number above 0" if least == ABOVE_ZERO else f"at least {_plain(least)}"
        raise ValueError(f"{called} must be {wanted}, got {_shown(number)}")
    if number > most:
        raise ValueError(f"{called} must be at most {_plain(most)}, got {_shown(number)}")


def _plain(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _shown(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of thousands of digits
        text = "a longer one"
    return text if len(text) <= 60 else f"{text[:20]}... ({len(text)} characters)"
