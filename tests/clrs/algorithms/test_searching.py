"""Search against numpy: argmin, searchsorted, the key of rank N // 2."""

import numpy as np
import pytest

from relational_transformer.clrs import sample


@pytest.mark.parametrize("length", [1, 2, 16])
def test_minimum_is_argmin(length):
    data = sample("minimum", 30, length, seed=3)
    np.testing.assert_array_equal(data.outputs["min"].argmax(axis=1), data.inputs["key"].argmin(axis=1))


@pytest.mark.parametrize("length", [2, 5, 16])
def test_binary_search_finds_where_the_target_belongs(length):
    data = sample("binary_search", 200, length, seed=4)
    keys, target = data.inputs["key"], data.inputs["target"]
    assert (np.diff(keys, axis=1) >= 0).all()
    expected = [min(np.searchsorted(row, value), length - 1) for row, value in zip(keys, target, strict=True)]
    np.testing.assert_array_equal(data.outputs["return"].argmax(axis=1), expected)


def test_binary_search_halves_what_is_left():
    data = sample("binary_search", 50, 16, seed=4)
    gap = data.hints["high"].argmax(axis=-1) - data.hints["low"].argmax(axis=-1)
    assert (gap[1:] <= gap[:-1] // 2).all()


@pytest.mark.parametrize("length", [1, 2, 9, 16])
def test_quickselect_finds_the_median(length):
    data = sample("quickselect", 40, length, seed=5)
    expected = np.argsort(data.inputs["key"], axis=1)[:, length // 2]
    np.testing.assert_array_equal(data.outputs["median"].argmax(axis=1), expected)


def test_quickselect_shows_its_pivot_in_version_2_only():
    old, new = sample("quickselect", 8, 9, seed=6), sample("quickselect", 8, 9, seed=6, version="2.0")
    assert set(new.hints) - set(old.hints) == {"pivot"}
    for name, array in old.hints.items():
        np.testing.assert_array_equal(array, new.hints[name])
