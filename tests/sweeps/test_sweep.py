"""A sweep against an engine made of words."""

import os
import signal
from collections import deque
from pathlib import Path

import pytest

from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import Ended
from relational_transformer.sweeps.sweep import LOSSES
from tests.sweeps.small import small_cell, small_runs


class Scripted:
    """An engine that ends runs as the script of their task says; a task without a script is done at once."""

    slots = 1

    def __init__(self, **scripts: list[str]) -> None:
        self.scripts = {task: deque(script) for task, script in scripts.items()}
        self.queue: deque[Run] = deque()
        self.submitted: list[str] = []
        self.stopped = False

    def submit(self, run: Run) -> None:
        self.queue.append(run)
        self.submitted.append(run.config.task)

    def wait(self, seconds: float) -> list[Ended]:
        run = self.queue.popleft()
        script = self.scripts.get(run.config.task)
        what = script.popleft() if script else "done"
        if what == "interrupt":
            os.kill(os.getpid(), signal.SIGTERM)
        if what == "done":
            run.folder.mkdir(parents=True, exist_ok=True)
            (run.folder / "result.json").write_text("{}")
            return [Ended(run)]
        return [Ended(run, error=what, lost=what.startswith("lost"))]

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        pass


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return small_runs(tmp_path, small_cell("bfs"), small_cell("dfs"))


def carry_out(runs: list[Run], engine: Scripted):
    events = []
    outcome = sweep(runs, engine, report=lambda event: events.append((event.run.config.task, event.what)))
    return outcome, events


def test_every_run_is_done_once(runs: list[Run]):
    engine = Scripted()
    outcome, events = carry_out(runs, engine)
    assert (outcome.done, outcome.given_up) == (tuple(runs), {})
    assert events == [("bfs", "done"), ("dfs", "done")]


def test_what_has_its_result_is_not_run_again(runs: list[Run]):
    carry_out(runs, Scripted())
    engine = Scripted()
    outcome, events = carry_out(runs, engine)
    assert (outcome.done, engine.submitted, events) == (tuple(runs), [], [])


def test_a_run_that_fails_three_times_is_given_up_and_the_rest_goes_on(runs: list[Run]):
    outcome, events = carry_out(runs, Scripted(bfs=["first", "second", "third"]))
    assert outcome.done == (runs[1],)
    assert outcome.given_up == {runs[0]: ("first", "second", "third")}
    assert [what for task, what in events if task == "bfs"] == ["failed", "failed", "given up"]


def test_a_run_that_fails_twice_is_tried_a_third_time(runs: list[Run]):
    outcome, _ = carry_out(runs, Scripted(bfs=["first", "second", "done"]))
    assert outcome.given_up == {}


def test_lost_machines_are_not_held_against_a_run(runs: list[Run]):
    outcome, events = carry_out(runs, Scripted(bfs=["lost"] * 5 + ["first", "second", "done"]))
    assert outcome.given_up == {}
    assert events.count(("bfs", "lost")) == 5


def test_a_run_that_brings_down_one_machine_after_the_other_is_given_up(runs: list[Run]):
    outcome, _ = carry_out(runs, Scripted(bfs=["lost"] * LOSSES))
    assert outcome.given_up == {runs[0]: ("lost",)}


def test_sigterm_stops_the_engine(runs: list[Run]):
    engine, before = Scripted(bfs=["interrupt"]), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="the same command resumes there"):
        carry_out(runs, engine)
    assert engine.stopped
    assert signal.getsignal(signal.SIGTERM) == before
