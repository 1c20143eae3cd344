"""A mean over seeds, and its error."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, with its deviation and error if they are known.

    `deviation` is the standard deviation s over n seeds, `error` the standard error of the mean, s / sqrt(n) for a
    plain mean, and `freedom` its degrees of freedom, n - 1 for a plain mean. `rounding` is the standard error that
    printing the mean in few places has added.

    >>> Estimate.of([90.0, 94.0, 92.0, 92.0])
    Estimate(mean=92.0, deviation=1.63..., seeds=4, error=0.81..., freedom=3, rounding=0.0)
    """

    mean: float
    deviation: float | None
    seeds: int
    error: float | None
    freedom: float | None
    rounding: float = 0.0

    @staticmethod
    def of(values: Sequence[float]) -> "Estimate":
        """The mean of measured values, one for each seed. A single seed has no deviation."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return Estimate.printed(statistics.mean(values), deviation, len(values))

    @staticmethod
    def printed(mean: float, deviation: float | None, seeds: int, step: float = 0.0) -> "Estimate":
        """A printed mean and deviation, the deviation rounded to steps of `step`.

        A deviation printed as 0.0 is one below half a step, and is taken as half a step.
        """
        if deviation is None:
            return Estimate(mean, None, seeds, None, None)
        return Estimate(mean, deviation, seeds, max(deviation, step / 2) / math.sqrt(seeds), seeds - 1)


def rounding_error(step: float) -> float:
    """The standard deviation of the error of rounding to steps of `step`, which is uniform: step / sqrt(12).

    >>> round(rounding_error(0.01), 5)
    0.00289
    """
    return step / math.sqrt(12)


def average(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of T independent means with equal weights.

    Its error is sqrt(sum of errors²) / T, with the degrees of freedom of Welch and Satterthwaite,
    (sum of errors²)² / sum of (error⁴ / freedom). `seeds` is the smallest number of seeds among them.

    >>> average([Estimate.of([1.0, 3.0]), Estimate.of([4.0, 6.0])]).mean
    3.5
    """
    count = len(estimates)
    mean = sum(estimate.mean for estimate in estimates) / count
    seeds = min(estimate.seeds for estimate in estimates)
    deviations = [estimate.deviation for estimate in estimates if estimate.deviation is not None]
    deviation = math.hypot(*deviations) / count if len(deviations) == count else None
    known = [(one.error, one.freedom) for one in estimates if one.error is not None and one.freedom is not None]
    rounding = math.hypot(*(estimate.rounding for estimate in estimates)) / count
    if len(known) < count:
        return Estimate(mean, deviation, seeds, None, None, rounding)
    error = math.hypot(*(error for error, _ in known)) / count
    return Estimate(mean, deviation, seeds, error, joint_freedom(known), rounding)


def joint_freedom(parts: Sequence[tuple[float, float]]) -> float:
    """The degrees of freedom of a sum of independent means with these (error, freedom) (Welch, Satterthwaite)."""
    spread = sum(error**4 / freedom for error, freedom in parts)
    total = sum(error**2 for error, _ in parts)
    return total**2 / spread if spread else min(freedom for _, freedom in parts)
