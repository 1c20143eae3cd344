"""What a public door of the library is to an assault: a callable, right arguments, and wrong ones."""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from .wrong_values import size_instead, tensor_instead

Instead = Callable[[Any, random.Random], Any]
Value = TypeVar("Value")


class Door(NamedTuple):
    """A callable, its right arguments by name, and for each argument what makes a wrong one.

    A refusal must name one of the arguments, or one of the words that stand for them in a sentence (`also`).
    """

    name: str
    call: Callable[..., Any]
    right: Mapping[str, Any]
    instead: Mapping[str, Instead]
    also: tuple[str, ...] = ()


LAYER = {"node_size": 6, "edge_size": 5, "num_heads": 2, "head_size": 3, "node_hidden_size": 7}
SIZES: dict[str, Instead] = dict.fromkeys(LAYER, size_instead)


def named(*names: str, instead: Instead = tensor_instead) -> dict[str, Instead]:
    """The same kind of wrong value for all of these arguments."""
    return dict.fromkeys(names, instead)


def only(entries: Mapping[str, Value], count: int) -> dict[str, Value]:
    """The first entries."""
    return dict(list(entries.items())[:count])
