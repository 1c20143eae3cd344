"""Hyperparameter search by Distributed Grid Descent: many workers, one storage, no coordinator."""

try:
    import optuna as _optuna  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError("hyperparameter search needs Optuna: pip install '.[tune]' in a checkout") from None

from .analysis import Search, analyse
from .grid import Configuration, Grid, suggest
from .grids import GRIDS, configuration_of, settings_of
from .heartbeat import Heartbeat, fail_stale_trials
from .objective import Objective
from .run_sets import RunSet, gather_run_sets
from .sampler import GridDescentSampler
from .storage import open_storage, open_study
from .worker import work

__all__ = [
    "GRIDS",
    "Configuration",
    "Grid",
    "GridDescentSampler",
    "Heartbeat",
    "Objective",
    "RunSet",
    "Search",
    "analyse",
    "configuration_of",
    "fail_stale_trials",
    "gather_run_sets",
    "open_storage",
    "open_study",
    "settings_of",
    "suggest",
    "work",
]
