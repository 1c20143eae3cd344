"""Shortest paths in lobster graphs, end to end: the paper's second experiment, after IterGNN (Tang et al., 2020)."""

from .config import LobsterConfig
from .graphs import Lobsters, sample, spread_sizes
from .models.build import build_model
from .protocol import LobsterProtocol
from .settings import SETTINGS, BaselineSettings, RelationalSettings
from .task import LobsterTask, load_model

__all__ = [
    "SETTINGS",
    "BaselineSettings",
    "LobsterConfig",
    "LobsterProtocol",
    "LobsterTask",
    "Lobsters",
    "RelationalSettings",
    "build_model",
    "load_model",
    "sample",
    "spread_sizes",
]
