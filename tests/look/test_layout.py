"""Where the nodes of a graph are drawn."""

import numpy as np
import pytest

from relational_transformer.look.layout import place_nodes


def adjacent(size: int, *pairs: tuple[int, int]) -> np.ndarray:
    matrix = np.zeros((size, size), dtype=bool)
    for source, target in pairs:
        matrix[source, target] = True
    return matrix


def test_a_path_lies_across_in_its_order():
    places = place_nodes(adjacent(5, (0, 1), (1, 2), (2, 3), (3, 4)))
    np.testing.assert_allclose(places[:, 0], [0, 0.25, 0.5, 0.75, 1], atol=0.02)
    np.testing.assert_allclose(places[:, 1], places[::-1, 1], atol=1e-6)


def test_a_crowded_graph_is_a_ring():
    places = place_nodes(np.ones((8, 8), dtype=bool))
    np.testing.assert_allclose(np.linalg.norm(places - 0.5, axis=1), 0.5)
    assert len(np.unique(places.round(6), axis=0)) == 8


@pytest.mark.parametrize("seed", range(5))
def test_nodes_are_inside_the_unit_square_apart_from_each_other_and_the_first_is_on_the_left(seed: int):
    matrix = np.random.default_rng(seed).random((9, 9)) < 0.12
    matrix[0, 1] = True
    places = place_nodes(matrix)
    assert places.min() >= 0
    assert places.max() <= 1
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)[~np.eye(9, dtype=bool)]
    assert gaps.min() > 0.02
    linked = (matrix | matrix.T).any(1)
    assert places[0, 0] <= places[linked, 0].mean() + 0.01


@pytest.mark.parametrize("seed", range(5))
def test_nodes_that_have_no_room_are_pushed_apart(seed: int):
    matrix = np.random.default_rng(seed).random((16, 16)) < 0.1
    matrix[np.arange(15), np.arange(1, 16)] = True  # one graph
    places = place_nodes(matrix)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)[~np.eye(16, dtype=bool)]
    assert gaps.min() > 0.14  # of 0.15


def test_nodes_without_an_edge_stand_below_the_others():
    places = place_nodes(adjacent(6, (0, 2), (2, 3), (3, 5)))
    assert places[[1, 4], 1].min() > places[[0, 2, 3, 5], 1].max()
