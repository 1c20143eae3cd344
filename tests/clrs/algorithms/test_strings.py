"""String matching against Python's own find."""

import numpy as np
import pytest

from relational_transformer.clrs import sample


def strings(data, example):
    letters = "".join("ATCG"[k] for k in data.inputs["key"][example].argmax(axis=-1))
    size = int((data.inputs["string"][example] == 0).sum())
    return letters[:size], letters[size:]


@pytest.mark.parametrize("name", ["naive_string_matcher", "kmp_matcher"])
@pytest.mark.parametrize("length", [2, 7, 16, 40])
def test_match_is_the_first_occurrence(name, length):
    data = sample(name, 40, length, seed=17)
    for example in range(40):
        text, pattern = strings(data, example)
        assert len(text) == length
        assert len(pattern) == max(1, length // 4)
        assert data.outputs["match"][example].argmax() == text.find(pattern)


@pytest.mark.parametrize("name", ["naive_string_matcher", "kmp_matcher"])
def test_versions_count_length_differently_and_draw_the_same(name):
    old, new = sample(name, 6, 16, seed=18), sample(name, 6, 20, seed=18, version="2.0")
    assert old.num_nodes == new.num_nodes == 20
    assert old.digest() == new.digest()


def test_kmp_links_are_the_longest_borders():
    data = sample("kmp_matcher", 30, 40, seed=19)
    for example, length in enumerate(data.lengths):
        text, pattern = strings(data, example)
        links = data.hints["pi"][length - 1, example, len(text) :] - len(text)
        resets = data.hints["is_reset"][length - 1, example, len(text) :]
        for place in range(len(pattern)):
            head = pattern[: place + 1]
            border = max(size for size in range(place + 1) if head.endswith(head[:size]))
            assert (0 if resets[place] else links[place] + 1) == border


def test_every_start_is_tried_in_order():
    data = sample("naive_string_matcher", 10, 16, seed=20)
    for example, length in enumerate(data.lengths):
        start = data.hints["s"][:length, example].argmax(axis=-1)
        assert start[0] == 0
        assert np.isin(np.diff(start), (0, 1)).all()
