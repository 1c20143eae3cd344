"""Search: the minimum, a place in a sorted array, the median. Keys are U[0, 1]."""

import numpy as np

from relational_transformer.clrs.algorithm import Algorithm, Drawn
from relational_transformer.clrs.algorithms.rows import put_chain, put_one, put_order
from relational_transformer.clrs.compiled import compiled
from relational_transformer.clrs.input_features import keys, keys_and_target
from relational_transformer.clrs.samples.samplers import sorted_keys_and_target, uniform_keys


@compiled
def minimum(example, drawn, hints, outputs, row):
    """Minimum. Hints: `pred_h` the order of the nodes, `min_h` the smallest key so far, `i` the key just seen."""
    pred_h, min_h, i_h = hints
    array = drawn[0][example]
    smallest = 0
    for i in range(array.size):
        if array[i] < array[smallest]:
            smallest = i
        put_chain(pred_h[row], 0, array.size)
        put_one(min_h[row], smallest)
        put_one(i_h[row], i)
        row += 1
    put_one(outputs[0][example], smallest)
    return row


@compiled
def binary_search(example, drawn, hints, outputs, row):
    """Binary search for the first key not below the target (the last key, if all are).

    Hints: `pred_h` the order of the nodes, `low` and `high` the bounds of what is left, `mid` between them.
    Output: `return`, where the bounds meet.
    """
    pred_h, low_h, high_h, mid_h = hints
    array, target = drawn[0][example], drawn[1][example]
    low, high = 0, array.size - 1
    while True:
        middle = (low + high) // 2
        put_chain(pred_h[row], 0, array.size)
        put_one(low_h[row], low)
        put_one(high_h[row], high)
        put_one(mid_h[row], middle)
        row += 1
        if low >= high:
            break
        if target <= array[middle]:
            high = middle
        else:
            low = middle + 1
    put_one(outputs[0][example], high)
    return row


@compiled
def quickselect(example, drawn, hints, outputs, row):
    """Quickselect (Hoare, 1961): the key of rank N // 2, by splitting only the part that holds it.

    Hints: `pred_h` the order, `p` and `r` the first and last key of the part being split, `i` the key that stands where
    the next small one goes, `j` the key being looked at, `i_rank` the rank of `i` (within the part once it is split),
    `target` the rank sought within the part, both over N, and `pivot` the key that splits.
    Output: `median`.
    """
    pred_h, p_h, r_h, i_h, j_h, i_rank_h, target_h, pivot_h = hints
    array = drawn[0][example].copy()
    size = array.size
    order = np.arange(size)

    p, r, target = 0, size - 1, size // 2
    while True:
        pivot = array[r]
        small = p
        for j in range(p, r + 1):
            # In the last step, j == r, the pivot itself goes behind the small keys.
            if array[j] <= pivot:
                array[small], array[j] = array[j], array[small]
                order[small], order[j] = order[j], order[small]
                small += 1
            split = j == r
            shown = small - 1 if split else small
            put_order(pred_h[row], order)
            put_one(p_h[row], order[p])
            put_one(r_h[row], order[r])
            put_one(i_h[row], order[shown])
            put_one(j_h[row], order[j])
            i_rank_h[row] = (shown - p if split else shown) / size
            target_h[row] = target / size
            put_one(pivot_h[row], order[shown] if split else order[r])
            row += 1

        middle = small - 1
        if target == middle - p:
            put_one(outputs[0][example], order[middle])
            return row
        if target < middle - p:
            r = middle - 1
        else:
            target -= middle - p + 1
            p = middle + 1


def _pairs(drawn: Drawn) -> int:
    size = drawn[0].shape[1]
    return 1 + size * (size + 1) // 2


SEARCHING = {
    "minimum": Algorithm(uniform_keys, keys, minimum, lambda drawn: drawn[0].shape[1]),
    "binary_search": Algorithm(
        sorted_keys_and_target, keys_and_target, binary_search, lambda drawn: 1 + drawn[0].shape[1].bit_length()
    ),
    "quickselect": Algorithm(uniform_keys, keys, quickselect, _pairs),
}
