"""Fleets that learn a number for each graph: batches by size, models run layer by layer, the step, the evaluation."""

from .batches import draw, group_by_size
from .evaluation import Evaluator
from .model import LayeredModel, PaddedGraphs, RelationalStep, State, max_pool, precise_linear
from .split import Split
from .stack import FleetStack
from .step import TrainingStep

__all__ = [
    "Evaluator",
    "FleetStack",
    "LayeredModel",
    "PaddedGraphs",
    "RelationalStep",
    "Split",
    "State",
    "TrainingStep",
    "draw",
    "group_by_size",
    "max_pool",
    "precise_linear",
]
