"""String matching: where does a short string, hidden in a long one, first occur? Four characters.

Nodes are the characters of the long string, then those of the short one.
"""

from collections.abc import Callable

import numpy as np

from relational_transformer.clrs.algorithm import Algorithm, Drawn
from relational_transformer.clrs.algorithms.rows import put_chain, put_one
from relational_transformer.clrs.compiled import compiled
from relational_transformer.clrs.input_features import two_strings
from relational_transformer.clrs.samples.samplers import LONGEST_NEEDLE, haystack_and_needle, haystack_and_varied_needle


@compiled
def split_strings(drawn, example):
    """The two strings of an example."""
    characters = drawn[0][example]
    size = characters.size - drawn[1][example]
    return characters[:size], characters[size:]


@compiled
def naive_string_matcher(example, drawn, hints, outputs, row):
    """Naive string matching: try every start, character by character.

    Hints: `pred_h` the order within each string, `s` the start being tried, `i` and `j` the two characters compared.
    Output: `match`, the first start that fits.
    """
    pred_h, s_h, i_h, j_h = hints
    text, pattern = split_strings(drawn, example)
    match = text.size
    start = 0
    while start <= text.size - pattern.size and match == text.size:
        for j in range(pattern.size):
            put_chain(pred_h[row], 0, text.size)
            put_chain(pred_h[row], text.size, pattern.size)
            put_one(s_h[row], start)
            put_one(i_h[row], start + j)
            put_one(j_h[row], text.size + j)
            row += 1
            if text[start + j] != pattern[j]:
                break
            if j == pattern.size - 1:
                match = start
        start += 1
    put_one(outputs[0][example], match)
    return row


@compiled
def _record_match(hints, row, first, links, resets, k, k_reset, q, q_reset, s, i, phase):
    """`first` is the pattern's first node; places k and q in the pattern are shown as nodes."""
    pred_h, pi_h, is_reset_h, k_h, k_reset_h, q_h, q_reset_h, s_h, i_h, phase_h = hints
    put_chain(pred_h[row], 0, first)
    put_chain(pred_h[row], first, links.size)
    for node in range(first):
        pi_h[row, node] = node
        is_reset_h[row, node] = 0
    for place in range(links.size):
        pi_h[row, first + place] = first + links[place]
        is_reset_h[row, first + place] = resets[place]
    put_one(k_h[row], first + k)
    k_reset_h[row] = k_reset
    put_one(q_h[row], first + q)
    q_reset_h[row] = q_reset
    put_one(s_h[row], s)
    put_one(i_h[row], i)
    phase_h[row] = phase


@compiled
def kmp_matcher(example, drawn, hints, outputs, row):
    """Knuth-Morris-Pratt string matching (1977).

    First, for every place of the pattern, how much of its beginning ends there; then the text is read once. A place in
    the pattern can also be "before its beginning", which no node stands for: a reset flag says so.

    Hints: `pred_h` the order within each string, `pi` the links and `is_reset` where they lead before the beginning;
    `k` with `k_reset` the place while the links are made; `q` with `q_reset` the place while the text is read; `s`
    where a match would start, `i` the text's character, `phase` 0 making links, 1 reading.
    Output: `match`.
    """
    text, pattern = split_strings(drawn, example)
    size = pattern.size
    first = text.size
    links = np.arange(size)
    resets = np.zeros(size, np.int8)
    resets[0] = 1
    k, k_reset = 0, 1
    _record_match(hints, row, first, links, resets, 0, 1, min(1, size - 1), 1, 0, 0, 0)
    row += 1

    for q in range(1, size):
        while k_reset == 0 and pattern[k + 1] != pattern[q]:
            if resets[k] == 1:
                k, k_reset = 0, 1
            else:
                k = links[k]
            _record_match(hints, row, first, links, resets, k, k_reset, q, 1, 0, 0, 0)
            row += 1
        following = 0 if k_reset == 1 else k + 1
        if pattern[following] == pattern[q]:
            k, k_reset = following, 0
        elif k_reset == 1:
            resets[q] = 1
        links[q] = k
        _record_match(hints, row, first, links, resets, k, k_reset, q, 1, 0, 0, 0)
        row += 1

    match = text.size
    start = 0
    place, reset = 0, 1
    for i in range(text.size):
        if i >= size:
            start += 1
        _record_match(hints, row, first, links, resets, k, k_reset, place, reset, start, i, 1)
        row += 1
        while reset == 0 and pattern[place + 1] != text[i]:
            if resets[place] == 1:
                place, reset = 0, 1
            else:
                place = links[place]
            _record_match(hints, row, first, links, resets, k, k_reset, place, reset, start, i, 1)
            row += 1
        following = 0 if reset == 1 else place + 1
        if pattern[following] == text[i]:
            if following == size - 1:
                match = start
                break
            place, reset = following, 0

    put_one(outputs[0][example], match)
    return row


def _naive_steps(drawn: Drawn) -> int:
    characters, needle_sizes = drawn
    return int(((characters.shape[1] - needle_sizes) * needle_sizes).max())


def _kmp_steps(drawn: Drawn) -> int:
    # Every extra step moves a place back that an earlier step moved forward.
    return 1 + 2 * drawn[0].shape[1]


def _matcher(trace: Callable[..., int], longest: Callable[[Drawn], int]) -> Algorithm:
    return Algorithm(
        haystack_and_needle,
        two_strings,
        trace,
        longest,
        shortest=3,
        draw_varied=haystack_and_varied_needle,
        # Every needle has to fit into what it leaves of the haystack's places.
        shortest_varied=2 * LONGEST_NEEDLE + 1,
    )


STRINGS = {
    "naive_string_matcher": _matcher(naive_string_matcher, _naive_steps),
    "kmp_matcher": _matcher(kmp_matcher, _kmp_steps),
}
