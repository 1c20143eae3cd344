import numpy as np
import pytest
import torch

from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import draw, length_buckets, load_split, make_split
from tests.training.small import SETTINGS


def test_a_draw_depends_on_its_seed_and_part_alone():
    together = draw((3, 5), 7, 10, 4, 1000, 6, 0.5)
    alone = draw((5,), 7, 10, 4, 1000, 6, 0.5)
    assert np.array_equal(together.index[:, 1], alone.index[:, 0])
    assert np.array_equal(together.teacher_forced[:, :, 1], alone.teacher_forced[:, :, 0])
    assert not np.array_equal(together.index[:, 0], together.index[:, 1])
    assert not np.array_equal(draw((5,), 8, 10, 4, 1000, 6, 0.5).index, alone.index)


def test_examples_are_drawn_evenly_with_replacement_and_forced_half_the_time():
    drawn = draw((0,), 0, 5000, 4, 10, 6, 0.5)
    counts = np.bincount(drawn.index.flatten(), minlength=10)
    assert len(counts) == 10
    assert abs(counts - 2000).max() < 250  # six standard deviations
    assert abs(drawn.teacher_forced.mean() - 0.5) < 0.01


def test_buckets_cover_every_length():
    lengths = np.array([3, 4, 4, 5, 9, 17, 30])
    buckets = length_buckets(lengths, 12)
    assert max(buckets) == 30
    assert len(buckets) <= 6


def test_gathered_batches_hold_the_examples_asked_for():
    trajectories = sample("bellman_ford", 9, 5, 1)
    network = build_network("bellman_ford", SETTINGS)
    split = load_split(network, trajectories, torch.device("cpu"))
    index = torch.tensor([[8, 0], [3, 3], [1, 2]])
    batch = split.gather(index, 3)
    assert batch.lengths.tolist() == trajectories.lengths[index.numpy()].tolist()
    for seed in range(3):
        for slot in range(2):
            example = int(index[seed, slot])
            expected = trajectories.inputs["A"][example]
            assert np.array_equal(batch.inputs["edge_scalar"][seed, slot, ..., 0].numpy(), expected)
            hint = trajectories.hints["pi_h"][:3, example]
            assert np.array_equal(batch.hints["node_pointer"][:, seed, slot, ..., 0].numpy(), hint)


def test_splits_follow_the_protocol():
    protocol = Protocol(train_examples=7, evaluation_examples=2, minimum_evaluation_examples=5, test_nodes=9)
    assert len(make_split("bfs", "train", protocol)) == 7
    assert len(make_split("bfs", "val", protocol)) == 5
    assert len(make_split("minimum", "val", protocol)) == 128
    assert make_split("bfs", "test", protocol).num_nodes == 9
    assert make_split("bfs", "test", protocol).digest() == sample("bfs", 5, 9, 3).digest()


def test_impossible_protocols_are_named():
    with pytest.raises(ValueError, match="validation-interval must be at least 1, got 0"):
        Protocol(validation_interval=0)
    with pytest.raises(ValueError, match="teacher-forcing must be at most 1"):
        Protocol(teacher_forcing=1.5)
