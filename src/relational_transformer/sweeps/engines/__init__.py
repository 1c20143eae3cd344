"""What carries out runs: processes on this machine, or a Ray cluster."""

from .engine import Ended, Engine
from .local import LocalEngine
from .options import EngineOptions, check_options, open_engine, precision_on, refuse
from .ray_cluster import RayEngine

__all__ = [
    "Ended", "Engine", "EngineOptions", "LocalEngine", "RayEngine", "check_options", "open_engine", "precision_on",
    "refuse",
]  # fmt: skip
