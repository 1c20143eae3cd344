"""Histograms of the scores of single runs: five bins for each model, as in the paper's figures of variance."""

from collections.abc import Mapping, Sequence

from .drawing import Drawing

EDGES = (0, 20, 40, 60, 80, 100)
WIDTH, PANEL, GAP, HEIGHT, PER_ROW = 390, 112, 21, 132, 3


def draw_histograms(title: str, scores: Mapping[str, Sequence[float]], strong: str = "RT") -> Drawing:
    """A panel for each model: the share of its runs, in percent, whose test scores fall into each bin."""
    rows = -(-len(scores) // PER_ROW)
    drawing = Drawing(title, WIDTH, rows * HEIGHT)
    for number, (model, values) in enumerate(scores.items()):
        left, top = (number % PER_ROW) * (PANEL + GAP), number // PER_ROW * HEIGHT
        _panel(drawing, left, top, model, shares(values), len(values), model == strong)
    return drawing


def shares(scores: Sequence[float]) -> list[float]:
    """Percent of the scores in [0, 20), [20, 40), ... and [80, 100].

    >>> shares([0.0, 19.9, 20.0, 100.0])
    [50.0, 25.0, 0.0, 0.0, 25.0]
    """
    counts = [0] * (len(EDGES) - 1)
    for score in scores:
        counts[min(int(score // 20), len(counts) - 1)] += 1
    return [100 * count / len(scores) for count in counts] if scores else []


def _panel(
    drawing: Drawing, left: float, top: float, model: str, heights: Sequence[float], runs: int, strong: bool
) -> None:
    base, tall, bin_width = top + 106, 78, PANEL / 5
    drawing.text(left, top + 14, model, "bold" if strong else "")
    drawing.text(left + PANEL, top + 14, f"{runs} runs" if runs else "", "soft small end")
    drawing.line(left, base, left + PANEL, base, "grid")
    if not runs:
        drawing.box(left + 0.5, base - tall, PANEL - 1, tall, "absent")
        drawing.text(left + PANEL / 2, base - tall / 2 + 4, "missing", "soft small middle")
    for number, height in enumerate(heights):
        x = left + number * bin_width
        drawing.box(
            x + 1.5, base - height * tall / 100, bin_width - 3, height * tall / 100, "strong" if strong else "weak"
        )
        if height:
            drawing.text(x + bin_width / 2, base - height * tall / 100 - 3, f"{height:.0f}", "soft small middle")
    for number, edge in enumerate(EDGES):
        drawing.text(left + number * bin_width, base + 13, f"{edge}", "soft small middle" if edge else "soft small")
