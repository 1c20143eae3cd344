"""The softmax of logits."""

from torch import Tensor


def log_probabilities(logits: Tensor, axis: int = -2) -> Tensor:
    """log softmax(x)_j = x_j - m - log sum_k exp(x_k - m) along an axis, m the largest, with a gradient that adds up to
    nothing however small it is.

    A softmax does not see what all logits have in common, so whatever moves them together (their bias, what a pointer's
    own node says) should get no gradient. With `log_softmax` it does: of a choice that is learnt perfectly, 1 - p is
    rounded to 0 while all others keep their p_j, the sum is always positive, and where nothing else is left to learn
    Adam makes full steps of it, always the same way. Here m is differentiated as well: the largest logit gets what the
    others lose.
    """
    relative = logits - logits.amax(axis, keepdim=True)
    return relative - relative.exp().sum(axis, keepdim=True).log()
