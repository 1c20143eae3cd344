"""The experiments of the paper as lists of runs, and the engines that run them: this machine or a Ray cluster."""

from .cells import Selection, cells_of
from .execution import execute
from .experiments import EXPERIMENTS, find_experiment
from .planning import plan
from .run import Run
from .sweep import sweep

__all__ = ["EXPERIMENTS", "Run", "Selection", "cells_of", "execute", "find_experiment", "plan", "sweep"]
