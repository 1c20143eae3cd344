"""The distributions that inputs are drawn from, one function each: (stream, count, length) -> arrays, batch first.

Examples are drawn one after the other, and every call continues the stream, so the first k of n examples do not
depend on n.
"""

import numpy as np

from relational_transformer.clrs.compiled import entry
from relational_transformer.clrs.input_features import CHARACTERS
from relational_transformer.clrs.samples.random import coin, fill_below, fill_bernoulli, fill_uniform, next_below

# The smallest |cross product| of three points that counts as a triangle.
COLLINEAR = 1e-12
DISK_RADIUS = 2.0
LONGEST_NEEDLE = 8


@entry
def _uniform(stream, values):
    fill_uniform(stream, values)


def _uniform_rows(stream: np.ndarray, count: int, size: int) -> np.ndarray:
    values = np.empty((count, size))
    _uniform(stream, values.reshape(-1))
    return values


def uniform_keys(stream, count, length):
    """Keys U[0, 1]."""
    return (_uniform_rows(stream, count, length),)


def signed_keys(stream, count, length):
    """Keys U[-1, 1]."""
    return (-1.0 + 2.0 * _uniform_rows(stream, count, length),)


def sorted_keys_and_target(stream, count, length):
    """Keys U[0, 1] in ascending order, and a target U[0, 1]."""
    values = _uniform_rows(stream, count, length + 1)
    return np.sort(values[:, :length], axis=1), values[:, length].copy()


def tree_probabilities(stream, count, length):
    """Probabilities of `length` keys and length + 1 gaps: U[0, 1] each, divided by their sum."""
    values = _uniform_rows(stream, count, 2 * length + 1)
    values /= np.sum(values, axis=1, keepdims=True)
    return values[:, :length].copy(), values[:, length:].copy()


def activity_intervals(stream, count, length):
    """Two times U[0, 1] an activity: the earlier is its start, the later its finish."""
    times = _uniform_rows(stream, count, 2 * length).reshape(count, 2, length)
    return times.min(axis=1), times.max(axis=1)


@entry
def _fill_tasks(stream, deadlines, worths):
    for example in range(len(deadlines)):
        fill_below(stream, deadlines.shape[1], deadlines[example])
        fill_uniform(stream, worths[example])
    deadlines += 1


def deadlines_and_worths(stream, count, length):
    """Deadlines 1 .. length, all equally likely, and worths U[0, 1]."""
    deadlines, worths = np.empty((count, length), np.int64), np.empty((count, length))
    _fill_tasks(stream, deadlines, worths)
    return deadlines, worths


@entry
def _fill_characters(stream, characters):
    fill_below(stream, CHARACTERS, characters)


def string_halves(stream, count, length):
    """Two random strings over four characters, one after the other, and the size of the second; of an odd length the
    first has the larger half."""
    characters = np.empty((count, length), np.int64)
    _fill_characters(stream, characters.reshape(-1))
    return characters, np.full(count, length // 2)


@entry
def _fill_matches(stream, characters, needle_sizes, longest):
    for example in range(len(characters)):
        if longest > 0:
            needle_sizes[example] = 1 + next_below(stream, longest)
        needle_size = needle_sizes[example]
        size = characters.shape[1] - needle_size
        haystack, needle = characters[example, :size], characters[example, size:]
        fill_below(stream, CHARACTERS, needle)
        fill_below(stream, CHARACTERS, haystack)
        place = next_below(stream, size - needle_size)
        for k in range(needle_size):
            haystack[place + k] = needle[k]


def haystack_and_needle(stream, count, length):
    """A random string over four characters with a shorter one hidden in it, which follows it, and the size of the
    shorter one: a fifth of `length`, which counts both."""
    characters, needle_sizes = np.empty((count, length), np.int64), np.full(count, max(1, length // 5))
    _fill_matches(stream, characters, needle_sizes, 0)
    return characters, needle_sizes


def haystack_and_varied_needle(stream, count, length):
    """Like `haystack_and_needle`, the size of the needle being drawn first: 1 .. 8, all equally likely."""
    characters, needle_sizes = np.empty((count, length), np.int64), np.empty(count, np.int64)
    _fill_matches(stream, characters, needle_sizes, LONGEST_NEEDLE)
    return characters, needle_sizes


@entry
def _fill_segments(stream, fair_coin, x, y):
    meet = np.empty(1, np.int64)
    for example in range(len(x)):
        a, b = x[example], y[example]
        fill_bernoulli(stream, fair_coin, meet)
        while True:
            fill_uniform(stream, a)
            fill_uniform(stream, b)
            # Counter-clockwise tests of the triangles (0, 2, 3), (1, 2, 3), (0, 1, 2) and (0, 1, 3).
            left_0 = (b[3] - b[0]) * (a[2] - a[0]) > (b[2] - b[0]) * (a[3] - a[0])
            left_1 = (b[3] - b[1]) * (a[2] - a[1]) > (b[2] - b[1]) * (a[3] - a[1])
            left_2 = (b[2] - b[0]) * (a[1] - a[0]) > (b[1] - b[0]) * (a[2] - a[0])
            left_3 = (b[3] - b[0]) * (a[1] - a[0]) > (b[1] - b[0]) * (a[3] - a[0])
            if (left_0 != left_1 and left_2 != left_3) == (meet[0] == 1):
                break


def two_segments(stream, count, length):
    """End points of the segments 0-1 and 2-3, U[0, 1] squared; whether they meet is decided first, by a fair coin.
    There are always four nodes.
    """
    x, y = np.empty((count, 4)), np.empty((count, 4))
    _fill_segments(stream, coin(0.5), x, y)
    return x, y


@entry
def _has_collinear_points(x, y, found):
    for example in range(len(x)):
        a, b = x[example], y[example]
        for i in range(a.size):
            for j in range(i + 1, a.size):
                for k in range(j + 1, a.size):
                    cross = (a[j] - a[i]) * (b[k] - b[i]) - (b[j] - b[i]) * (a[k] - a[i])
                    if abs(cross) < COLLINEAR:
                        found[example] = True


def disk_points(stream, count, length):
    """Points uniform on a disk of radius 2, no three of them on a line: a set with such a triple is drawn again."""
    x, y = np.empty((0, length)), np.empty((0, length))
    while len(x) < count:
        draws = _uniform_rows(stream, count - len(x), 2 * length).reshape(-1, 2, length)
        # 0 + 2 pi u and 0 + u, as numpy's uniform(low, high) computes them; sine and cosine are numpy's, too.
        angles = 2.0 * np.pi * draws[:, 0]
        distances = DISK_RADIUS * np.sqrt(draws[:, 1])
        new_x, new_y = distances * np.cos(angles), distances * np.sin(angles)
        bad = np.zeros(len(new_x), np.bool_)
        _has_collinear_points(new_x, new_y, bad)
        x, y = np.concatenate([x, new_x[~bad]]), np.concatenate([y, new_y[~bad]])
    return x, y
