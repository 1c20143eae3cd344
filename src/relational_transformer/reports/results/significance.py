"""Tests of differences: Welch's t-test from means, deviations and counts, and Holm's correction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy

from .estimate import Estimate, joint_freedom

LEVEL = 0.05
"""The probability that a table shows a significant difference where there is none."""

FREEDOM_OF_A_NORMAL = 1e5
"""The degrees of freedom from which the normal distribution is more exact than the quadrature (both within 1e-5)."""

_NODES, _WEIGHTS = numpy.polynomial.legendre.leggauss(128)


@dataclass(frozen=True)
class Difference:
    """Our mean minus theirs. `low` and `high` are the ends of its 95% interval, `p` is two-sided; None if neither
    side's deviation is known. `assumed`: one side's deviation is not known, and the other's was taken for both."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    assumed: bool


def difference(ours: Estimate, theirs: Estimate) -> Difference:
    """Compare two means by Welch's t-test: t = (m1 - m2) / sqrt(e1² + e2²), with e the standard errors.

    If one side's deviation is not known (a single seed, or none printed), the other's is taken for both, which is
    Student's t-test. The rounding of a printed number is an additional error.

    >>> found = difference(Estimate.printed(93.0, 2.0, 5), Estimate.printed(94.24, 1.5, 20))
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2), round(found.p, 3)
    (-1.24, -3.67, 1.19, 0.249)
    """
    value = ours.mean - theirs.mean
    rounding = [(side.rounding, math.inf) for side in (ours, theirs) if side.rounding]
    if ours.error is not None and theirs.error is not None and ours.freedom and theirs.freedom:
        return _tested(value, [(ours.error, ours.freedom), (theirs.error, theirs.freedom), *rounding], assumed=False)
    known, other = (ours, theirs) if ours.error is not None else (theirs, ours)
    if known.error is None or not known.freedom or not known.seeds or not other.seeds:
        return Difference(value, None, None, None, assumed=False)
    of_both = known.error * math.sqrt(1 + known.seeds / other.seeds)
    return _tested(value, [(of_both, known.freedom), *rounding], assumed=True)


def _tested(value: float, errors: Sequence[tuple[float, float]], assumed: bool) -> Difference:
    """A difference whose error is the sum of independent (error, freedom)."""
    error, freedom = math.hypot(*(one for one, _ in errors)), joint_freedom(errors)
    if error == 0:
        return Difference(value, value, value, 1.0 if value == 0 else 0.0, assumed)
    reach = error * critical_value(LEVEL, freedom)
    return Difference(value, value - reach, value + reach, two_sided_tail(value / error, freedom), assumed)


def two_sided_tail(t: float, freedom: float) -> float:
    """P(|T| >= |t|) for Student's T with `freedom` >= 1 degrees of freedom; very many make it a normal one.

    With t = sqrt(v) tan(a) the density becomes c cos(a)^(v - 1), c = Γ((v + 1) / 2) / (sqrt(pi) Γ(v / 2)), which
    Gauss-Legendre integrates from a to pi / 2.

    >>> round(two_sided_tail(2.0, 10.0), 6)
    0.073388
    """
    if freedom >= FREEDOM_OF_A_NORMAL:
        return math.erfc(abs(t) / math.sqrt(2))
    start = math.atan(abs(t) / math.sqrt(freedom))
    half = (math.pi / 2 - start) / 2
    angles = start + half * (1 + _NODES)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2
    density = numpy.exp(scale + (freedom - 1) * numpy.log(numpy.cos(angles)))
    return min(1.0, float(2 * half * (_WEIGHTS * density).sum()))


@cache
def critical_value(level: float, freedom: float) -> float:
    """The t whose two-sided tail is `level`, by bisection."""
    low, high = 0.0, 2.0
    while two_sided_tail(high, freedom) > level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_tail(middle, freedom) > level else (low, middle)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: at most LEVEL where Holm's step-down procedure rejects.

    The k-th smallest of m is multiplied by m - k + 1, and none may be below the ones before it.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted
