"""Divide and conquer: the maximum subarray, by Kadane's scan. Keys are U[-1, 1]."""

from relational_transformer.clrs.algorithm import Algorithm
from relational_transformer.clrs.algorithms.rows import put_chain, put_one
from relational_transformer.clrs.compiled import compiled
from relational_transformer.clrs.input_features import keys
from relational_transformer.clrs.samples.samplers import signed_keys


@compiled
def find_maximum_subarray_kadane(example, drawn, hints, outputs, row):
    """Kadane's maximum subarray (Bentley, 1984).

    Hints: `pred_h` the order of the nodes, `best_low`, `best_high`, `best_sum` the best subarray so far, `i` the start,
    `j` the end and `sum` the sum of the best one that ends here.
    Outputs: `start` and `end` of the best.
    """
    pred_h, best_low_h, best_high_h, best_sum_h, i_h, j_h, sum_h = hints
    array = drawn[0][example]
    best_low, best_high, best_sum = 0, 0, array[0]
    start, total = 0, array[0]
    for j in range(array.size):
        if j > 0:
            if total + array[j] >= array[j]:
                total += array[j]
            else:
                start, total = j, array[j]
            if total > best_sum:
                best_low, best_high, best_sum = start, j, total
        put_chain(pred_h[row], 0, array.size)
        put_one(best_low_h[row], best_low)
        put_one(best_high_h[row], best_high)
        best_sum_h[row] = best_sum
        put_one(i_h[row], start)
        put_one(j_h[row], j)
        sum_h[row] = total
        row += 1
    put_one(outputs[0][example], best_low)
    put_one(outputs[1][example], best_high)
    return row


DIVIDE_AND_CONQUER = {
    "find_maximum_subarray_kadane": Algorithm(
        signed_keys, keys, find_maximum_subarray_kadane, lambda drawn: drawn[0].shape[1]
    ),
}
