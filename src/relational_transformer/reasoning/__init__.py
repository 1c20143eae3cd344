"""Encode-process-decode: networks that learn to run algorithms."""

from .build import build_network
from .features import Batch, FeatureGroup, group_features, pack, unpack
from .network import Losses, Network, Prediction
from .permutations import gumbel

__all__ = [
    "Batch",
    "FeatureGroup",
    "Losses",
    "Network",
    "Prediction",
    "build_network",
    "group_features",
    "gumbel",
    "pack",
    "unpack",
]
