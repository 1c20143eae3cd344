"""All tasks as runs of the real command that take seconds, and whether one ended with the bits of another."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from relational_transformer.files import CACHE_VARIABLE
from relational_transformer.runs import RunFolder
from relational_transformer.runs.checkpoint import read_checkpoint
from tests.molecules.made_up import make_molecules, write_files

COMMANDS = {
    "clrs": (
        *("bfs", "--protocol", "quick", "--seeds", "2", "--hidden-size", "8", "--num-heads", "2", "--num-layers", "1"),
        *("--train-examples", "20", "--examples", "100", "--validation-interval", "4", "--test-nodes", "7"),
    ),
    "modern": (
        *("insertion_sort", "--protocol", "modern", "--seeds", "2", "--hidden-size", "8", "--num-heads", "2"),
        *("--num-layers", "1", "--train-lengths", "4", "5", "--batch-size", "2", "--examples", "100"),
        *("--validation-interval", "4", "--validation-nodes", "5", "--test-nodes", "7", "--evaluation-examples", "4"),
    ),
    "lobster": (
        *("lobster", "--model", "gcn", "--seeds", "2", "--num-layers", "2", "--batch-size", "8", "--test-size", "14"),
        *("--train-examples", "20", "--epochs", "20", "--validation-interval", "16", "--evaluation-examples", "10"),
    ),
    "sokoban": (
        *("sokoban", "--seeds", "2", "--size", "16", "--num-layers", "1", "--games", "4", "--size-classes", "2"),
        *("--steps", "400", "--report-interval", "24", "--train-levels", "20", "--test-levels", "3"),
    ),
    "qm9": (
        *(
            "qm9",
            "--seeds",
            "2",
            "--num-layers",
            "1",
            "--num-heads",
            "2",
            "--head-size",
            "4",
            "--node-hidden-size",
            "8",
        ),
        *("--edge-size", "6", "--edge-hidden-sizes", "5", "4", "--distance-size", "8", "--batch-size", "5"),
        *("--train-molecules", "50", "--validation-molecules", "5", "--epochs", "5", "--validation-interval", "10"),
    ),
}
"""What follows `rt train`; CLRS-30 by both protocols, the modern one with examples of two sizes and permutations."""
PARTS = 25
"""Of each of them: after every part there is a checkpoint."""
SAFELY = ("--compile", "off", "--device", "cpu", "--checkpoint-seconds", "0")


def start(task: str, out: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "relational_transformer.cli", "train", *COMMANDS[task], *SAFELY, "--out", str(out)]
    everything = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    if task == "qm9":
        everything |= made_up_molecules(out.parent, everything.get("PYTHONPATH"))
    return subprocess.Popen(command, env=everything, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def made_up_molecules(folder: Path, path: str | None) -> dict[str, str]:
    """The variables for a process that finds made-up molecules in the place of the package's, and a cache of its
    own."""
    packages = folder / "packages"
    if not packages.exists():
        write_files(packages / "qm9pack" / "data", make_molecules(60))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(packages), path))), CACHE_VARIABLE: str(folder / "cache")}


def train(task: str, out: Path) -> str:
    """Begin a run or go on with it, to its end; returns what was printed."""
    process = start(task, out)
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    return printed


def parts_saved(out: Path) -> int:
    """Parts that are behind a run at its last checkpoint."""
    metrics = out / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def differences(out: Path, expected: Path) -> list[str]:
    """In what a run has not ended as another has: scores, metrics, configuration, tensors, files that are left over."""
    ours, theirs = RunFolder(out), RunFolder(expected)
    found = [path.name for path in (ours.config, ours.metrics) if not _have_same_bytes(path, expected / path.name)]
    if json.loads(ours.result.read_text())["seeds"] != json.loads(theirs.result.read_text())["seeds"]:
        found.append("the seeds of result.json")
    tensors, others = (read_checkpoint(folder.checkpoint)[0] for folder in (ours, theirs))
    if tensors.keys() != others.keys() or not all(torch.equal(tensors[name], others[name]) for name in tensors):
        found.append(ours.checkpoint.name)
    names, expected_names = ({path.name for path in folder.iterdir()} for folder in (out, expected))
    return found + sorted(names ^ expected_names)


def _have_same_bytes(path: Path, other: Path) -> bool:
    return path.read_bytes() == other.read_bytes()
