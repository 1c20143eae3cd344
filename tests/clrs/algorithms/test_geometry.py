"""Hulls against scipy, crossings against a parametric solution."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from relational_transformer.clrs import sample


@pytest.mark.parametrize("name", ["graham_scan", "jarvis_march"])
@pytest.mark.parametrize("length", [4, 16])
def test_hull_is_scipys(name, length):
    data = sample(name, 20, length, seed=13)
    points = np.stack([data.inputs["x"], data.inputs["y"]], axis=-1).astype(np.float64)
    for cloud, in_hull in zip(points, data.outputs["in_hull"], strict=True):
        np.testing.assert_array_equal(np.flatnonzero(in_hull), sorted(ConvexHull(cloud).vertices))


@pytest.mark.parametrize("name", ["graham_scan", "jarvis_march"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_few_points_are_all_in_the_hull(name, length):
    assert sample(name, 5, length, seed=1).outputs["in_hull"].all()


def test_points_lie_on_a_disk_of_radius_two():
    data = sample("graham_scan", 100, 16, seed=14)
    distance = np.hypot(data.inputs["x"], data.inputs["y"])
    assert distance.max() <= 2
    assert (distance > np.sqrt(2)).mean() == pytest.approx(0.5, abs=0.05)  # half of the disk's area


def test_segments_meet_where_the_lines_cross_within_both():
    data = sample("segments_intersect", 300, 16, seed=15)
    assert data.num_nodes == 4
    x, y = data.inputs["x"].astype(np.float64), data.inputs["y"].astype(np.float64)
    for a, b, meet in zip(x, y, data.outputs["intersect"], strict=True):
        matrix = np.array([[a[1] - a[0], a[2] - a[3]], [b[1] - b[0], b[2] - b[3]]])
        along = np.linalg.solve(matrix, [a[2] - a[0], b[2] - b[0]])
        assert ((along >= 0) & (along <= 1)).all() == meet


def test_half_of_the_segments_meet():
    assert sample("segments_intersect", 2000, 16, seed=16).outputs["intersect"].mean() == pytest.approx(0.5, abs=0.04)
