"""Chunks of a split: one shape, in order of length, every example scored once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.reasoning.build import build_network
from relational_transformer.training.data import Split, load_split
from relational_transformer.training.evaluation import cut_by_length
from tests.training.small import SETTINGS

LENGTHS = np.array([5, 1, 9, 2, 5, 3, 9, 4, 2, 6, 5])


@pytest.fixture
def split() -> Split:
    """Eleven examples; the first input of each is its number."""
    network = build_network("bfs", SETTINGS)
    split = load_split(network, sample("bfs", len(LENGTHS), 4, 0), torch.device("cpu"))
    split.inputs["node_scalar"][:, 0, 0] = torch.arange(float(len(LENGTHS)))
    return replace(split, lengths=torch.from_numpy(LENGTHS), host_lengths=LENGTHS)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6, 10, 11, 50])
def test_parts_are_of_one_size_and_score_every_example_once(split: Split, most: int):
    chunks = cut_by_length(split, 2, most)
    sizes = {chunk.counted.shape for chunk in chunks}
    assert len(sizes) == 1
    assert sizes.pop()[1] <= most
    numbers = torch.cat([chunk.inputs["node_scalar"][:, :, 0, 0][chunk.counted].view(2, -1) for chunk in chunks], dim=1)
    assert numbers.sort(dim=1).values.tolist() == [list(range(len(LENGTHS)))] * 2
    assert all(chunk.counted.any() for chunk in chunks)


def test_a_part_makes_the_steps_of_its_longest_example(split: Split):
    chunks = cut_by_length(split, 1, 3)  # lengths 1 1 2, 2 3 4, 5 5 5, 6 9 9: the first is there twice
    assert [chunk.num_steps for chunk in chunks] == [1, 3, 4, 8]
    assert [keeps[0].tolist() for keeps in chunks[1].keeps_output] == [
        [True, True, True],
        [False, True, True],
        [False, False, True],
    ]


def test_outputs_are_kept_at_the_first_step_whatever_the_length(split: Split):
    first, *_ = cut_by_length(split, 1, 3)
    assert first.keeps_output[0].all()
    assert first.counted.tolist() == [[False, True, True]]
