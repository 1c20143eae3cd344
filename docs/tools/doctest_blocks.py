"""An extension of Griffe: the examples in docstrings, which begin with `>>>`, become blocks of code."""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?)(?:^(?![ ]*$).*\n?)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Put fences around every run of lines from a `>>>` to the next empty line."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{found.group(0).rstrip()}\n```\n", text)


class DoctestBlocks(Extension):
    """Fences in the docstring of every object, before it is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
