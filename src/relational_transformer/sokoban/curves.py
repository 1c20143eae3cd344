"""Learning curves of agents: the seeds of one run, or several runs for comparison."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relational_transformer.runs.curves import two_panels

Rows = list[dict[str, Any]]


def draw_curves(path: Path, title: str, metrics: Rows, seeds: Rows) -> None:
    """Draw reward and share of solved games of every seed against steps played, with test scores at the best steps."""
    _draw(path, title, [(f"C{number % 10}", None, metrics, number, seed) for number, seed in enumerate(seeds)])


def draw_comparison(path: Path, title: str, runs: Mapping[str, tuple[Rows, Rows]]) -> None:
    """Draw these curves of several runs, given by name with metrics and seeds. All seeds of a run have one colour."""
    _draw(
        path,
        title,
        [
            (f"C{color % 10}", None if number else name, metrics, number, seed)
            for color, (name, (metrics, seeds)) in enumerate(runs.items())
            for number, seed in enumerate(seeds)
        ],
    )


def _draw(path: Path, title: str, lines: list[tuple[str, str | None, Rows, int, dict[str, Any]]]) -> None:
    """A line for each colour, label, metrics, number among the seeds of its run, and row of the result."""
    best = 0.0
    with two_panels(path, title) as (left, right):
        from matplotlib.ticker import EngFormatter, MaxNLocator

        for color, label, metrics, number, seed in lines:
            steps = [row["examples"] for row in metrics]
            shares = [row["validation"][number] for row in metrics]
            solved = [math.nan if share is None else 100 * share for share in shares]
            left.plot(steps, [row["reward"][number] for row in metrics], color=color, linewidth=0.8, label=label)
            right.plot(steps, solved, color=color, linewidth=0.8)
            if seed["test"] is not None:
                tested = seed.get("examples_of_best") or steps[-1]
                right.plot(tested, 100 * seed["test"], marker="o", color=color, markersize=5, clip_on=False)
            best = max([best, 100 * (seed["test"] or 0), *(100 * share for share in shares if share is not None)])
        left.set(title="reward per step", xlabel="steps per seed")
        top = 101 if best > 50 else 1.1 * max(best, 1)
        right.set(title="games solved, and test levels (dots)", xlabel="steps per seed", ylabel="%", ylim=(0, top))
        if any(label is not None for _, label, *_ in lines):
            left.legend(frameon=False)
        for axes in (left, right):
            axes.xaxis.set_major_locator(MaxNLocator(6))
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 200k, 1M
