"""What a page says of an algorithm, and how it draws it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

View = Literal["graph", "array", "intervals", "strings", "matrix", "plane"]


@dataclass(frozen=True)
class Explanation:
    """An algorithm in words.

    Attributes:
        about: what it does, in a sentence or two.
        view: what its data is drawn as.
        words: what each feature means, by name; an output that has the name of a hint without its `_h` means the same.
        shown: hints that the picture begins with; a reader switches others on.
        classes: what the classes of a categorical are called, by the feature's name.
        flags: what a mask of the whole graph says: where it is 0, and where it is 1.
        options: what the drawing is told: which feature is a bar's height, gives the order, spans a band, and so on.
    """

    about: str
    view: View
    words: Mapping[str, str]
    shown: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


POSITION = {"pos": "where the node stands in the order of the input"}
