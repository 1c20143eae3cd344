"""How far runs are, as their folders tell; whoever works on them, and wherever."""

import json
from pathlib import Path

from .kinds import find_kind
from .run import Run


def is_done(folder: Path) -> bool:
    """Whether the run has its result."""
    return (folder / "result.json").is_file()


def is_begun(folder: Path) -> bool:
    """Whether there is a checkpoint to go on from."""
    return (folder / "checkpoint.safetensors").is_file() or (folder / "checkpoint.previous.safetensors").is_file()


def share_done(run: Run) -> float:
    """How much of a run is behind it, from 0 to 1, at its last checkpoint."""
    if is_done(run.folder):
        return 1.0
    try:
        last = (run.folder / "metrics.jsonl").read_text().splitlines()[-1]
        return min(1.0, json.loads(last)["examples"] / find_kind(run.kind).length(run.config))
    except (OSError, ValueError, IndexError, KeyError):
        return 0.0
