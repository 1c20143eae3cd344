"""CLRS-30: fleets of networks that learn an algorithm, by the paper's protocol or the modern one."""

from .config import PROTOCOLS, Protocol, TrainConfig
from .task import CLRSTask, load_network

__all__ = ["PROTOCOLS", "CLRSTask", "Protocol", "TrainConfig", "load_network"]
