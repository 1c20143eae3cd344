"""What runs cost, and how long they will take."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from relational_transformer.clrs import ALGORITHMS, sample
from relational_transformer.processors.settings import TUNED
from relational_transformer.sweeps import Part, Run, cells_of, find_experiment, plan
from relational_transformer.sweeps.cost import Speeds, flop, flop_of_step
from relational_transformer.sweeps.task_sizes import TASK_SIZES
from tests.sweeps.small import small_cell


def config_of(task: str, model: str = "rt", **part):
    (cell,) = cells_of(find_experiment("main"), Part(tasks=(task,), models=(model,), **part))
    return cell.config


def finish(run: Run, seconds: float) -> None:
    run.folder.mkdir(parents=True)
    (run.folder / "config.json").write_text(json.dumps(run.config.as_dict()))
    (run.folder / "result.json").write_text(json.dumps({"seconds": seconds - 1.0, "seconds_of_test": 1.0}))


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


def test_every_algorithm_has_its_size():
    assert set(TASK_SIZES) == set(ALGORITHMS)


def test_without_a_finished_run_nobody_knows_how_long(tmp_path: Path):
    (run,) = plan(tmp_path, [small_cell()], 20)
    assert Speeds([run]).seconds_left(run) is None


def test_what_is_left_takes_as_long_as_the_like_took(tmp_path: Path):
    cells = [small_cell(seeds=(0, 1)), small_cell(seeds=(2,)), small_cell(seeds=(3,))]
    done, half, new = plan(tmp_path, cells, 20)
    finish(done, seconds=100.0)
    half.folder.mkdir()
    (half.folder / "metrics.jsonl").write_text('{"examples": 4}\n{"examples": 8}\n')
    speeds = Speeds([done, half, new])
    assert speeds.seconds_left(done) == 0.0
    assert speeds.seconds_left(new) == pytest.approx(50.0)
    assert speeds.seconds_left(half) == pytest.approx(25.0)


def test_a_model_is_judged_by_its_own_speed_if_it_has_one(tmp_path: Path):
    kind, config = small_cell()
    cells = [(kind, replace(config, model=name, seeds=(seed,))) for name in ("slow", "fast") for seed in (0, 1)]
    runs = plan(tmp_path, [small_cell()._replace(config=config) for _, config in cells], seeds_together=1)
    slow, slow_next, fast, fast_next = runs
    finish(slow, seconds=90.0)
    finish(fast, seconds=10.0)
    speeds = Speeds(runs)
    assert speeds.seconds_left(slow_next) == pytest.approx(90.0)
    assert speeds.seconds_left(fast_next) == pytest.approx(10.0)
