"""The tests behind the verdicts, against scipy's."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from relational_transformer.reports.results.estimate import Estimate, average, rounding_error
from relational_transformer.reports.results.significance import critical_value, difference, holm, two_sided_tail


@pytest.mark.parametrize("freedom", [1.0, 1.3, 2.0, 7.5, 19.0, 38.0, 500.0])
@pytest.mark.parametrize("t", [0.0, 0.3, -1.0, 2.1, 6.0, 40.0])
def test_tails_are_those_of_students_distribution(t: float, freedom: float):
    assert two_sided_tail(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=2e-6)


def test_without_limit_to_the_freedom_the_tail_is_the_normal_one():
    assert two_sided_tail(1.96, math.inf) == pytest.approx(2 * stats.norm.sf(1.96), abs=1e-6)
    assert critical_value(0.05, math.inf) == pytest.approx(1.959964, abs=1e-5)


@pytest.mark.parametrize("freedom", [1e4, 9.9e4, 1e5, 8e6, 1e12])
@pytest.mark.parametrize("t", [0.0, 0.1, 1.96, 6.0])
def test_tails_stay_right_however_large_the_freedom(t: float, freedom: float):
    assert two_sided_tail(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), abs=5e-6)


def test_what_was_rounded_away_is_an_error_besides():
    """The same difference and spread, but one number printed in steps of 0.1: the error grows, and p with it."""
    ours, theirs = Estimate.of([0.42, 0.44, 0.46]), Estimate(0.5, None, 20, None, None)
    error = 0.02 / math.sqrt(3) * math.sqrt(1 + 3 / 20)
    plain, rounded = (difference(ours, replace(theirs, rounding=one)) for one in (0.0, rounding_error(0.1)))
    assert plain.p == pytest.approx(2 * stats.t.sf(0.06 / error, 2), abs=1e-6)
    total = math.hypot(error, 0.1 / math.sqrt(12))
    freedom = 2 * (total / error) ** 4  # Welch and Satterthwaite: the rounding's is without limit
    assert rounded.p == pytest.approx(2 * stats.t.sf(0.06 / total, freedom), abs=1e-6)
    assert rounded.assumed


@pytest.mark.parametrize(("ours", "theirs"), [((90.0, 3.0, 5), (94.24, 1.5, 20)), ((12.0, 9.0, 20), (10.0, 2.0, 20))])
def test_two_samples_are_compared_by_welchs_test(ours, theirs):
    found = difference(Estimate.printed(*ours), Estimate.printed(*theirs))
    expected = stats.ttest_ind_from_stats(*ours, *theirs, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-6)
    assert not found.assumed


def test_the_interval_of_the_difference_is_the_one_of_the_measured_samples():
    generator = np.random.default_rng(0)
    first, second = generator.normal(3, 1, 6), generator.normal(5, 4, 20)
    found = difference(Estimate.of(first.tolist()), Estimate.of(second.tolist()))
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-5)


@pytest.mark.parametrize("swapped", [False, True])
def test_one_seed_is_judged_with_the_spread_of_the_other_side_and_says_so(swapped: bool):
    """That is Student's test with a pooled variance, to which a single value adds nothing."""
    one, many = Estimate.of([80.0]), Estimate.printed(90.0, 4.0, 20)
    found = difference(many, one) if swapped else difference(one, many)
    expected = stats.ttest_ind_from_stats(90.0, 4.0, 20, 80.0, 0.0, 1, equal_var=True)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-6)
    assert found.assumed


def test_nothing_is_said_where_neither_spread_is_known():
    found = difference(Estimate.of([80.0]), Estimate.of([70.0]))
    assert (found.value, found.p, found.low) == (10.0, None, None)


def test_equal_values_without_spread_are_no_difference_and_others_are_one():
    same = Estimate.of([0.0, 0.0])
    assert difference(same, same).p == 1.0
    assert difference(Estimate.of([1.0, 1.0]), same).p == 0.0


def test_errors_of_averages_are_those_of_simulated_ones():
    """Averages of three tasks with 4 seeds each: the error is right, and 95% intervals hold in 95% of the cases."""
    generator = np.random.default_rng(1)
    deviations = np.array([1.0, 5.0, 10.0])
    held = 0
    for _ in range(400):
        tasks = [Estimate.of(generator.normal(0, deviation, 4).tolist()) for deviation in deviations]
        ours = average(tasks)
        held += abs(ours.mean) <= critical_value(0.05, ours.freedom) * ours.error
    assert held / 400 == pytest.approx(0.95, abs=0.03)


def test_an_average_of_averages_is_as_sure_as_one_over_all():
    parts = [Estimate.printed(10.0, deviation, seeds) for deviation, seeds in ((1.0, 5), (2.0, 20), (4.0, 3), (0.5, 9))]
    nested, flat = average([average(parts[:2]), average(parts[2:])]), average(parts)
    assert nested.error == pytest.approx(flat.error)
    assert nested.freedom == pytest.approx(flat.freedom)


def test_one_unknown_spread_makes_that_of_the_average_unknown():
    mixed = average([Estimate.of([1.0, 2.0]), Estimate.of([5.0])])
    assert (mixed.mean, mixed.error, mixed.deviation, mixed.seeds) == (3.25, None, None, 1)


def test_corrected_p_values_reject_what_holms_procedure_rejects():
    """Against the definition: the k-th smallest of m is rejected while every earlier one was."""
    values = np.random.default_rng(2).uniform(0, 0.1, 12).tolist()
    corrected = holm(values)
    order = np.argsort(values)
    for level in (0.01, 0.05, 0.2):
        rejected = set()
        for rank, index in enumerate(order):
            if values[index] > level / (len(values) - rank):
                break
            rejected.add(int(index))
        assert {k for k, p in enumerate(corrected) if p <= level} == rejected
    assert all(first <= second for first, second in pairwise(corrected[k] for k in order))
    assert holm([]) == []
