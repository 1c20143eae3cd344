"""Learning curves: validation scores of all seeds against the examples they have seen."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relational_transformer.runs.run_folder import RunFolder

from ..results.measured import Measured, unit_of
from .drawing import PALETTE, Drawing, width_of

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 390, 220, 32, 8, 40, 28
ROW = 13
"""From one row of keys to the next."""
POINTS = 120
"""A curve has no more; the eye could not tell."""


@dataclass(frozen=True)
class Curve:
    """Mean, lowest and highest validation score of the seeds, in the paper's unit, by the number of examples."""

    examples: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def read_curve(result: Measured) -> Curve | None:
    """The curve of a result, from the `metrics.jsonl` beside it; None if there is no such file."""
    scores: dict[int, list[float]] = defaultdict(list)
    unit = unit_of(result.task)
    for run in result.runs:
        folder = RunFolder(run.folder)
        told = folder.read_result() if os.path.lexists(folder.metrics) else None
        for row in folder.read_metrics_of(told) if told else ():
            scores[row["examples"]] += [unit(score) for score in row["validation"] if score is not None]
    there = _thinned([(examples, values) for examples, values in sorted(scores.items()) if values])
    if not there:
        return None
    return Curve(
        examples=tuple(examples for examples, _ in there),
        mean=tuple(sum(values) / len(values) for _, values in there),
        low=tuple(min(values) for _, values in there),
        high=tuple(max(values) for _, values in there),
    )


def draw_curves(
    title: str, curves: Mapping[str, Curve], colors: Mapping[str, int], top: float = 100.0, seen: str = "examples"
) -> Drawing:
    """A line for each model, the mean over its seeds, from 0 to `top`, with a band from the worst seed to the best."""
    keys = _places_of_keys(list(curves))
    shift = keys[-1][1]  # how far further rows of keys push down what is below them
    drawing = Drawing(title, WIDTH, HEIGHT + shift)
    last = max(curve.examples[-1] for curve in curves.values())
    _axes(drawing, top, f"{last:,} {seen}", shift)
    for (model, curve), (key, row) in zip(curves.items(), keys, strict=True):
        color = f"c{colors[model] % PALETTE}"
        across = [LEFT + examples / last * (WIDTH - LEFT - RIGHT) for examples in curve.examples]
        around = [*zip(across, curve.high, strict=True), *zip(across[::-1], curve.low[::-1], strict=True)]
        drawing.area([(x, shift + _y(score, top)) for x, score in around], f"area band {color}")
        mean = zip(across, curve.mean, strict=True)
        drawing.curve([(x, shift + _y(score, top)) for x, score in mean], f"curve {color}")
        drawing.box(key, 22 + row, 10, 4, f"area {color}")
        drawing.text(key + 14, 28 + row, model, "small")
    return drawing


def _places_of_keys(models: Sequence[str]) -> list[tuple[float, float]]:
    """Where the key of each model stands: how far to the right, and how far below the first row."""
    places, x, y = [], float(LEFT), 0.0
    for model in models:
        if x > LEFT and x + 14 + width_of(model) > WIDTH:
            x, y = float(LEFT), y + ROW
        places.append((x, y))
        x += 26 + width_of(model)
    return places


def _axes(drawing: Drawing, top: float, end: str, shift: float) -> None:
    drawing.text(0, 12, drawing.title, "bold")
    for step in range(5):
        value = top * step / 4
        y = shift + _y(value, top)
        drawing.line(LEFT, y, WIDTH - RIGHT, y, "grid")
        drawing.text(LEFT - 6, y + 4, f"{value:g}", "soft small end")
    drawing.text(LEFT, drawing.height - 8, "0", "soft small middle")
    drawing.text(WIDTH - RIGHT, drawing.height - 8, end, "soft small end")


def _y(value: float, top: float) -> float:
    """What is above the top is drawn at the top."""
    return TOP + (1 - min(value / top, 1.0)) * (HEIGHT - TOP - BOTTOM)


def _thinned(points: Sequence[tuple[int, list[float]]]) -> list[tuple[int, list[float]]]:
    step = -(-len(points) // POINTS)
    return [*points[: -1 : max(step, 1)], *points[-1:]]
