"""Curves of a run for TensorBoard, written while it trains."""

from collections.abc import Sequence
from typing import Any

from .run_folder import RunFolder

SECONDS_BETWEEN_FLUSHES = 10
"""After which those who watch see what is new."""


class TensorBoardCurves:
    """Loss and validation of every seed by examples, in `tensorboard/seed-N` below the folder of the run.

    A run that goes on writes its curves again from the beginning: TensorBoard forgets what an earlier sitting wrote,
    some of which may have come after its last checkpoint.
    """

    def __init__(self, folder: RunFolder, seeds: Sequence[int]) -> None:
        self.folder, self.seeds = folder, seeds
        self._writer_class = _find_writer()
        self._writers: list[Any] = []
        self._rows = 0

    def update(self, metrics: Sequence[dict[str, Any]]) -> None:
        """Write the rows that are new; `metrics` are all of the run so far, as `Trainer.metrics` gives them."""
        if not self._writers:  # now there is a folder
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
