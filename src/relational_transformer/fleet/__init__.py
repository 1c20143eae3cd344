"""Many seeds of one model trained as one: their parameters, optimiser, compiled pieces and CUDA graphs.

Nothing here knows what is trained.
"""

from .adam import Adam, Schedule
from .fleet import Fleet, initialise
from .pieces import Parameters, Pieces, over_seeds

__all__ = ["Adam", "Fleet", "Parameters", "Pieces", "Schedule", "initialise", "over_seeds"]
