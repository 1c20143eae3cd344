"""Learning curves: a picture of a run that has ended, and TensorBoard while it trains."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relational_transformer.files import write_atomically

from .run_folder import RunFolder

AXIS_COLOR = "#666666"


@contextmanager
def two_panels(path: Path, title: str) -> Iterator[tuple[Any, Any]]:
    """Two axes side by side to draw on; the picture is written afterwards."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install '.[report]' in a checkout") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    yield tuple(panels)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=AXIS_COLOR)
    figure.suptitle(title)

    def write(temporary: Path) -> None:
        figure.savefig(temporary, format="png", dpi=120)
        pyplot.close(figure)

    write_atomically(path, write)


def draw_curves(
    path: Path, title: str, metrics: list[dict[str, Any]], test_scores: list[float | None],
    times: float = 100.0, unit: str = "%",
) -> None:  # fmt: skip
    """Draw loss and validation score of every seed against examples seen, and its test score as a dot at the end.
    Scores are multiplied by `times`."""
    examples = [row["examples"] for row in metrics]
    with two_panels(path, title) as (left, right):
        for seed, score in enumerate(test_scores):
            style = {"color": f"C{seed % 10}", "linewidth": 0.8}
            losses, scores = ([row[name][seed] for row in metrics] for name in ("loss", "validation"))
            left.plot(examples, [math.nan if loss is None else loss for loss in losses], **style)
            right.plot(examples, [math.nan if one is None else times * one for one in scores], **style)
            if score is not None:
                right.plot(examples[-1], times * score, marker="o", color=style["color"], markersize=5, clip_on=False)
        left.set(title="training loss", xlabel="examples per seed", yscale="log")
        right.set(title="validation score, and test score (dots)", xlabel="examples per seed", ylabel=unit)
        right.set_ylim(0, 101 if unit == "%" else None)


SECONDS_BETWEEN_FLUSHES = 10
"""Seconds after which TensorBoard sees new points."""


class TensorBoardCurves:
    """Loss and validation of every seed by examples, in `tensorboard/seed-N` below the folder of the run.

    A resumed run writes its curves again from the beginning and makes TensorBoard drop the earlier points, some of
    which may lie after the last checkpoint.
    """

    def __init__(self, folder: RunFolder, seeds: Sequence[int]) -> None:
        self.folder, self.seeds = folder, seeds
        self._writer_class = _find_writer()
        self._writers: list[Any] = []
        self._rows = 0

    def update(self, metrics: Sequence[dict[str, Any]]) -> None:
        """Write the rows that are new. `metrics` holds all rows of the run so far, as `Trainer.metrics` returns
        them."""
        if not self._writers:  # the folder exists by now
            self._writers = [
                self._writer_class(
                    str(self.folder.path / "tensorboard" / f"seed-{seed}"),
                    purge_step=0,
                    flush_secs=SECONDS_BETWEEN_FLUSHES,
                )
                for seed in self.seeds
            ]
        for row in metrics[self._rows :]:
            for number, writer in enumerate(self._writers):
                for name in ("loss", "validation"):
                    if row[name][number] is not None:
                        writer.add_scalar(name, row[name][number], row["examples"])
        self._rows = max(self._rows, len(metrics))

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def _find_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError:
        raise ModuleNotFoundError("curves need TensorBoard: pip install '.[tensorboard]' in a checkout") from None
    return SummaryWriter
