"""`rt look` as a user calls it."""

import webbrowser
from pathlib import Path

import pytest

from relational_transformer.commands.look import LookArguments, run
from tests.look.networks import read_page, save_run, untrained


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    pages: list[str] = []
    monkeypatch.setattr(webbrowser, "open", pages.append)
    return pages


def test_an_algorithm_is_explained_without_a_run(tmp_path: Path, monkeypatch, opened, capsys):
    monkeypatch.chdir(tmp_path)
    run(LookArguments(task="dijkstra", nodes=(6,)))
    page = tmp_path / "look-dijkstra.html"
    assert read_page(page.read_text()).facts["runs"] == []
    assert opened == [page.as_uri()]
    assert capsys.readouterr().out == "look-dijkstra.html: 0.1 MB, one file that loads nothing\n"


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path):
    folders = tuple(save_run(untrained("bfs"), tmp_path / where / "bfs") for where in ("long", "short"))
    run(LookArguments(runs=folders, nodes=(4,), out=tmp_path / "page.html", open=False))
    page = read_page((tmp_path / "page.html").read_text())
    assert [one["name"] for one in page.facts["runs"]] == ["long/bfs", "short/bfs"]


def test_two_runs_are_read_from_their_folders(tmp_path: Path, opened):
    folders = tuple(save_run(untrained("bfs", seed=seed), tmp_path / f"run-{seed}") for seed in (0, 1))
    run(LookArguments(runs=folders, nodes=(5,), out=tmp_path / "page.html", open=False))
    page = read_page((tmp_path / "page.html").read_text())
    assert [one["name"] for one in page.facts["runs"]] == ["run-0", "run-1"]
    assert opened == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "name a run, or an algorithm"),
        ({"task": "dijkstr"}, "Did you mean 'dijkstra'"),
        ({"task": "bfs", "nodes": (0,)}, "The number of nodes is 0; it must be at least 1"),
        ({"task": "bfs", "seed": -1}, "The seed is -1"),
        ({"runs": (Path("/no/such/run"),)}, "is not a run folder"),
        ({"runs": (Path("/no/such/run"),), "protocol": "paper"}, "--protocol has no effect with a run"),
        ({"task": "bfs", "trained_seed": 0}, "--trained-seed has no effect without a run"),
        ({"task": "bfs", "layers": (1,)}, "--layers has no effect without a run"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments, message: str, opened):
    with pytest.raises(ValueError, match=message):
        run(LookArguments(**arguments))
    assert opened == []


def test_a_run_of_another_kind_or_algorithm_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"task": "lobster"}')
    with pytest.raises(ValueError, match="is of 'lobster'; pages are made of the thirty algorithms"):
        run(LookArguments(runs=(tmp_path,)))
    folder = save_run(untrained("bfs"), tmp_path / "bfs")
    with pytest.raises(ValueError, match="bfs is a run of bfs, and the page is about dfs"):
        run(LookArguments(runs=(folder,), task="dfs", open=False))


def test_links_in_a_circle_are_no_run(tmp_path: Path):
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    with pytest.raises(ValueError, match="circle is not a run folder"):
        run(LookArguments(runs=(circle,)))
