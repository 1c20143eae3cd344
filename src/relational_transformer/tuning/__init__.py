"""Hyperparameter search by Distributed Grid Descent: many workers, one storage, no coordinator."""

try:
    import optuna as _optuna  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError("hyperparameter search needs Optuna: pip install '.[tune]' in a checkout") from None

from .analysis import Search, analyse
from .grid import Configuration, Grid, suggest
from .grids import GRIDS, configuration_of, settings_of
from .heartbeat import Heartbeat
from .lost_trials import LostTrials
from .objective import Objective
from .run_sets import RunSet, gather_run_sets
from .sampler import GridDescentSampler
from .storages import load_study, open_storage, open_study
from .worker import work

__all__ = [
    "GRIDS",
    "Configuration",
    "Grid",
    "GridDescentSampler",
    "Heartbeat",
    "LostTrials",
    "Objective",
    "RunSet",
    "Search",
    "analyse",
    "configuration_of",
    "gather_run_sets",
    "load_study",
    "open_storage",
    "open_study",
    "settings_of",
    "suggest",
    "work",
]
