"""Training blocks: the same whatever the workers, new with every number, to be taken up anywhere."""

import threading
from itertools import islice

import numpy as np
import pytest

from relational_transformer.clrs import sample, training_block, training_blocks
from relational_transformer.clrs.samples import blocks as module


def digests(block):
    return [data.digest() for data in block.sizes]


def taken(blocks, count):
    """The first blocks of a stream, which is closed then."""
    found = list(islice(blocks, count))
    blocks.close()
    return found


def make(seeds=(3,), updates=10, **options):
    return training_blocks("bfs", seeds, updates=updates, batch_size=2, **options)


def test_the_number_of_workers_does_not_show():
    expected = [digests(block) for block in taken(make(workers=0), 6)]
    for workers in (1, 3):
        assert [digests(block) for block in taken(make(workers=workers), 6)] == expected


@pytest.mark.parametrize("name", ["insertion_sort", "kmp_matcher"])
def test_a_run_goes_on_after_any_number_of_blocks_with_the_same_bits(name):
    whole = [digests(block) for block in taken(training_blocks(name, [1, 2], updates=5, batch_size=3), 6)]
    for stopped in range(6):
        rest = taken(training_blocks(name, [1, 2], first_block=stopped, updates=5, batch_size=3), 6 - stopped)
        assert [block.number for block in rest] == list(range(stopped, 6))
        assert [digests(block) for block in rest] == whole[stopped:]


def test_a_block_can_be_made_alone():
    assert digests(training_block("bfs", [3], 4, updates=10, batch_size=2)) == digests(taken(make(), 5)[4])


def test_a_seeds_examples_do_not_depend_on_the_other_seeds():
    together = training_block("dfs", [1, 2, 3], 7, updates=10, batch_size=2)
    for place, seed in enumerate((1, 2, 3)):
        alone = training_block("dfs", [seed], 7, updates=10, batch_size=2)
        for ours, all_of_them in zip(alone.sizes, together.sizes, strict=True):
            assert all_of_them.select(slice(4 * place, 4 * place + 4)).digest() == ours.digest()


def test_blocks_sizes_and_seeds_are_all_different():
    blocks = [training_block("minimum", [seed], number, updates=5) for seed in (1, 2) for number in range(3)]
    lengths = [training_block("minimum", [1], 0, updates=2, lengths=(9, 9))]
    found = [digest for block in blocks + lengths for digest in digests(block)]
    assert len(set(found)) == len(found)


def test_examples_are_those_of_sample():
    block = training_block("quicksort", [5], 6, updates=10, batch_size=2)
    for turn, length in enumerate((4, 7, 11, 13, 16)):
        (seed,) = np.random.SeedSequence((5, 6, turn)).generate_state(1)
        assert block.sizes[turn].digest() == sample("quicksort", 4, length, int(seed), protocol="modern").digest()


def test_sizes_take_turns_and_every_example_has_its_update():
    block = training_block("bfs", [1, 2], 0, updates=10, batch_size=3)
    seen = [set() for _ in block.sizes]
    for update in range(block.updates):
        turn, examples = block.batch(update)
        assert turn == update % 5
        assert examples.shape == (2, 3)
        for seed, of_seed in enumerate(examples):
            assert all(seed * 6 <= example < seed * 6 + 6 for example in of_seed)
        seen[turn].update(examples.flatten().tolist())
    assert seen == [set(range(12))] * 5
    with pytest.raises(ValueError, match=r"update is 10; the block has 0 \.\. 9"):
        block.batch(10)


def test_strings_have_one_size_alone():
    block = training_block("kmp_matcher", [1], 0, updates=7, batch_size=2)
    assert [data.num_nodes for data in block.sizes] == [20]
    assert (block.updates, len(block.sizes[0])) == (7, 14)
    assert block.batch(6)[0] == 0


def test_blocks_are_made_while_another_is_used(monkeypatch):
    """The third block is complete before anything asks for the second."""
    made, enough = [], threading.Event()
    make_turn = module._turn

    def counted(request, number, turn):
        data = make_turn(request, number, turn)
        made.append(number)
        if made.count(2) == 5:
            enough.set()
        return data

    monkeypatch.setattr(module, "_turn", counted)
    blocks = make(workers=1)
    assert next(blocks).number == 0
    assert enough.wait(600)
    blocks.close()


def test_a_closed_stream_leaves_no_thread():
    before = set(threading.enumerate())
    blocks = make(workers=2)
    next(blocks)
    begun = set(threading.enumerate()) - before
    assert begun
    blocks.close()
    assert not any(thread.is_alive() for thread in begun)


def test_what_goes_wrong_in_a_thread_is_raised_where_the_block_is_asked_for(monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(module, "_turn", fail)
    with pytest.raises(MemoryError, match="no room"):
        next(make())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "bsf"}, "Did you mean 'bfs'"),
        ({"seeds": ()}, "at least one seed"),
        ({"seeds": (-1,)}, "seed is -1"),
        ({"updates": 7}, "number of updates is 7; 5 sizes take turns"),
        ({"updates": 0}, "number of updates is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"lengths": ()}, "one length"),
        ({"lengths": (4, 0), "updates": 2}, "length for bfs is 0"),
        ({"name": "kmp_matcher", "lengths": (16,)}, "at least 17"),
        ({"first_block": -1}, "first_block is -1"),
        ({"workers": -1}, "number of workers is -1"),
    ],
)
def test_impossible_streams_are_refused_at_once(wrong, words):
    with pytest.raises(ValueError, match=words):
        training_blocks(**{"name": "bfs", "seeds": (1,), **wrong})
