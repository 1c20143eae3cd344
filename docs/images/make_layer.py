"""Draw layer.svg, the picture of one layer: `python docs/images/make_layer.py` (needs matplotlib).

Two lanes, nodes above and edges below. Background transparent and lines of a middle grey, to be read on light and dark
pages alike.
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

NODE, EDGE, GREY, PAPER = "#377fcc", "#c86a1b", "#7d8590", "#ffffff"
NODE_LANE, EDGE_LANE = 3.3, 0.9


def box(axes: Axes, x: float, y: float, width: float, height: float, color: str, *lines: str) -> None:
    """A box centred at (x, y); its first line is its name, the others are formulas."""
    corner = (x - width / 2, y - height / 2)
    axes.add_patch(FancyBboxPatch(corner, width, height, "round,pad=0,rounding_size=0.12", color=color, linewidth=0))
    spacing = 0.38
    top = y + spacing * (len(lines) - 1) / 2
    for number, line in enumerate(lines):
        weight, size = ("bold", 10) if number == 0 else ("normal", 12)
        axes.text(x, top - spacing * number, line, color=PAPER, ha="center", va="center", fontsize=size, weight=weight)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str = GREY, bend: float = 0) -> None:
    style = f"arc3,rad={bend}"
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=12, connectionstyle=style, color=color, linewidth=1.6,
            shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip


def label(axes: Axes, x: float, y: float, text: str, color: str = GREY, size: float = 10.5) -> None:
    axes.text(x, y, text, color=color, ha="center", va="center", fontsize=size)


def residual(axes: Axes, start: float, end: float, lane: float, height: float, color: str) -> None:
    """A line that leaves the lane at `start`, goes round what is between, and comes back at `end`."""
    axes.plot([start, start, end], [lane, lane + height, lane + height], color=color, linewidth=1.2, alpha=0.7)
    arrow(axes, (end, lane + height), (end, lane + (0.36 if height > 0 else -0.36)), color)


def graph(axes: Axes) -> None:
    """What comes in: two nodes, and an edge in each direction."""
    arrow(axes, (0.42, 2.94), (0.42, 1.26), EDGE, 0.42)
    arrow(axes, (0.68, 1.26), (0.68, 2.94), EDGE, 0.42)
    for y, name in ((NODE_LANE, "$n_i$"), (EDGE_LANE, "$n_j$")):
        axes.add_patch(Circle((0.55, y), 0.38, color=NODE, linewidth=0))
        axes.text(0.55, y, name, color=PAPER, ha="center", va="center", fontsize=13)
    label(axes, -0.22, 2.1, "$e_{ij}$", EDGE, 13)
    label(axes, 1.34, 2.1, "$e_{ji}$", EDGE, 13)


def layer(axes: Axes) -> None:
    """The layer itself, from left to right."""
    add_and_norm = "add,\nnorm"
    # Nodes.
    arrow(axes, (1.9, NODE_LANE), (2.5, NODE_LANE), NODE)
    label(axes, 1.7, NODE_LANE, "$n$", NODE, 13)
    box(
        axes, 4.1, NODE_LANE, 3.2, 1.75, NODE, "relational attention",
        "$q_{ij} = W_n^Q n_i + W_e^Q e_{ij}$",
        "$k_{ij} = W_n^K n_j + W_e^K e_{ij}$",
        "$v_{ij} = W_n^V n_j + W_e^V e_{ij}$",
    )  # fmt: skip
    for x in (6.45, 9.25):
        box(axes, x, NODE_LANE, 0.7, 0.72, NODE, add_and_norm)
    box(axes, 7.85, NODE_LANE, 1.3, 0.72, NODE, "feed-\nforward")
    for start, end in ((5.7, 6.1), (6.8, 7.2), (8.5, 8.9), (9.6, 11.1)):
        arrow(axes, (start, NODE_LANE), (end, NODE_LANE), NODE)
    label(axes, 11.35, NODE_LANE, "$n'$", NODE, 13)
    residual(axes, 2.2, 6.45, NODE_LANE, 1.1, NODE)
    residual(axes, 7.0, 9.25, NODE_LANE, 0.65, NODE)
    # Edges.
    arrow(axes, (1.9, EDGE_LANE), (5.6, EDGE_LANE), EDGE)
    label(axes, 1.7, EDGE_LANE, "$e$", EDGE, 13)
    box(axes, 7.0, EDGE_LANE, 2.8, 0.95, EDGE, "linear, ReLU", "$[e_{ij}, e_{ji}, n'_j, n'_i]$")
    for x in (9.0, 11.45):
        box(axes, x, EDGE_LANE, 0.7, 0.72, EDGE, add_and_norm)
    box(axes, 10.22, EDGE_LANE, 1.3, 0.72, EDGE, "feed-\nforward")
    for start, end in ((8.4, 8.65), (9.35, 9.57), (10.87, 11.1), (11.8, 12.2)):
        arrow(axes, (start, EDGE_LANE), (end, EDGE_LANE), EDGE)
    label(axes, 12.42, EDGE_LANE, "$e'$", EDGE, 13)
    residual(axes, 5.3, 9.0, EDGE_LANE, -0.75, EDGE)
    residual(axes, 9.46, 11.45, EDGE_LANE, -0.62, EDGE)
    # Where the lanes meet.
    arrow(axes, (4.1, EDGE_LANE), (4.1, 2.42), EDGE)
    label(axes, 3.0, 1.75, "edges condition\nqueries, keys\nand values", EDGE)
    axes.plot([10.3, 10.3, 7.0], [NODE_LANE, 2.15, 2.15], color=NODE, linewidth=1.6)
    arrow(axes, (7.0, 2.15), (7.0, 1.38), NODE)
    label(axes, 9.0, 1.82, "the new nodes update the edges", NODE)


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "layer", "mathtext.fontset": "cm", "font.family": "DejaVu Sans"})
    figure, axes = plt.subplots(figsize=(11, 4.2))
    axes.set(xlim=(-0.5, 12.8), ylim=(-0.15, 4.75), aspect="equal")
    axes.axis("off")
    graph(axes)
    layer(axes)
    target = Path(__file__).with_name("layer.svg")
    figure.savefig(target, transparent=True, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None})


if __name__ == "__main__":
    main()
