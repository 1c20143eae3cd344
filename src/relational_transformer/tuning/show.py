"""A search in the terminal: its best run sets, the neighbourhood of the best, and whether it has converged."""

from collections.abc import Iterator, Mapping
from typing import Any

from optuna.trial import TrialState
from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from .analysis import Search
from .grid import Configuration
from .run_sets import RunSet


def show(search: Search, console: Console, title: str, paper: Mapping[str, Any] | None = None, rows: int = 10) -> None:
    """Print the state of a search. `paper` is the paper's configuration, for comparison."""
    console.print(f"[bold]{escape(title)}[/bold]: {describe_trials(search)}", soft_wrap=True)
    if search.best is not None:
        best = search.configuration(search.best)
        console.print(
            Group(best_table(search, best, paper), ranking_table(search, best, rows), steps_table(search, best))
        )
    console.print(describe_convergence(search), soft_wrap=True)


def describe_trials(search: Search) -> str:
    """The numbers of trials of each state, and of configurations, in words."""
    trials = search.trials
    lost = trials[TrialState.FAIL] + trials[TrialState.PRUNED]
    return (
        f"{search.runs} runs of {len(search.ranking)} configurations, "
        f"{trials[TrialState.RUNNING]} under way, {lost} failed and not counted"
    )


def describe_convergence(search: Search) -> str:
    if search.converged:
        return "[green]Converged[/green]: every neighbour of the best has been tried, and it has stayed the best."
    return f"[yellow]Not converged[/yellow]: {'; '.join(search.missing)}."


def best_table(search: Search, best: Configuration, paper: Mapping[str, Any] | None) -> RenderableType:
    table = Table(title="Best configuration", box=box.SIMPLE, title_justify="left")
    table.add_column("hyperparameter")
    table.add_column("best", style="bold")
    if paper:
        table.add_column("paper")
    table.add_column("values considered", style="dim")
    for name, values in search.grid.items():
        considered = " ".join(map(format_value, values))
        table.add_row(name, format_value(best[name]), *([format_value(paper[name])] if paper else []), considered)
    return table


def ranking_table(search: Search, best: Configuration, rows: int) -> RenderableType:
    """The best run sets, described by how they differ from the best."""
    table = Table(title=f"Best {min(rows, len(search.ranking))} run sets", box=box.SIMPLE, title_justify="left")
    for heading in ("mean", "± standard error", "runs"):
        table.add_column(heading, justify="right")
    table.add_column("differs from the best in")
    for run_set in search.ranking[:rows]:
        changes = [f"{name}={format_value(value)}" for name, value in differences(search.configuration(run_set), best)]
        table.add_row(*format_scores(run_set), ", ".join(changes) or "the best")
    return table


def steps_table(search: Search, best: Configuration) -> RenderableType:
    """All steps from the best configuration with their runs. A step without runs is unexplored."""
    table = Table(title="One step from the best", box=box.SIMPLE, title_justify="left")
    table.add_column("step")
    for heading in ("mean", "± standard error", "runs"):
        table.add_column(heading, justify="right")
    for place in search.neighbourhood[1:]:
        ((name, value),) = differences(search.configuration(place), best)
        cells = format_scores(search.run_sets[place]) if place in search.run_sets else ("unexplored", "", "0")
        table.add_row(f"{name} {format_value(best[name])} → {format_value(value)}", *cells)
    return table


def differences(configuration: Configuration, best: Configuration) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in configuration.items() if value != best[name])


def format_scores(run_set: RunSet) -> tuple[str, str, str]:
    error = run_set.standard_error
    return f"{run_set.mean:.4f}", "" if error is None else f"{error:.4f}", str(run_set.count)


def format_value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
