"""What is shown of a sweep: one line for every run that is under way."""

import json
from pathlib import Path

import pytest

from relational_transformer.commands.terminal import sweeps as terminal
from relational_transformer.commands.terminal.sweeps import SweepDisplay
from relational_transformer.sweeps import Run
from relational_transformer.sweeps.engines import LocalEngine
from relational_transformer.sweeps.sweep import Event
from tests.sweeps.small import small_cell, small_runs


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return small_runs(tmp_path, *(small_cell(task) for task in ("bfs", "binary_search", "insertion_sort")))


@pytest.fixture
def display(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> SweepDisplay:
    """On a terminal, which looks whenever it is asked to."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LOOKS", 0.0)
    save(runs[2], 1)  # left by an earlier sweep
    return SweepDisplay(dict.fromkeys(runs, 1.0), LocalEngine(["cpu"], at_once=2))


def save(run: Run, parts: int) -> None:
    """What a run of four parts leaves behind after some of them."""
    run.folder.mkdir(parents=True, exist_ok=True)
    rows = [{"examples": 4 * part, "loss": [0.5, None], "validation": [0.25, 0.75]} for part in range(1, parts + 1)]
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def lines(display: SweepDisplay) -> list[tuple[str, float, str]]:
    display.update()
    _, *of_runs = display.progress.tasks  # the first is the whole sweep
    return [(line.description, line.completed, line.fields["status"]) for line in of_runs]


def test_a_run_has_a_line_while_it_is_under_way(runs: list[Run], display: SweepDisplay):
    first, second, _ = runs
    assert lines(display) == []
    save(first, 1)
    save(second, 3)
    status = "loss 0.500   validation 0.250 to 0.750"
    assert lines(display) == [(first.name, 0.25, status), (second.name, 0.75, status)]
    (second.folder / "result.json").write_text("{}")
    save(first, 2)
    assert lines(display) == [(first.name, 0.5, status)]


def test_a_run_that_has_failed_has_no_line_until_it_goes_on(runs: list[Run], display: SweepDisplay):
    first, *_ = runs
    save(first, 2)
    assert len(lines(display)) == 1
    display.report(Event(first, "failed", "no such luck"))
    assert lines(display) == []
    save(first, 3)
    assert len(lines(display)) == 1


def test_the_whole_sweep_has_a_bar_by_cost(runs: list[Run], display: SweepDisplay):
    save(runs[0], 4)
    display.update()
    whole, *_ = display.progress.tasks
    assert (whole.completed, whole.total) == (1.25, 3.0)
