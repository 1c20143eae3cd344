"""Tables of dynamic programming against recursion over all possibilities."""

from functools import cache

import numpy as np
import pytest

from relational_transformer.clrs import sample

MATCH, UP, LEFT = 0, 1, 2


def test_matrix_chain_is_split_where_it_costs_least():
    data = sample("matrix_chain_order", 10, 8, seed=10)
    for example, sizes in enumerate(data.inputs["p"].astype(np.float64)):

        @cache
        def best(i, j, sizes=sizes):
            if i == j:
                return 0.0
            return min(best(i, k) + best(k + 1, j) + sizes[i - 1] * sizes[k] * sizes[j] for k in range(i, j))

        splits = data.outputs["s"][example]
        for i in range(1, 8):
            for j in range(i + 1, 8):
                k = splits[i, j]
                cost = best(i, k) + best(k + 1, j) + sizes[i - 1] * sizes[k] * sizes[j]
                assert cost == pytest.approx(best(i, j), rel=1e-6)
                assert data.hints["m"][data.lengths[example] - 1, example, i, j] == pytest.approx(best(i, j), rel=1e-6)


@pytest.mark.parametrize("length", [2, 5, 12])
def test_moves_lead_along_a_longest_common_subsequence(length):
    data = sample("lcs_length", 15, length, seed=11)
    first = length - length // 2
    for example in range(15):
        letters = data.inputs["key"][example].argmax(axis=-1)
        x, y = letters[:first], letters[first:]

        @cache
        def longest(i, j, x=x, y=y):
            if i < 0 or j < 0:
                return 0
            if x[i] == y[j]:
                return longest(i - 1, j - 1) + 1
            return max(longest(i - 1, j), longest(i, j - 1))

        moves = data.outputs["b"][example, :first, first:].argmax(axis=-1)
        i, j, found = first - 1, length - first - 1, 0
        while i >= 0 and j >= 0:
            move = moves[i, j]
            found += move == MATCH
            i, j = i - (move in (MATCH, UP)), j - (move in (MATCH, LEFT))
        assert found == longest(first - 1, length - first - 1)
        lengths = data.hints["c"][data.lengths[example] - 1, example, :first, first:]
        assert lengths[-1, -1] == found


def test_cells_within_a_string_have_no_meaning():
    moves = sample("lcs_length", 3, 8, seed=1).outputs["b"]
    assert (moves[:, :4, 4:] >= 0).all()
    assert (moves[:, :4, :4, 3] == -1).all()
    assert (moves[:, 4:, :, 3] == -1).all()


def test_tree_roots_have_the_least_expected_cost():
    data = sample("optimal_bst", 8, 7, seed=12)
    assert data.num_nodes == 8
    for example in range(8):
        p, q = data.inputs["p"][example].astype(np.float64), data.inputs["q"][example].astype(np.float64)
        assert p.sum() + q.sum() == pytest.approx(1, rel=1e-6)
        assert p[-1] == 0

        @cache
        def best(i, j, p=p, q=q):
            if i == j:
                return q[i]
            weight = p[i:j].sum() + q[i : j + 1].sum()
            return min(best(i, r) + best(r + 1, j) + weight for r in range(i, j))

        root = data.outputs["root"][example]
        for i in range(8):
            for j in range(i + 1, 8):
                r = root[i, j]
                cost = best(i, r) + best(r + 1, j) + p[i:j].sum() + q[i : j + 1].sum()
                assert cost == pytest.approx(best(i, j), rel=1e-6)
