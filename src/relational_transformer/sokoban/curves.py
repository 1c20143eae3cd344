"""A picture of how the agents of a run learned."""

from pathlib import Path
from typing import Any

from relational_transformer.files import write_atomically

AXIS_COLOR = "#666666"


def draw_curves(path: Path, title: str, metrics: list[dict[str, Any]], seeds: list[dict[str, Any]]) -> None:
    """Reward and share of solved games of every seed against steps played, with the test scores at the edge."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install 'relational-transformer[report]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [row["examples"] for row in metrics]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for number, seed in enumerate(seeds):
        color = f"C{number % 10}"
        solved = [row["validation"][number] for row in metrics]
        left.plot(steps, [row["reward"][number] for row in metrics], color=color, linewidth=0.8)
        right.plot(
            steps,
            [float("nan") if share is None else 100 * share for share in solved],
            color=color,
            linewidth=0.8,
        )
        if seed["test"] is not None:
            right.plot(steps[-1], 100 * seed["test"], marker="o", color=color, markersize=5, clip_on=False)
    left.set(title="reward a step", xlabel="steps a seed")
    right.set(title="games solved, and test levels (dots)", xlabel="steps a seed", ylabel="%", ylim=(0, 101))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=AXIS_COLOR)
    figure.suptitle(title)

    def write(temporary: Path) -> None:
        figure.savefig(temporary, format="png", dpi=120)
        pyplot.close(figure)

    write_atomically(path, write)
