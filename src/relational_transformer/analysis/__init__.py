"""What trained networks of CLRS-30 predict at every step, and where they go wrong."""

from .hint_scores import evaluate_hints
from .rollout import predict_steps

__all__ = ["evaluate_hints", "predict_steps"]
