"""Many seeds of one model trained as one: their parameters, optimiser, compiled pieces and CUDA graphs.

Nothing here knows what is trained.
"""

from .adam import Adam, Schedule
from .fleet import Fleet, initialise
from .over_seeds import Parameters, over_seeds
from .pieces import Pieces

__all__ = ["Adam", "Fleet", "Parameters", "Pieces", "Schedule", "initialise", "over_seeds"]
