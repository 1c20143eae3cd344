"""numpy's legacy `RandomState` stream, word for word, inside compiled code.

The benchmark is defined by that stream: every example begins where the previous one stopped drawing. `open_stream`
copies the state of a `RandomState`. The functions below draw the same numbers as the methods of `RandomState` with
similar names, and leave the stream in the same state.

A stream is an int64 array [1249]: the 624 words of the Mersenne Twister (Matsumoto and Nishimura, 1998), the same words
tempered (what is handed out), and the position of the next one.
"""

import math

import numpy as np

from relational_transformer.clrs.compiled import compiled, entry

WORDS = 624
SHIFT = 397
POSITION = 2 * WORDS


def open_stream(seed: int) -> np.ndarray:
    """The stream of `numpy.random.RandomState(seed)`."""
    _, words, position, _, _ = np.random.RandomState(seed).get_state(legacy=True)
    stream = np.empty(POSITION + 1, np.int64)
    stream[:WORDS] = words
    stream[POSITION] = position
    _start(stream)
    return stream


@compiled
def _temper(stream):
    for k in range(WORDS):
        word = stream[k]
        word ^= word >> 11
        word ^= (word << 7) & 0x9D2C5680
        word ^= (word << 15) & 0xEFC60000
        stream[WORDS + k] = word ^ (word >> 18)


@entry
def _start(stream):
    _temper(stream)


@compiled
def _twist(upper, lower, far):
    word = (upper & 0x80000000) | (lower & 0x7FFFFFFF)
    return far ^ (word >> 1) ^ ((word & 1) * 0x9908B0DF)


@compiled
def _refill(stream):
    # Three loops instead of one with wrapped indices: each of them compiles to vector instructions.
    for k in range(WORDS - SHIFT):
        stream[k] = _twist(stream[k], stream[k + 1], stream[k + SHIFT])
    for k in range(WORDS - SHIFT, WORDS - 1):
        stream[k] = _twist(stream[k], stream[k + 1], stream[k + SHIFT - WORDS])
    stream[WORDS - 1] = _twist(stream[WORDS - 1], stream[0], stream[SHIFT - 1])
    _temper(stream)
    stream[POSITION] = 0


@compiled
def _next_word(stream):
    """The next word: 32 random bits."""
    if stream[POSITION] == WORDS:
        _refill(stream)
    word = stream[WORDS + stream[POSITION]]
    stream[POSITION] += 1
    return word


@compiled
def _fill_words(stream, words):
    """Fill a flat int64 array with the next words: much faster than one by one."""
    filled = 0
    while filled < words.size:
        if stream[POSITION] == WORDS:
            _refill(stream)
        first = WORDS + stream[POSITION]
        taken = min(words.size - filled, POSITION - first)
        for k in range(taken):
            words[filled + k] = stream[first + k]
        stream[POSITION] += taken
        filled += taken


@compiled
def fill_uniform(stream, values):
    """Fill a flat float64 array with U[0, 1): 53 random bits each, from two words."""
    words = np.empty(2 * values.size, np.int64)
    _fill_words(stream, words)
    for k in range(values.size):
        values[k] = ((words[2 * k] >> 5) * 67108864.0 + (words[2 * k + 1] >> 6)) / 9007199254740992.0


@compiled
def next_below(stream, bound):
    """A whole number 0 .. bound - 1: a masked word; words that are too large are dropped."""
    largest = bound - 1
    if largest == 0:  # numpy draws nothing when there is nothing to choose
        return largest
    mask = largest
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> shift
    while True:
        number = _next_word(stream) & mask
        if number <= largest:
            return number


@compiled
def fill_below(stream, bound, values):
    """Fill a flat integer array with whole numbers 0 .. bound - 1."""
    for k in range(values.size):
        values[k] = next_below(stream, bound)


def coin(chance: float) -> np.ndarray:
    """The numbers of `fill_bernoulli` for a probability `chance`: the two thresholds of numpy's inversion, and
    whether a coin of probability 1 - `chance` is thrown instead, as numpy does above 1/2. All are rounded as numpy
    rounds them."""
    flipped = chance > 0.5
    rarer = 1.0 - chance if flipped else chance
    none = math.exp(math.log(1.0 - rarer))
    return np.array([none, rarer * none / (1.0 - rarer), flipped])


@compiled
def fill_bernoulli(stream, coin, values):
    """Fill a flat array with binomial draws of one trial, by inversion; `coin` is `coin(chance)`.

    The thresholds are rounded, so a draw very near 1 can pass both outcomes; numpy drops it, and so does this.
    """
    none, most, flipped = coin[0], coin[1], coin[2] == 1.0
    draws = np.empty(values.size, np.float64)
    filled = 0
    while filled < values.size:
        wanted = draws[: values.size - filled]
        fill_uniform(stream, wanted)
        for draw in wanted:
            if draw - none <= most:
                values[filled] = (draw > none) != flipped
                filled += 1


@entry
def _whole_numbers(stream, bound, values):
    fill_below(stream, bound, values)


def whole_numbers(stream: np.ndarray, bound: int, count: int) -> np.ndarray:
    """`count` whole numbers 0 .. bound - 1."""
    values = np.empty(count, np.int64)
    _whole_numbers(stream, bound, values)
    return values


@compiled
def shuffle(stream, values):
    """Shuffle a flat array in place (Fisher and Yates, from the end)."""
    for k in range(values.size - 1, 0, -1):
        other = next_below(stream, k + 1)
        values[k], values[other] = values[other], values[k]
