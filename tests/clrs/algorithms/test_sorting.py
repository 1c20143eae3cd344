"""Sorted means sorted: predecessor pointers against numpy's argsort."""

import numpy as np
import pytest

from relational_transformer.clrs import CLASSES, AlgorithmClass, sample


def predecessors(order):
    """Pointers from every element of an order to the one before it; the first to itself."""
    pointers = np.empty_like(order)
    pointers[order[0]] = order[0]
    pointers[order[1:]] = order[:-1]
    return pointers


@pytest.mark.parametrize("name", CLASSES[AlgorithmClass.SORTING])
@pytest.mark.parametrize("length", [2, 3, 16])
def test_output_points_from_every_key_to_the_next_smaller_one(name, length):
    data = sample(name, 20, length, seed=11)
    for keys, pred in zip(data.inputs["key"], data.outputs["pred"], strict=True):
        np.testing.assert_array_equal(pred, predecessors(np.argsort(keys)))


@pytest.mark.parametrize("name", CLASSES[AlgorithmClass.SORTING])
def test_every_step_shows_an_order_of_all_keys(name):
    data = sample(name, 5, 8, seed=12)
    for example, length in enumerate(data.lengths):
        for pointers in data.hints["pred_h"][:length, example]:
            followers = np.bincount(pointers[pointers != np.arange(8)], minlength=8)
            assert (pointers == np.arange(8)).sum() == 1
            assert followers.max() <= 1


def test_bubble_sort_looks_at_every_pair_once():
    data = sample("bubble_sort", 3, 10, seed=1)
    np.testing.assert_array_equal(data.lengths, 1 + 10 * 9 // 2)


def test_heap_is_a_heap_when_its_building_is_over():
    data = sample("heapsort", 10, 12, seed=2)
    for example, length in enumerate(data.lengths):
        phase = data.hints["phase"][:length, example].argmax(axis=-1)
        built = np.flatnonzero(phase == 0)[-1]
        keys, parent = data.inputs["key"][example], data.hints["parent"][built, example]
        assert (keys[parent] >= keys).all()
