"""Greedy algorithms: choose activities that do not overlap; choose tasks that can meet their deadlines."""

import numpy as np

from relational_transformer.clrs.algorithm import Algorithm, Drawn
from relational_transformer.clrs.algorithms.rows import put, put_chain, put_one
from relational_transformer.clrs.compiled import compiled
from relational_transformer.clrs.input_features import intervals, tasks
from relational_transformer.clrs.samples.samplers import activity_intervals, deadlines_and_worths


@compiled
def activity_selector(example, drawn, hints, outputs, row):
    """Activity selection (Gavril, 1972): in order of finish, take what starts after the last one taken has finished.

    Hints: `pred_h` the order of the nodes, `selected_h` what is taken so far, `m` the activity looked at, `k` the last
    taken.
    Output: `selected`.
    """
    pred_h, selected_h, m_h, k_h = hints
    start, finish = drawn[0][example], drawn[1][example]
    size = start.size
    selected = np.zeros(size, np.int8)

    put_chain(pred_h[row], 0, size)
    put(selected_h[row], selected)
    put_one(m_h[row], 0)
    put_one(k_h[row], 0)
    row += 1

    by_finish = np.argsort(finish)
    last = by_finish[0]
    for m in by_finish:
        if m == last or start[m] >= finish[last]:
            selected[m] = 1
            last = m
        put_chain(pred_h[row], 0, size)
        put(selected_h[row], selected)
        put_one(m_h[row], m)
        put_one(k_h[row], last)
        row += 1

    put(outputs[0][example], selected)
    return row


@compiled
def task_scheduling(example, drawn, hints, outputs, row):
    """Scheduling of unit tasks (Lawler, 1985): in order of worth, take a task while there is time before its deadline.

    Hints: `pred_h` the order of the nodes, `selected_h` what is taken so far, `i` the task looked at, `t` the time used
    up.
    Output: `selected`.
    """
    pred_h, selected_h, i_h, t_h = hints
    deadline, worth = drawn[0][example], drawn[1][example]
    size = worth.size
    selected = np.zeros(size, np.int8)
    time = 0

    put_chain(pred_h[row], 0, size)
    put(selected_h[row], selected)
    put_one(i_h[row], 0)
    t_h[row] = time
    row += 1

    for task in np.argsort(-worth):
        if time < deadline[task]:
            selected[task] = 1
            time += 1
        put_chain(pred_h[row], 0, size)
        put(selected_h[row], selected)
        put_one(i_h[row], task)
        t_h[row] = time
        row += 1

    put(outputs[0][example], selected)
    return row


def _one_more(drawn: Drawn) -> int:
    return drawn[0].shape[1] + 1


GREEDY = {
    "activity_selector": Algorithm(activity_intervals, intervals, activity_selector, _one_more),
    "task_scheduling": Algorithm(deadlines_and_worths, tasks, task_scheduling, _one_more),
}
