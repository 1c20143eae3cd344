"""Processors: the networks that run at every step of an algorithm, one file each. A new one is a file, and a line in
`registry.py`."""

from relational_transformer.nn.checks import shown

from .processor import GraphState, Processor
from .registry import PROCESSORS, find_processor
from .settings import ABLATIONS, MODERN, TUNED, UNTUNED, Settings, find_settings


def build_processor(settings: Settings) -> Processor:
    """The processor that `settings` name, with the sizes they give.

    >>> type(build_processor(TUNED["rt"])).__name__, build_processor(TUNED["rt"]).returns_edges
    ('RelationalProcessor', True)
    """
    if not isinstance(settings, Settings):
        raise ValueError(f"settings must be Settings, got {shown(settings)}")
    return find_processor(settings.processor).from_settings(settings)


__all__ = [
    "ABLATIONS",
    "MODERN",
    "PROCESSORS",
    "TUNED",
    "UNTUNED",
    "GraphState",
    "Processor",
    "Settings",
    "build_processor",
    "find_processor",
    "find_settings",
]
