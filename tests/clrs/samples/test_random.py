"""The compiled stream draws what numpy's RandomState draws, and stops where it stops."""

import numpy as np
import pytest

from relational_transformer.clrs.compiled import entry
from relational_transformer.clrs.samples import random


@entry
def uniform(stream, values):
    random.fill_uniform(stream, values)


@entry
def below(stream, bound, values):
    random.fill_below(stream, bound, values)


@entry
def bernoulli(stream, coin, values):
    random.fill_bernoulli(stream, coin, values)


@entry
def shuffle(stream, values):
    random.shuffle(stream, values)


@pytest.fixture(params=[0, 1, 20_221, 2**32 - 1])
def streams(request):
    return np.random.RandomState(request.param), random.open_stream(request.param)


def assert_same_state(numpy_stream, stream):
    _, words, position, *_ = numpy_stream.get_state()
    np.testing.assert_array_equal(stream[: random.WORDS], words)
    assert stream[random.POSITION] == position


def test_uniform_draws_are_numpys(streams):
    numpy_stream, stream = streams
    values = np.empty(1001)
    uniform(stream, values)
    np.testing.assert_array_equal(values, numpy_stream.random_sample(1001))
    assert_same_state(numpy_stream, stream)


@pytest.mark.parametrize("bound", [1, 2, 3, 4, 7, 16, 20, 64, 1000])
def test_whole_numbers_are_numpys_and_one_choice_costs_nothing(streams, bound):
    numpy_stream, stream = streams
    values = np.empty(700, np.int64)
    below(stream, bound, values)
    np.testing.assert_array_equal(values, numpy_stream.randint(0, high=bound, size=700))
    assert_same_state(numpy_stream, stream)


@pytest.mark.parametrize("chance", [0.01, 0.05, 0.2, *(0.1 + 0.1 * k for k in range(9))])
def test_coin_flips_are_numpys_binomials(streams, chance):
    numpy_stream, stream = streams
    values = np.empty(20_000, np.int8)
    bernoulli(stream, random.coin(chance), values)
    np.testing.assert_array_equal(values, numpy_stream.binomial(1, chance, size=20_000))
    assert_same_state(numpy_stream, stream)


@pytest.mark.parametrize("bound", [1, 9, 2048])
def test_whole_numbers_asked_for_in_python_are_numpys_choices(streams, bound):
    numpy_stream, stream = streams
    chosen = random.whole_numbers(stream, bound, 50)
    np.testing.assert_array_equal(chosen, numpy_stream.choice(bound, (50,), replace=True))
    assert_same_state(numpy_stream, stream)


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_shuffles_are_numpys_permutations(streams, size):
    numpy_stream, stream = streams
    values = np.arange(size)
    shuffle(stream, values)
    np.testing.assert_array_equal(values, numpy_stream.permutation(size))
    assert_same_state(numpy_stream, stream)
