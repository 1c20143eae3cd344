"""A picture of how a run went."""

from pathlib import Path
from typing import Any

from relational_transformer.files import write_atomically

AXIS_COLOR = "#666666"


def draw_curves(path: Path, title: str, metrics: list[dict[str, Any]], test_scores: list[float | None]) -> None:
    """Loss and validation score of every seed against examples seen, with the test scores at the edge."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install '.[report]' in a checkout") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    examples = [row["examples"] for row in metrics]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for seed in range(len(test_scores)):
        color = f"C{seed % 10}"
        losses = [row["loss"][seed] for row in metrics]
        scores = [row["validation"][seed] for row in metrics]
        left.plot(examples, [float("nan") if loss is None else loss for loss in losses], color=color, linewidth=0.8)
        right.plot(
            examples,
            [float("nan") if score is None else 100 * score for score in scores],
            color=color,
            linewidth=0.8,
        )
        score = test_scores[seed]
        if score is not None:
            right.plot(examples[-1], 100 * score, marker="o", color=color, markersize=5, clip_on=False)
    left.set(title="training loss", xlabel="examples a seed", yscale="log")
    right.set(title="validation score, and test score (dots)", xlabel="examples a seed", ylabel="%", ylim=(0, 101))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=AXIS_COLOR)
    figure.suptitle(title)

    def write(temporary: Path) -> None:
        figure.savefig(temporary, format="png", dpi=120)
        pyplot.close(figure)

    write_atomically(path, write)
