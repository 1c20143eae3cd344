"""The output of `rt reproduce`: the plan, the progress of the sweep, and its outcome."""

import time
from collections.abc import Mapping, Sequence
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import Engine, EngineOptions, open_engine
from relational_transformer.sweeps.run import name_seeds
from relational_transformer.sweeps.speeds import Speeds
from relational_transformer.sweeps.sweep import Event, Outcome

from .training import range_of

Order = Literal["cost", "given"]
"""The order in which runs begin."""

SECONDS_BETWEEN_LOOKS = 5.0
"""Seconds between two looks into the folders of all runs."""


def show_plan(title: str, runs: Sequence[Run], speeds: Speeds) -> None:
    """Print the runs, their cost and the time left."""
    console = Console()
    with console.status("Counting the operations of every run"):
        lines = plan_lines(title, runs, speeds)
    console.print("\n".join(lines), soft_wrap=True, highlight=False)


def plan_lines(title: str, runs: Sequence[Run], speeds: Speeds) -> list[str]:
    """The lines of a plan: a heading, a line for each run, and the total."""
    rows = [("task", "model", "seeds", "done", "PFLOP", "time left", "folder")]
    rows += [
        (
            run.config.task,
            run.config.model,
            name_seeds(run.config.seeds).partition(" ")[2],
            f"{run.share_done:.0%}",
            format_petaflop(run.flop),
            format_duration(speeds.seconds_left(run)),
            str(run.folder),
        )
        for run in runs
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [title]
    for row in rows:
        words = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        figures = [cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:-1], strict=True)]
        lines.append("   ".join([*words, *figures, row[-1]]))
    return [*lines, describe_plan(runs, speeds)]


def describe_plan(runs: Sequence[Run], speeds: Speeds) -> str:
    """The total of a plan, in words."""
    if not runs:
        return "There is nothing to train."
    total, left = sum(run.flop for run in runs), sum(run.flop * (1 - run.share_done) for run in runs)
    done = sum(run.is_done for run in runs)
    begun = sum(run.is_begun and not run.is_done for run in runs)
    counts = f"{len(runs)} runs: {done} done, {begun} begun, {len(runs) - done - begun} not yet."
    cost = f"{format_petaflop(total)} PFLOP of matrix products in all, {format_petaflop(left)} left."
    times = [speeds.seconds_left(run) for run in runs]
    known = [seconds for seconds in times if seconds is not None]
    if len(known) < len(times):
        return f"{counts} {cost} The time left is known when the first run has ended."
    return (
        f"{counts} {cost} About {format_duration(sum(known))} left in one slot, at the speed of the runs that are done."
    )


class SweepDisplay:
    """A progress bar for the whole sweep, by cost, one for every run under way, and a line for every event. Only the
    lines where there is no terminal."""

    def __init__(self, costs: Mapping[Run, float], engine: Engine) -> None:
        """`costs` has the operations of every run of the table, including those that are done."""
        self.runs, self.costs, self.engine = list(costs), costs, engine
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=40),
            TextColumn("{task.percentage:.1f}%   {task.fields[status]}"),
            console=self.console,
            transient=True,
        )
        self.total = sum(costs.values())
        self.bar = self.progress.add_task("sweep", total=self.total, status="")
        self.bars: dict[Run, TaskID] = {}
        self.looked = 0.0
        self.shares_before = {run: run.share_done for run in self.runs}
        self.made_before = self._made(self.shares_before)
        self.started = time.monotonic()

    def __enter__(self) -> "SweepDisplay":
        waiting = sum(not run.is_done for run in self.runs)
        self._say(f"{waiting} of {len(self.runs)} runs to train, up to {self.engine.slots} at a time")
        if self.console.is_terminal:
            self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self.progress.stop()

    def report(self, event: Event) -> None:
        """Print a line for an event of a run."""
        done = sum(run.is_done for run in self.runs)
        self._drop(event.run)
        self.shares_before[event.run] = event.run.share_done  # it is under way again once its share has grown
        words = scores_of(event.run) if event.what == "done" else event.detail
        detail = f": {words}" if words else ""
        self._say(f"[{done}/{len(self.runs)}] {event.what}: {event.run.name}{detail}")

    def update(self) -> None:
        """Update the bars, if the last look is long enough ago."""
        if time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS or not self.console.is_terminal:
            return
        shares = {run: run.share_done for run in self.runs}
        for run, share in shares.items():
            self._show(run, share)
        made = self._made(shares)
        speed = (made - self.made_before) / (time.monotonic() - self.started)
        left = (self.total - made) / speed if speed > 0 else None
        done = sum(run.is_done for run in self.runs)
        status = f"{done} of {len(self.runs)} runs done   {format_duration(left)} left"
        self.progress.update(self.bar, completed=made, status=status)
        self.looked = time.monotonic()

    def conclude(self, outcome: Outcome) -> None:
        """Print the runs that were given up."""
        for run, errors in outcome.given_up.items():
            self._say(f"given up after {len(errors)} failures: {run.name} in {run.folder}: {errors[-1]}")

    def _show(self, run: Run, share: float) -> None:
        """Show the bar of a run that has made progress since its last event and has not ended."""
        if share >= 1.0 or share <= self.shares_before[run]:
            self._drop(run)
            return
        if run not in self.bars:
            self.bars[run] = self.progress.add_task(run.name, total=1.0, status="")
        self.progress.update(self.bars[run], completed=share, status=last_scores(run))

    def _drop(self, run: Run) -> None:
        if run in self.bars:
            self.progress.remove_task(self.bars.pop(run))

    def _made(self, shares: Mapping[Run, float]) -> float:
        return sum(cost * shares[run] for run, cost in self.costs.items())

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def last_scores(run: Run) -> str:
    """The range of the losses and of the validation scores of a run's seeds at its last checkpoint."""
    last = RunFolder(run.folder).read_last_metrics()
    if last is None:
        return ""
    known = {name: [value for value in last[name] if value is not None] for name in ("loss", "validation")}
    return f"loss {range_of(known['loss'], '.3f')}   validation {range_of(known['validation'], '.3f')}"


def scores_of(run: Run) -> str:
    """The test score of each seed of a run that has its result, and the time that it took."""
    result = RunFolder(run.folder).read_result()
    if result is None:
        return ""
    shown = [run.task.shown(row["test"]) if row["test"] is not None else "failed" for row in result["seeds"]]
    return f"test {', '.join(shown)} in {format_duration(result['seconds'])}"


def format_petaflop(operations: float) -> str:
    """A number of operations in units of 10^15, with three digits or more.

    >>> format_petaflop(2.4231e15), format_petaflop(132_123.4e15)
    ('2.42', '132,123')
    """
    return f"{operations / 1e15:,.0f}" if operations >= 1e17 else f"{operations / 1e15:.3g}"


def format_duration(seconds: float | None) -> str:
    """A duration in hours and minutes; in minutes and seconds if it is below an hour.

    >>> format_duration(59.6), format_duration(7_380), format_duration(None)
    ('1:00 min', '2:03 h', '?')
    """
    if seconds is None:
        return "?"
    if round(seconds) < 3600:
        return f"{round(seconds) // 60}:{round(seconds) % 60:02d} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,}:{minutes % 60:02d} h"


def carry_out(runs: list[Run], where: EngineOptions, order: Order = "cost") -> Outcome:
    """Train all runs without a result, and print what happens."""
    if all(run.is_done for run in runs):
        return Outcome(tuple(runs), {})
    engine = open_engine(where)
    try:
        with Console(stderr=True).status("Counting the operations of every run"):
            costs = {run: run.flop for run in runs}
        if order == "cost":
            # One run at a time: cheap ones first, for early results. Several at a time: costly ones first, because the
            # last run to end decides when the sweep ends.
            runs = sorted(runs, key=costs.__getitem__, reverse=engine.slots > 1)
        with SweepDisplay(costs, engine) as display:
            outcome = sweep(runs, engine, report=display.report, tick=display.update)
    finally:
        engine.close()
    display.conclude(outcome)
    return outcome
