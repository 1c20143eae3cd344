"""`rt train qm9` and `rt evaluate` of its runs."""

import json
from pathlib import Path

import pytest

from relational_transformer import cli
from relational_transformer.commands.train_qm9 import TrainQm9Arguments, protocol_of
from relational_transformer.molecules import QM9Protocol
from relational_transformer.molecules.config import WARMUP

ARGUMENTS = [
    "train", "qm9", "--target", "mu", "--seeds", "2", "--train-molecules", "40", "--validation-molecules", "10",
    "--epochs", "2", "--batch-size", "8", "--num-layers", "1", "--num-heads", "2", "--head-size", "4",
    "--node-hidden-size", "8", "--edge-size", "4", "--edge-hidden-sizes", "4", "4", "--distance-size", "4",
    "--device", "cpu",
]  # fmt: skip


@pytest.mark.usefixtures("small_qm9")
def test_a_run_is_trained_and_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "run"
    assert cli.main([*ARGUMENTS, "--out", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "rt on qm9_mu: mean absolute error" in printed
    assert "test (D)" in printed
    result = json.loads((out / "result.json").read_text())
    assert result["config"]["schedule"] == {"warmup_steps": 1000, "decay": "cosine"}
    assert cli.main(["evaluate", str(out), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    for row in result["seeds"]:
        assert f"{row['test']:.4g}" in printed
    assert cli.main(["evaluate", str(out), "--nodes", "20", "--device", "cpu"]) == 2
    assert "is scored on the test molecules of its split" in capsys.readouterr().err


def test_options_make_the_usual_protocol_or_parts_of_it():
    assert protocol_of(TrainQm9Arguments()) == QM9Protocol()
    small = protocol_of(TrainQm9Arguments(epochs=3, train_molecules=500))
    assert (small.examples, small.validation_interval, small.test_molecules) == (1_500, 500, None)
    assert TrainQm9Arguments().run.schedule == WARMUP


def test_an_interval_of_nothing_is_refused():
    with pytest.raises(ValueError, match="validation-interval must be at least 1, got 0"):
        protocol_of(TrainQm9Arguments(validation_interval=0))


def test_help_of_train_names_qm9(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["train", "--help"]) == 0
    assert "rt train qm9 --help" in capsys.readouterr().out
