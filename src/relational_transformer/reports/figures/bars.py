"""Bar charts of our numbers, with marks at the paper's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..results.estimate import Estimate
from .drawing import Drawing, width_of

WIDTH, LEFT, RIGHT, TOP = 390, 140, 58, 34
BAR, GAP = 13, 9


@dataclass(frozen=True)
class Bar:
    """One bar. A `strong` one is drawn in the colour that catches the eye; `absent` is said where ours is None."""

    label: str
    ours: Estimate | None
    paper: Estimate | None
    strong: bool = False
    absent: str = "missing"


@dataclass(frozen=True)
class Group:
    """Bars that belong together, under one label."""

    label: str
    bars: tuple[Bar, ...]


def draw_bars(title: str, groups: Sequence[Group], top: float = 100.0, decimals: int = 1) -> Drawing:
    """Horizontal bars from 0 to `top`: ours with a whisker of one deviation, the paper's as a mark with a whisker."""
    height = TOP + sum(len(group.bars) * BAR + GAP for group in groups) + 18
    drawing = Drawing(title, WIDTH, height)
    absent = [bar.absent for group in groups for bar in group.bars if bar.ours is None]
    right = max([RIGHT, *(8 + width_of(text) for text in absent)])
    scale = (WIDTH - LEFT - right) / top
    _axis(drawing, top, scale, height)
    _legend(drawing, groups)
    y = TOP + 4.0
    for group in groups:
        middle = y + len(group.bars) * BAR / 2
        drawing.text(LEFT - 8, middle + 4, group.label, "end small")
        for bar in group.bars:
            _bar(drawing, bar, y, scale, WIDTH - right, decimals)
            y += BAR
        y += GAP
    return drawing


def nice_top(values: Sequence[float]) -> float:
    """The end of an axis that holds these values: 1, 2 or 5 times a power of ten.

    >>> nice_top([0.45, 0.22]), nice_top([34.0, 29.0])
    (0.5, 50.0)
    """
    largest = max(values, default=1.0)
    steps = (factor * 10.0**power for power in range(-3, 9) for factor in (1, 2, 5))
    return next(round(step, 6) for step in steps if step >= largest)


def _bar(drawing: Drawing, bar: Bar, y: float, scale: float, end: float, decimals: int) -> None:
    middle = y + (BAR - 2) / 2
    if bar.ours is None:
        if bar.paper is not None:
            drawing.box(LEFT, y + 0.5, bar.paper.mean * scale, BAR - 3, "absent")
        drawing.text(end + 6, middle + 4, bar.absent, "soft small")
    else:
        drawing.box(LEFT, y, bar.ours.mean * scale, BAR - 2, "strong" if bar.strong else "weak")
        drawing.text(end + 6, middle + 4, f"{bar.ours.mean:.{decimals}f}", "bold" if bar.strong else "")
        _whisker(drawing, bar.ours, middle, scale, end, "spread")
    if bar.paper is not None:
        _whisker(drawing, bar.paper, middle, scale, end, "paper-spread")
        drawing.line(LEFT + bar.paper.mean * scale, y - 1, LEFT + bar.paper.mean * scale, y + BAR - 1, "paper")


def _whisker(drawing: Drawing, estimate: Estimate, y: float, scale: float, end: float, kind: str) -> None:
    if estimate.deviation is None:
        return
    low, high = max(estimate.mean - estimate.deviation, 0), estimate.mean + estimate.deviation
    drawing.line(LEFT + low * scale, y, min(LEFT + high * scale, end + 3), y, kind)


def _axis(drawing: Drawing, top: float, scale: float, height: float) -> None:
    for step in range(5):
        value = top * step / 4
        x = LEFT + value * scale
        drawing.line(x, TOP, x, height - 16, "grid")
        drawing.text(x, height - 3, f"{value:g}", "soft small middle")


def _legend(drawing: Drawing, groups: Sequence[Group]) -> None:
    """Colours of the columns where a group has several bars, and the paper's mark."""
    x = LEFT
    if any(len(group.bars) > 1 for group in groups):
        for bar in groups[0].bars:
            drawing.box(x, 8, 10, 10, "strong" if bar.strong else "weak")
            drawing.text(x + 14, 17, bar.label, "small")
            x += 24 + width_of(bar.label)
    else:
        drawing.box(x, 8, 10, 10, "strong")
        drawing.box(x + 11, 8, 10, 10, "weak")
        drawing.text(x + 25, 17, "ours", "small")
        x += 60
    drawing.line(x + 2, 6, x + 2, 20, "paper")
    drawing.text(x + 8, 17, "paper", "small")
