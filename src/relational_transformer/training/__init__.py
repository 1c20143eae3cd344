"""Training a fleet of seeds at once, by the paper's protocol, in runs that survive being killed."""

from relational_transformer.runs.run_folder import RunFolder

from .config import PROTOCOLS, Protocol, TrainConfig
from .trained import load_network
from .trainer import Progress, Trainer

__all__ = ["PROTOCOLS", "Progress", "Protocol", "RunFolder", "TrainConfig", "Trainer", "load_network"]
