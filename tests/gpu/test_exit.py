"""Commands on a CUDA device end with status 0: whoever called them sees no failure where there is none.

All training commands begin at once, because each compiles for most of its time; a test waits for its own. Commands on a
trained run follow the training of that run.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.torture.tiny_runs import made_up_molecules

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DEVICE = "--device cuda"
SMALL = "--seeds 2 --examples 64 --validation-interval 32 --train-examples 64 --num-layers 1"
MODERN = (
    "--protocol modern --seeds 2 --num-layers 1 --batch-size 4 --train-lengths 4 8 --examples 64 "
    "--validation-interval 32 --validation-examples 8 --validation-nodes 8 --evaluation-examples 8 --test-nodes 16"
)
COMMANDS = {
    "train in tf32": f"train bfs {SMALL} --precision tf32 --out run",
    "train in bf16": f"train bfs {SMALL} --precision bf16 --out run",
    "train without compiling": f"train bfs {SMALL} --compile off --out run",
    "train by the modern protocol": f"train insertion_sort {MODERN} --out run",
    "qm9": "train qm9 --seeds 2 --num-layers 2 --batch-size 16 --train-molecules 40 --validation-molecules 10 "
    "--epochs 4 --out run",
    "reproduce": "reproduce main --tasks bfs --models rt --seeds 2 --examples 64 --out runs",
    "tune": "tune rt --tasks bfs --trials 1 --examples 64 --storage search.journal",
    "lobster": "train lobster --model rt --seeds 2 --examples 64 --train-examples 64 --validation-interval 64 "
    "--evaluation-examples 8 --test-size 20 --out run",
    "sokoban": "train sokoban --steps 2560 --report-interval 2560 --train-levels 8 --test-levels 8 --num-layers 2 "
    "--size 64 --out run",
}
ON_A_RUN = {
    "evaluate": f"evaluate run --nodes 8 16 --examples 8 {DEVICE}",
    "evaluate hints": f"evaluate run --hints --nodes 8 --examples 8 {DEVICE}",
    "look": "look run --nodes 5 --no-open --out look.html",
}
"""Commands in the folder of "train in bf16". `rt look` has no device: it opens what was trained on one."""


class Command:
    """A command that has begun, with a folder of its own unless it follows another, where its output is kept."""

    def __init__(self, name: str, words: str, folder: Path) -> None:
        self.folder, self.output = folder, folder / f"{name}.log"
        folder.mkdir(exist_ok=True)
        threads = max(1, (os.cpu_count() or 1) // len(COMMANDS))
        environment = {**os.environ, **made_up_molecules(folder, os.environ.get("PYTHONPATH"))}
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "relational_transformer.cli", *words.split()],
                cwd=folder, env={**environment, "TORCHINDUCTOR_COMPILE_THREADS": str(threads)},
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def assert_status_0(self) -> None:
        assert self.process.wait() == 0, self.output.read_text()[-6_000:]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Command]]:
    """All training commands, by name."""
    place = tmp_path_factory.mktemp("commands")
    begun = {
        name: Command(name, f"{words} {DEVICE}", place / name.replace(" ", "-")) for name, words in COMMANDS.items()
    }
    yield begun
    for command in begun.values():
        command.process.kill()
        command.process.wait()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_has_trained_ends_with_status_0(begun: dict[str, Command], name: str):
    if name == "tune":
        pytest.importorskip("optuna")
    begun[name].assert_status_0()
    assert list(begun[name].folder.rglob("search.journal" if name == "tune" else "result.json"))


@pytest.mark.parametrize("name", ON_A_RUN)
def test_a_command_on_a_trained_run_ends_with_status_0(begun: dict[str, Command], name: str):
    trained = begun["train in bf16"]
    trained.assert_status_0()
    Command(name, ON_A_RUN[name], trained.folder).assert_status_0()
