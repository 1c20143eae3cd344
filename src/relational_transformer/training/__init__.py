"""CLRS-30: fleets of networks that learn an algorithm, by the paper's protocol or the modern one."""

from .config import PROTOCOLS, Protocol, TrainConfig, find_schedule
from .task import CLRSTask, load_network

__all__ = ["PROTOCOLS", "CLRSTask", "Protocol", "TrainConfig", "find_schedule", "load_network"]
