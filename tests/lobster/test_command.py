"""`rt train lobster` and `rt evaluate` of its runs."""

import json
from pathlib import Path

from relational_transformer import cli
from relational_transformer.commands.terminal.training import Display
from relational_transformer.commands.train_lobster import TrainLobsterArguments, _protocol
from relational_transformer.lobster import LobsterProtocol, LobsterTask
from relational_transformer.runs.run_folder import RunFolder
from tests.lobster.small import small_config

ARGUMENTS = [
    "train", "lobster", "--model", "gat", "--num-layers", "2", "--batch-size", "8", "--train-examples", "16",
    "--epochs", "2", "--evaluation-examples", "4", "--test-size", "12", "--device", "cpu",
]  # fmt: skip


def test_a_run_is_trained_and_evaluated_at_another_size(tmp_path: Path, capsys):
    out = tmp_path / "run"
    assert cli.main([*ARGUMENTS, "--out", str(out), "--weighted"]) == 0
    printed = capsys.readouterr().out
    assert "gat on lobster: relative loss" in printed
    assert (out / "curves.png").is_file()
    assert "is what predicting min(y," in " ".join(printed.split())
    config = json.loads((out / "config.json").read_text())
    assert config["protocol"]["weighted"] is True
    assert config["protocol"]["examples"] == 32
    assert cli.main(["evaluate", str(out), "--nodes", "20", "--examples", "3", "--device", "cpu"]) == 0
    assert "size 20" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["evaluate", str(out), "--hints", "--device", "cpu"]) == 2
    assert "a run on 'lobster', which has no hints" in " ".join(capsys.readouterr().err.split())


def test_epochs_are_examples_and_a_run_has_ten_validations():
    protocol = _protocol(TrainLobsterArguments(epochs=20))
    assert (protocol.examples, protocol.validation_interval) == (200_000, 20_000)
    assert _protocol(TrainLobsterArguments()).validation_interval == 200_000


def test_a_run_is_200_epochs_of_whatever_training_set_it_has():
    protocol = _protocol(TrainLobsterArguments(train_examples=500))
    assert (protocol.examples, protocol.validation_interval) == (100_000, 10_000)
    assert _protocol(TrainLobsterArguments()) == LobsterProtocol()


def test_a_table_has_the_means_of_what_there_is(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    good = {"seed": 0, "train": 0.25, "validation": 0.5, "examples_of_best": 40, "test": 0.5, "failed": False}
    bad = dict.fromkeys(("train", "validation", "test", "test_in_distribution", "examples_of_best"))
    rows = [
        {**good, "test_in_distribution": None},
        {**good, "seed": 1, "train": None, "test": 1.0, "test_in_distribution": None},
        {**bad, "seed": 2, "failed": True},
    ]
    display = Display(LobsterTask(small_config()))
    result = {"config": small_config().as_dict(), "seeds": rows, "seconds_to_first_step": 7.28}
    display.show_result(result, [], RunFolder("runs/none"))
    printed = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["mean", "0.2500", "-", "0.7500", "±", "0.3536"] in printed
    assert ["2", "-", "-", "-", "failed", "failed", "failed"] in printed
    assert ["start", "7.3", "s", "to", "the", "first", "step"] in printed


def test_saying_it_twice_is_one_clear_line(tmp_path: Path, capsys):
    assert cli.main([*ARGUMENTS, "--examples", "5", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == "rt: --epochs and --examples both set the length of training: give one of them\n"
    assert not (tmp_path / "run").exists()


def test_attention_is_a_choice_of_rt_alone(tmp_path: Path, capsys):
    out = tmp_path / "run"
    assert cli.main([*ARGUMENTS, "--attention", "edges", "--out", str(out)]) == 2
    assert capsys.readouterr().err == "rt: --attention is an option of rt: gat always attends to its neighbours alone\n"
    assert not out.exists()


def test_help_of_train_names_lobster(capsys):
    assert cli.main(["train", "--help"]) == 0
    assert "rt train lobster --help" in capsys.readouterr().out
