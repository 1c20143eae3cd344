"""Greedy choices are as good as the best of all choices."""

from itertools import combinations, pairwise

import numpy as np

from relational_transformer.clrs import sample


def compatible(starts, finishes, chosen):
    ordered = sorted(chosen, key=lambda activity: finishes[activity])
    return all(starts[late] >= finishes[early] for early, late in pairwise(ordered))


def test_activities_do_not_overlap_and_no_larger_choice_exists():
    data = sample("activity_selector", 20, 8, seed=7)
    for starts, finishes, selected in zip(data.inputs["s"], data.inputs["f"], data.outputs["selected"], strict=True):
        chosen = np.flatnonzero(selected)
        assert compatible(starts, finishes, chosen)
        assert not any(compatible(starts, finishes, other) for other in combinations(range(8), len(chosen) + 1))


def test_tasks_taken_are_those_of_a_plain_reading_of_the_rule():
    data = sample("task_scheduling", 30, 10, seed=8)
    for deadline, worth, selected in zip(data.inputs["d"], data.inputs["w"], data.outputs["selected"], strict=True):
        taken: list[int] = []
        for task in sorted(range(10), key=lambda task: -worth[task]):
            if len(taken) < deadline[task]:
                taken.append(task)
        np.testing.assert_array_equal(np.flatnonzero(selected), sorted(taken))
        assert deadline.min() >= 1
        assert deadline.max() <= 10


def test_time_counts_the_tasks_taken():
    data = sample("task_scheduling", 5, 10, seed=8)
    np.testing.assert_array_equal(data.hints["t"], data.hints["selected_h"].sum(axis=-1))
