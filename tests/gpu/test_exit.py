"""Commands that train on a CUDA device end with status 0: whoever called them sees no failure where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.torture.tiny_runs import made_up_molecules

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SMALL = "--seeds 2 --examples 64 --validation-interval 32 --train-examples 64 --num-layers 1"
COMMANDS = {
    "train in tf32": f"train bfs {SMALL} --precision tf32 --device cuda --out run",
    "train in bf16": f"train bfs {SMALL} --precision bf16 --device cuda --out run",
    "train without compiling": f"train bfs {SMALL} --compile off --device cuda --out run",
    "train by the modern protocol": "train insertion_sort --protocol modern --seeds 2 --num-layers 1 --batch-size 4 "
    "--train-lengths 4 8 --examples 64 --validation-interval 32 --validation-examples 8 --validation-nodes 8 "
    "--evaluation-examples 8 --test-nodes 16 --device cuda --out run",
    "qm9": "train qm9 --seeds 2 --num-layers 2 --batch-size 16 --train-molecules 40 --validation-molecules 10 "
    "--epochs 4 --device cuda --out run",
    "reproduce": "reproduce main --tasks bfs --models rt --seeds 2 --examples 64 --device cuda --out runs",
    "tune": "tune rt --tasks bfs --trials 1 --examples 64 --device cuda --storage search.journal",
    "lobster": "train lobster --model rt --seeds 2 --examples 64 --train-examples 64 --validation-interval 64 "
    "--evaluation-examples 8 --test-size 20 --device cuda --out run",
    "sokoban": "train sokoban --steps 2560 --report-interval 2560 --train-levels 8 --test-levels 8 --num-layers 2 "
    "--size 64 --device cuda --out run",
}


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, **made_up_molecules(folder, os.environ.get("PYTHONPATH"))}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_has_trained_ends_with_status_0(tmp_path: Path, name: str):
    if name == "tune":
        pytest.importorskip("optuna")
    command = [sys.executable, "-m", "relational_transformer.cli", *COMMANDS[name].split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    assert list(tmp_path.rglob("search.journal" if name == "tune" else "result.json"))
