"""Sorting. Keys are U[0, 1]; the output `pred` points from every key to the one before it in sorted order."""

import numpy as np

from relational_transformer.clrs.algorithm import Algorithm, Drawn
from relational_transformer.clrs.algorithms.rows import put_one, put_order
from relational_transformer.clrs.compiled import compiled
from relational_transformer.clrs.input_features import keys
from relational_transformer.clrs.samples.samplers import uniform_keys

# In all four, `order[place]` is the node whose key stands at `place` of the array just now.


@compiled
def insertion_sort(example, drawn, hints, outputs, row):
    """Insertion sort. Hints: `pred_h` the order, `j` the key just inserted, `i` the one that stood where it went."""
    pred_h, i_h, j_h = hints
    array = drawn[0][example].copy()
    size = array.size
    order = np.arange(size)

    put_order(pred_h[row], order)
    put_one(i_h[row], 0)
    put_one(j_h[row], 0)
    row += 1

    for j in range(1, size):
        key = array[j]
        place = j - 1
        while place >= 0 and array[place] > key:
            array[place + 1] = array[place]
            order[place + 1] = order[place]
            place -= 1
        array[place + 1] = key
        displaced = order[place + 1]
        order[place + 1] = j

        put_order(pred_h[row], order)
        put_one(i_h[row], displaced)
        put_one(j_h[row], j)
        row += 1

    put_order(outputs[0][example], order)
    return row


@compiled
def bubble_sort(example, drawn, hints, outputs, row):
    """Bubble sort. Hints: `pred_h` the order, `i` the key at the place being filled, `j` the key that bubbles down."""
    pred_h, i_h, j_h = hints
    array = drawn[0][example].copy()
    size = array.size
    order = np.arange(size)

    put_order(pred_h[row], order)
    put_one(i_h[row], 0)
    put_one(j_h[row], 0)
    row += 1

    for i in range(size - 1):
        for j in range(size - 1, i, -1):
            if array[j] < array[j - 1]:
                array[j], array[j - 1] = array[j - 1], array[j]
                order[j], order[j - 1] = order[j - 1], order[j]

            put_order(pred_h[row], order)
            put_one(i_h[row], order[i])
            put_one(j_h[row], order[j])
            row += 1

    put_order(outputs[0][example], order)
    return row


@compiled
def _put_heap(row, order, heap_size):
    """Pointers to the parents in the heap; what is no longer in it points at itself."""
    for node in range(row.size):
        row[node] = node
    for place in range(1, heap_size):
        row[order[place]] = order[(place - 1) // 2]


@compiled
def _record_heap(hints, row, order, i, j, largest, heap_size, phase):
    pred_h, parent_h, i_h, j_h, largest_h, heap_size_h, phase_h = hints
    put_order(pred_h[row], order)
    _put_heap(parent_h[row], order, heap_size)
    put_one(i_h[row], i)
    put_one(j_h[row], j)
    put_one(largest_h[row], largest)
    put_one(heap_size_h[row], order[heap_size - 1])
    put_one(phase_h[row], phase)


@compiled
def _sift_down(hints, row, array, order, root, heap_size, i, phase):
    """Let the key at `root` sink to its place: a row for every level it looks at."""
    while True:
        left, right = 2 * root + 1, 2 * root + 2
        largest = root
        if left < heap_size and array[left] > array[root]:
            largest = left
        if right < heap_size and array[right] > array[largest]:
            largest = right
        if largest != root:
            array[root], array[largest] = array[largest], array[root]
            order[root], order[largest] = order[largest], order[root]
        _record_heap(hints, row, order, order[i], order[root], order[largest], heap_size, phase)
        row += 1
        if largest == root:
            return row
        root = largest


@compiled
def heapsort(example, drawn, hints, outputs, row):
    """Heapsort (Williams, 1964).

    Hints: `pred_h` the order of the array, `parent` the heap's tree, `i` the key the current call is about, `j` the
    root it looks at, `largest` among that root and its children, `heap_size` the heap's last key, and `phase`: 0
    building the heap, 1 taking out its maximum, 2 repairing it.
    """
    array = drawn[0][example].copy()
    size = array.size
    order = np.arange(size)

    _record_heap(hints, row, order, size - 1, size - 1, size - 1, size, 0)
    row += 1

    for root in range(size - 1, -1, -1):
        row = _sift_down(hints, row, array, order, root, size, root, 0)

    for last in range(size - 1, 0, -1):
        array[0], array[last] = array[last], array[0]
        order[0], order[last] = order[last], order[0]
        _record_heap(hints, row, order, order[0], order[last], 0, last, 1)
        row += 1
        row = _sift_down(hints, row, array, order, 0, last, last, 2)

    put_order(outputs[0][example], order)
    return row


@compiled
def quicksort(example, drawn, hints, outputs, row):
    """Quicksort (Hoare, 1962), the last key of a part as its pivot.

    Hints: `pred_h` the order, `p` and `r` the first and last key of the part being split, `i` the key that stands where
    the next small one goes, `j` the key being looked at.
    """
    pred_h, p_h, r_h, i_h, j_h = hints
    array = drawn[0][example].copy()
    size = array.size
    order = np.arange(size)

    # Parts still to sort, the left one on top.
    parts = np.empty((size + 1, 2), np.int64)
    parts[0, 0], parts[0, 1] = 0, size - 1
    waiting = 1
    while waiting > 0:
        waiting -= 1
        p, r = parts[waiting, 0], parts[waiting, 1]
        if p >= r:
            continue

        pivot = array[r]
        small = p
        for j in range(p, r + 1):
            # In the last step, j == r, the pivot itself goes behind the small keys.
            if array[j] <= pivot:
                array[small], array[j] = array[j], array[small]
                order[small], order[j] = order[j], order[small]
                small += 1
            shown = small if j < r else small - 1
            put_order(pred_h[row], order)
            put_one(p_h[row], order[p])
            put_one(r_h[row], order[r])
            put_one(i_h[row], order[shown])
            put_one(j_h[row], order[j])
            row += 1

        middle = small - 1
        parts[waiting, 0], parts[waiting, 1] = middle + 1, r
        parts[waiting + 1, 0], parts[waiting + 1, 1] = p, middle - 1
        waiting += 2

    put_order(outputs[0][example], order)
    return row


def _pairs(drawn: Drawn) -> int:
    size = drawn[0].shape[1]
    return 1 + size * (size + 1) // 2


def _heap_steps(drawn: Drawn) -> int:
    size = drawn[0].shape[1]
    levels = size.bit_length()
    return 1 + size * levels + (size - 1) * (1 + levels)


SORTING = {
    "insertion_sort": Algorithm(uniform_keys, keys, insertion_sort, lambda drawn: drawn[0].shape[1]),
    "bubble_sort": Algorithm(uniform_keys, keys, bubble_sort, _pairs),
    "heapsort": Algorithm(uniform_keys, keys, heapsort, _heap_steps),
    "quicksort": Algorithm(uniform_keys, keys, quicksort, _pairs, shortest=2),
}
