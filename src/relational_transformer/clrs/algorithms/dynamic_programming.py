"""Dynamic programming over pairs of nodes: matrix chains, common subsequences, search trees."""

import numpy as np

from relational_transformer.clrs.algorithm import Algorithm, Drawn
from relational_transformer.clrs.algorithms.rows import put_chain, put_matrix
from relational_transformer.clrs.algorithms.strings import split_strings
from relational_transformer.clrs.compiled import compiled
from relational_transformer.clrs.input_features import dimensions, probabilities, two_strings
from relational_transformer.clrs.samples.samplers import string_halves, tree_probabilities, uniform_keys

MATCH, UP, LEFT, BLANK = 0, 1, 2, 3


@compiled
def matrix_chain_order(example, drawn, hints, outputs, row):
    """Matrix-chain multiplication: where to split the product of matrices i .. j, swept until nothing changes.

    Hints: `pred_h` the order of the nodes, `m` the least cost of i .. j known so far, `s_h` the split k that gives it,
    `msk` where a cost is known.
    Output: `s`, the splits.
    """
    pred_h, m_h, s_h, msk_h = hints
    sizes = drawn[0][example]
    count = sizes.size
    cost = np.zeros((count, count))
    split = np.zeros((count, count), np.int64)
    known = np.zeros((count, count), np.int8)
    for i in range(1, count):
        known[i, i] = 1

    changed = True
    while changed:
        put_chain(pred_h[row], 0, count)
        put_matrix(m_h[row], cost)
        put_matrix(s_h[row], split)
        put_matrix(msk_h[row], known)
        row += 1

        changed = False
        old_cost, old_known = cost.copy(), known.copy()
        for i in range(1, count):
            for j in range(i + 1, count):
                any_yet = old_known[i, j] == 1
                for k in range(i, j):
                    if old_known[i, k] == 1 and old_known[k + 1, j] == 1:
                        known[i, j] = 1
                        candidate = old_cost[i, k] + old_cost[k + 1, j] + sizes[i - 1] * sizes[k] * sizes[j]
                        if not any_yet or candidate < cost[i, j]:
                            cost[i, j] = candidate
                            split[i, j] = k
                            any_yet = True
                if cost[i, j] != old_cost[i, j]:
                    changed = True

    put_matrix(outputs[0][example], split)
    return row


@compiled
def _put_moves(row, moves):
    """Moves between the two strings; cells within one string, or from the second to the first, have no meaning."""
    first = moves.shape[0]
    for i in range(row.shape[0]):
        for j in range(row.shape[1]):
            for move in range(BLANK):
                row[i, j, move] = 0
            row[i, j, BLANK] = -1
            if i < first and j >= first:
                row[i, j, BLANK] = 0
                row[i, j, moves[i, j - first]] = 1


@compiled
def _put_lengths(row, lengths):
    first = lengths.shape[0]
    for i in range(row.shape[0]):
        for j in range(row.shape[1]):
            row[i, j] = lengths[i, j - first] if i < first and j >= first else 0.0


@compiled
def lcs_length(example, drawn, hints, outputs, row):
    """Longest common subsequence, sweep after sweep until no length changes.

    Hints: `pred_h` the order within each string, `c` the length known for characters 0 .. i of one and 0 .. j of the
    other, `b_h` the move that gives it: 0 a match, 1 leave out i, 2 leave out j (3: a cell without meaning).
    Output: `b`, the moves.
    """
    pred_h, b_h, c_h = hints
    x, y = split_strings(drawn, example)
    length = np.zeros((x.size, y.size))
    move = np.zeros((x.size, y.size), np.int64)

    # The first column and the first row are known at once.
    for i in range(x.size):
        if x[i] == y[0]:
            length[i, 0], move[i, 0] = 1, MATCH
        else:
            length[i, 0], move[i, 0] = length[i - 1, 0] if i > 0 else 0, UP
    for j in range(y.size):
        if x[0] == y[j]:
            length[0, j], move[0, j] = 1, MATCH
        elif j > 0 and length[0, j - 1] == 1:
            length[0, j], move[0, j] = 1, LEFT
        else:
            length[0, j], move[0, j] = 0, UP

    changed = True
    while changed:
        put_chain(pred_h[row], 0, x.size)
        put_chain(pred_h[row], x.size, y.size)
        _put_moves(b_h[row], move)
        _put_lengths(c_h[row], length)
        row += 1

        changed = False
        old = length.copy()
        for i in range(1, x.size):
            for j in range(1, y.size):
                if x[i] == y[j]:
                    length[i, j], move[i, j] = old[i - 1, j - 1] + 1, MATCH
                elif old[i - 1, j] >= old[i, j - 1]:
                    length[i, j], move[i, j] = old[i - 1, j], UP
                else:
                    length[i, j], move[i, j] = old[i, j - 1], LEFT
                if length[i, j] != old[i, j]:
                    changed = True

    _put_moves(outputs[0][example], move)
    return row


@compiled
def _record_tree(hints, row, root, cost, weight, known):
    pred_h, root_h, e_h, w_h, msk_h = hints
    put_chain(pred_h[row], 0, known.shape[0])
    put_matrix(root_h[row], root)
    put_matrix(e_h[row], cost)
    put_matrix(w_h[row], weight)
    put_matrix(msk_h[row], known)


@compiled
def optimal_bst(example, drawn, hints, outputs, row):
    """Optimal binary search tree (Aho et al., 1974), over ranges of keys from short to long.

    Hints: `pred_h` the order of the nodes, `root_h` the best root of the keys i .. j - 1, `e` the expected cost of
    their tree, `w` their total probability, `msk` where these are known.
    Output: `root`.
    """
    key_chance, gap_chance = drawn[0][example], drawn[1][example]
    size = gap_chance.size
    cost = np.zeros((size, size))
    weight = np.zeros((size, size))
    root = np.zeros((size, size), np.int64)
    known = np.zeros((size, size), np.int8)
    for i in range(size):
        cost[i, i] = gap_chance[i]
        weight[i, i] = gap_chance[i]
        known[i, i] = 1
    _record_tree(hints, row, root, cost, weight, known)
    row += 1

    for span in range(1, size):
        for i in range(size - span):
            j = i + span
            cost[i, j] = 1e9
            weight[i, j] = weight[i, j - 1] + key_chance[j - 1] + gap_chance[j]
            for middle in range(i, j):
                candidate = cost[i, middle] + cost[middle + 1, j] + weight[i, j]
                if candidate < cost[i, j]:
                    cost[i, j] = candidate
                    root[i, j] = middle
            known[i, j] = 1
        _record_tree(hints, row, root, cost, weight, known)
        row += 1

    put_matrix(outputs[0][example], root)
    return row


def _matrices(drawn: Drawn) -> int:
    return drawn[0].shape[1] + 1


def _characters(drawn: Drawn) -> int:
    # A cell is final one sweep after its three neighbours are.
    return drawn[0].shape[1] + 1


DYNAMIC_PROGRAMMING = {
    "matrix_chain_order": Algorithm(uniform_keys, dimensions, matrix_chain_order, _matrices),
    "lcs_length": Algorithm(string_halves, two_strings, lcs_length, _characters, shortest=2),
    "optimal_bst": Algorithm(tree_probabilities, probabilities, optimal_bst, lambda drawn: drawn[1].shape[1]),
}
