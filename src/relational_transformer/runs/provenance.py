"""Where a result comes from: versions, commit, hardware."""

import os
import platform
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import relational_transformer
from relational_transformer.nn.kernels import current_mode


def provenance(device: torch.device, commits: Sequence[str | None]) -> dict[str, Any]:
    """What is needed to reproduce a result. `commits` are those that the run was trained with, in order."""
    *earlier, last = commits
    return {
        "package": relational_transformer.__version__,
        "commit": last,
        **({"earlier_commits": earlier} if earlier else {}),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("torch", "triton", "numpy", "numba", "safetensors")},
        "hardware": hardware(device),
        "kernels": current_mode(),
    }


def commit() -> str | None:
    """The commit of the source tree, with a + where there are uncommitted changes; None outside a checkout.

    The variable RT_COMMIT names it where the tree was copied without its history.
    """
    return os.environ.get("RT_COMMIT") or _commit_of_tree()


@cache
def _commit_of_tree() -> str | None:
    """The commit when it was first asked for: later changes are not part of what runs."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(("git", *arguments), cwd=here, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def commits_with_this(earlier: Sequence[str | None] = ()) -> list[str | None]:
    """The commits that a run was trained with, in order, the current one included."""
    now = commit()
    return [*earlier] if earlier and earlier[-1] == now else [*earlier, now]


def hardware(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor() or platform.machine()} CPU, {torch.get_num_threads()} threads"


def _processor() -> str | None:
    """The name of the machine's processor; None where it is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
