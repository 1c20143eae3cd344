import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from relational_transformer.pyg import SizeBucketSampler


def draw_sizes(count: int = 500) -> list[int]:
    return torch.randint(5, 61, (count,)).tolist()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("count", [0, 1, 96, 100])
def test_every_graph_is_in_one_batch(shuffle: bool, count: int):
    sampler = SizeBucketSampler(draw_sizes(count), 8, shuffle=shuffle, bucket_size=3)
    batches = list(sampler)
    assert sorted(number for batch in batches for number in batch) == list(range(count))
    assert len(batches) == len(sampler)


def test_the_last_graphs_are_left_out_where_they_fill_no_batch():
    sampler = SizeBucketSampler(draw_sizes(100), 8, drop_last=True, bucket_size=3)
    assert [len(batch) for batch in sampler] == [8] * 12
    assert len(sampler) == 12


def test_padding_is_less_than_a_fifth_where_plain_batches_more_than_double_the_pairs():
    sizes = torch.tensor(draw_sizes(2000))

    def computed(batches: list[list[int]]) -> float:
        return sum(len(batch) * int(sizes[batch].max()) ** 2 for batch in batches) / int(sizes.square().sum())

    plain = torch.randperm(2000).split(32)
    assert computed([batch.tolist() for batch in plain]) > 2
    assert computed(list(SizeBucketSampler(sizes.tolist(), 32))) < 1.2


def test_the_order_follows_from_seed_and_epoch():
    def orders(seed: int) -> list[list[list[int]]]:
        sampler, found = SizeBucketSampler(sizes, 8, seed=seed), []
        for epoch in range(3):
            sampler.set_epoch(epoch)
            found.append(list(sampler))
        return found

    sizes = draw_sizes()
    first, again, other = orders(0), orders(0), orders(1)
    assert first == again
    assert first[0] != first[1] != first[2] != first[0]
    assert all(ours != theirs for ours in first for theirs in other)


def test_an_epoch_is_the_same_until_another_is_set():
    sampler = SizeBucketSampler(draw_sizes(), 8)
    assert list(sampler) == list(sampler)


def test_batches_of_one_epoch_come_in_no_order_of_size():
    sizes = draw_sizes()
    means = [sum(sizes[number] for number in batch) / len(batch) for batch in SizeBucketSampler(sizes, 8)]
    assert means not in (sorted(means), sorted(means, reverse=True))


def test_with_the_loader_of_pyg():
    graphs = [Data(x=torch.zeros(size, 1), edge_index=torch.empty(2, 0, dtype=torch.long)) for size in (2, 9, 3, 8)]
    sampler = SizeBucketSampler([graph.num_nodes for graph in graphs], 2)
    sizes = [batch.batch.bincount().tolist() for batch in DataLoader(graphs, batch_sampler=sampler)]
    assert sorted(map(sorted, sizes)) == [[2, 3], [8, 9]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [[1, 2]]}, "sizes must be the number of nodes of each graph"),
        ({"sizes": ["a"]}, "sizes must be the number of nodes of each graph"),
        ({"sizes": [1.5]}, "sizes must be the number of nodes of each graph"),
        ({"sizes": torch.ones(2, dtype=torch.long).to_sparse()}, "sizes must be the number of nodes of each graph"),
        ({"sizes": torch.ones(2, dtype=torch.long, device="meta")}, "sizes must be the number of nodes of each graph"),
        ({"sizes": [3, -1]}, "sizes must be 0 or more, got -1"),
        ({"batch_size": 0}, "batch_size must be a positive integer"),
        ({"seed": -1}, "seed must be an integer from 0"),
    ],
)
def test_wrong_settings_are_named(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        SizeBucketSampler(**{"sizes": [1, 2], "batch_size": 2, **changes})


def test_a_wrong_epoch_is_named():
    with pytest.raises(ValueError, match="epoch must be an integer from 0"):
        SizeBucketSampler([1], 1).set_epoch(0.5)  # pyright: ignore[reportArgumentType]
