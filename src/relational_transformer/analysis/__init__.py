"""What trained networks of CLRS-30 predict at every step, and where they go wrong."""

from .hint_scores import HintScore, HintScores, evaluate_hints
from .rollout import PredictedHint, Predictions, predict_steps

__all__ = ["HintScore", "HintScores", "PredictedHint", "Predictions", "evaluate_hints", "predict_steps"]
