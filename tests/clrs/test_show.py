"""A trace that a person can follow, and `rt data` around it."""

import pytest

from relational_transformer.clrs import ALGORITHMS
from relational_transformer.clrs.show import show_example

tyro = pytest.importorskip("tyro")
pytest.importorskip("rich")

from relational_transformer.commands.data import DataArguments, run  # noqa: E402


def test_insertion_sort_reads_like_insertion_sort():
    lines = list(show_example("insertion_sort", 3, seed=1))
    assert lines == [
        "Insertion Sort (sorting): 3 nodes, 3 steps, seed 1",
        "",
        "inputs",
        "  pos      0 0.333 0.667",
        "  key  0.417  0.72     0",
        "",
        "step 0",
        "  pred_h  1→0 2→1",
        "  i       node 0",
        "  j       node 0",
        "",
        "step 1",
        "  i       node 1",
        "  j       node 1",
        "",
        "step 2",
        "  pred_h  0→2 1→0",
        "  i       node 0",
        "  j       node 2",
        "",
        "outputs",
        "  pred  0→2 1→0",
    ]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_can_be_shown_to_its_last_step(name):
    lines = list(show_example(name, 5, seed=2))
    steps = int(lines[0].split(" step")[0].split()[-1])
    assert sum(line.startswith("step ") for line in lines) == steps
    assert lines[-2] == "outputs" or "outputs" in lines


def test_a_permutation_is_shown_as_pointers_the_first_at_the_last():
    lines = list(show_example("insertion_sort", 3, seed=1, protocol="modern"))
    keys = [float(key) for key in lines[4].split()[1:]]
    order = sorted(range(3), key=keys.__getitem__)
    pointers = {node: order[place - 1] for place, node in enumerate(order)}
    assert lines[-2:] == [
        "  pred       " + " ".join(f"{node}→{pointers[node]}" for node in range(3)),
        f"  pred_mask  node {order[0]}",
    ]


@pytest.mark.parametrize(("name", "words"), [("bfs", "8 nodes"), ("kmp_matcher", "20 nodes"), ("minimum", "pred ")])
def test_command_shows_the_modern_protocol(name, words, capsys):
    run(DataArguments(algorithms=(name,), show=True, protocol="modern"))
    assert words in capsys.readouterr().out


def test_command_makes_the_splits_that_a_protocol_has(tmp_path, capsys):
    run(DataArguments(algorithms=("bfs",), protocol="modern", cache=tmp_path, processes=1))
    capsys.readouterr()
    assert {path.name for path in (tmp_path / "clrs").iterdir()} == {
        "bfs-val-64-modern.clrs",
        "bfs-test-32-modern.clrs",
    }


def test_command_shows_a_trace(capsys):
    run(DataArguments(algorithms=("bfs",), show=True, length=4))
    output = capsys.readouterr().out
    assert output.startswith("BFS (graphs): 4 nodes")
    assert "reach_h" in output


def test_command_makes_data_and_prints_a_table(tmp_path, capsys):
    run(DataArguments(algorithms=("minimum",), splits=("train",), train_samples=7, cache=tmp_path, processes=1))
    output = capsys.readouterr().out
    assert "minimum" in output
    assert "16.0" in output
    assert [path.name for path in (tmp_path / "clrs").iterdir()] == ["minimum-train-7-v1.0.clrs"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"algorithms": ("belman_ford",)}, "Did you mean 'bellman_ford'"),
        ({"show": True}, "--show needs the name of an algorithm"),
        ({"algorithms": ("bfs",), "show": True, "length": 0}, "length for bfs is 0"),
        ({"algorithms": ("bfs",), "protocol": "modern", "splits": ("train",)}, "has no training set"),
        ({"algorithms": ("bfs",), "protocol": "modern", "version": "1.0"}, "features of version '2.0' alone"),
        ({"algorithms": ("bfs",), "processes": 0}, "number of processes is 0"),
        ({"algorithms": ("bfs",), "train_samples": -1}, "number of training examples is -1"),
    ],
)
def test_command_refuses_mistakes_in_a_sentence(arguments, words):
    with pytest.raises(ValueError, match=words):
        run(DataArguments(**arguments))


@pytest.mark.parametrize("line", [["--show", "bellman_ford"], ["bellman_ford", "--show"]])
def test_the_name_may_stand_before_or_after_the_flag(line):
    assert tyro.cli(DataArguments, args=line) == DataArguments(algorithms=("bellman_ford",), show=True)
