"""What runs on CLRS-30 tasks cost."""

import pytest

from relational_transformer.clrs import ALGORITHMS, sample
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.task_sizes import MODERN_HINTS, TASK_SIZES
from relational_transformer.processors.settings import TUNED, find_settings
from relational_transformer.sweeps import Selection, cells_of, find_experiment
from relational_transformer.training import task as cost
from relational_transformer.training.task import flop, flop_of_step


def config_of(task: str, model: str = "rt", **selection):
    (cell,) = cells_of(find_experiment("main"), Selection(tasks=(task,), models=(model,), **selection))
    return cell.config


def test_a_step_of_rt_is_its_products_counted_by_hand():
    """192 channels, 16 nodes: the input layer reads 3 x 192 (features, hidden, globals)."""
    d, nodes, edges, hidden = 192, 16, 256, (16, 8)
    edge_input = 2 * d * (2 * d)  # the globals' part is computed once a graph
    attention = 2 * 2 * d * d  # queries and keys of an edge
    update = 2 * d * (2 * hidden[0]) + 2 * hidden[0] * d + 2 * 2 * hidden[1] * d
    by_hand = edges * (edge_input + 3 * (attention + update))
    counted = flop_of_step("bellman_ford", TUNED["rt"])
    node_sized = nodes * 3 * 2 * d * d * 16  # generous: projections of nodes, decoders, scores
    assert by_hand < counted < by_hand + node_sized


def test_cost_grows_with_seeds_examples_and_the_length_of_trajectories():
    base = flop(config_of("bfs", seeds=1, examples=3_200))
    assert flop(config_of("bfs", seeds=4, examples=3_200)) == pytest.approx(4 * base)
    assert flop(config_of("bfs", seeds=1, examples=32_000)) == pytest.approx(
        10 * base, rel=0.1
    )  # the test is no longer
    assert flop(config_of("bubble_sort", seeds=1)) > 20 * flop(config_of("bfs", seeds=1))


def test_many_examples_to_validate_on_cost_too():
    """Find Max. Subarray validates on 1,024 examples, Insertion Sort, with trajectories as long, on 32."""
    assert flop(config_of("find_maximum_subarray_kadane")) > 1.8 * flop(config_of("insertion_sort"))


@pytest.mark.parametrize("task", ["bfs", "bellman_ford", "insertion_sort", "optimal_bst", "segments_intersect"])
def test_the_sizes_of_tasks_are_those_of_the_data(task: str):
    train, test = sample(task, 1000, 16, seed=1), sample(task, 32, 64, seed=3)
    measured = (train.num_nodes, train.lengths.mean(), test.num_nodes, test.lengths.mean())
    assert TASK_SIZES[task] == pytest.approx(measured, abs=0.01)


@pytest.mark.parametrize("task", ["bfs", "bellman_ford", "naive_string_matcher", "optimal_bst"])
def test_the_hints_of_the_modern_protocol_are_those_of_its_data(task: str):
    samples = [sample(task, 1000, length, 0, protocol="modern") for length in training_lengths(task)]
    assert MODERN_HINTS[task] == pytest.approx([found.lengths.mean() for found in samples], abs=0.01)


def test_every_algorithm_has_its_size():
    assert set(TASK_SIZES) == set(MODERN_HINTS) == set(ALGORITHMS)
    assert all(len(hints) == len(training_lengths(task)) for task, hints in MODERN_HINTS.items())


def test_the_cost_of_a_table_is_known_without_making_examples(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("an example was made")

    monkeypatch.setattr(cost, "sample", refuse)
    assert all(flop(cell.config) > 0 for cell in cells_of(find_experiment("modern"), Selection(tasks=("bfs", "dfs"))))


def test_a_run_by_the_modern_protocol_costs_what_its_sizes_do():
    """Most of its examples have fewer nodes and fewer steps than the paper's; it validates less often on more."""
    paper, modern = (flop(config_of("insertion_sort", seeds=1, protocol=name)) for name in ("paper", "modern"))
    edges = sum((nodes - 1) * nodes**2 for nodes in (4, 7, 11, 13, 16)) / 5 / (15 * 16**2)
    assert modern < paper
    step = flop_of_step("insertion_sort", find_settings("rt", modern=True), "modern")
    assert modern == pytest.approx(step * 15 * (3 * 320_000 * edges + 50 * 64 + 32 * 63 / 15 * 16), rel=0.02)


def test_examples_that_have_four_nodes_at_every_length_cost_the_same():
    few, many = (
        config_of("segments_intersect", seeds=1, examples=examples, protocol="modern") for examples in (12_800, 25_600)
    )
    validated = 64 * 64 * 2 * 4  # twice a part, four steps
    step = flop_of_step("segments_intersect", few.settings, "modern")
    assert flop(many) - flop(few) == pytest.approx(step * (3 * 12_800 * 4 + validated), rel=1e-6)
