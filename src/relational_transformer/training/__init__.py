"""Training a fleet of seeds at once, by the paper's protocol, in runs that survive being killed."""

from .config import TrainConfig
from .protocol import PROTOCOLS, Protocol
from .run_folder import RunFolder
from .trained import load_network
from .trainer import Progress, Trainer

__all__ = ["PROTOCOLS", "Progress", "Protocol", "RunFolder", "TrainConfig", "Trainer", "load_network"]
