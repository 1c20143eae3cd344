"""Sokoban with the Working Memory Graph agent: the paper's experiment on latent graph structure."""

from .agent import Agent
from .config import SokobanConfig
from .game.environment import Environment
from .game.generator import generate_levels
from .game.levels import Levels, load_levels, parse_levels
from .settings import RECIPES, AgentSettings, Recipe
from .splits import Splits, SplitsIdentity, load_splits
from .task import SokobanTask
from .trained import load_agent

__all__ = [
    "RECIPES",
    "Agent",
    "AgentSettings",
    "Environment",
    "Levels",
    "Recipe",
    "SokobanConfig",
    "SokobanTask",
    "Splits",
    "SplitsIdentity",
    "generate_levels",
    "load_agent",
    "load_levels",
    "load_splits",
    "parse_levels",
]
