"""`rt train` and `rt evaluate` of a task of CLRS-30."""

import csv
import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import get_type_hints

import pytest
import torch

from relational_transformer import cli
from relational_transformer.command_line import read_arguments
from relational_transformer.commands.train import TrainArguments, defaults
from relational_transformer.fleet.adam import Schedule
from relational_transformer.fleet.precision import choose_precision
from relational_transformer.processors.settings import find_settings
from relational_transformer.runs import RunFolder
from relational_transformer.training import PROTOCOLS, Protocol, TrainConfig, fresh
from relational_transformer.training.config import LATER
from tests.runs.test_tensorboard import curve

MODEL = ["--hidden-size", "8", "--num-heads", "2", "--num-layers", "1", "--precision", "fp32", "--device", "cpu"]
PROTOCOL = {
    "train_examples": 20, "train_nodes": 5, "train_data_seed": 7, "validation_nodes": 6, "validation_data_seed": 8,
    "test_nodes": 7, "test_data_seed": 9, "evaluation_examples": 3, "minimum_evaluation_examples": 4, "examples": 24,
    "validation_interval": 12, "teacher_forcing": 0.25,
}  # fmt: skip


def options(**protocol) -> list[str]:
    return [word for name, value in protocol.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def words(text: str) -> str:
    return " ".join(text.split())


def scores_in(printed: str) -> dict[str, str]:
    """The score of every seed in the table that `rt evaluate` prints."""
    rows = [line.replace("│", " ").split() for line in printed.splitlines() if "%" in line]
    return {row[0]: row[1] for row in rows}


def option_names(kind: type) -> list[str]:
    """The fields of a dataclass of options, those of dataclasses inside of it in their place."""
    types = get_type_hints(kind)
    nested = [(one.name, types[one.name]) for one in fields(kind)]
    return [name for own, inner in nested for name in (option_names(inner) if is_dataclass(inner) else [own])]


def test_every_option_is_a_field_that_is_defined_once():
    names = option_names(TrainArguments)
    assert len(names) > 40
    assert len(names) == len(set(names))
    own = [one.name for one in fields(TrainArguments) if not is_dataclass(get_type_hints(TrainArguments)[one.name])]
    assert own == ["task", "model", "protocol"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    """A run of two seeds, and what was printed."""
    out = tmp_path_factory.mktemp("command") / "run"
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("relational_transformer.commands.train_run.say", said.append)
        command = ["train", "bfs", "--seeds", "2", *MODEL, *options(**PROTOCOL), "--tensorboard", "--out", str(out)]
        assert cli.main(command) == 0
    return out, "\n".join(said)


def test_every_number_of_the_protocol_is_an_option(trained):
    assert {*PROTOCOL, *LATER} == {field.name for field in fields(Protocol)}
    assert json.loads((trained[0] / "config.json").read_text())["protocol"] == PROTOCOL
    assert defaults(["bfs"]).numbers == TrainArguments("bfs").numbers == PROTOCOLS["paper"]
    assert defaults(["bfs", "--protocol", "quick"]).numbers == PROTOCOLS["quick"]


def test_the_modern_protocol_and_its_numbers_are_options(tmp_path, monkeypatch):
    monkeypatch.setattr(fresh, "PROBES", 10)
    monkeypatch.setattr("relational_transformer.commands.train_run.say", lambda line: None)
    sizes = options(validation_nodes=5, test_nodes=6, evaluation_examples=2, validation_examples=3, examples=64)
    changed = ["--validation-interval", "64", "--train-lengths", "4", "5", "--hint-feedback", "hard_on_eval"]
    command = ["train", "bfs", "--protocol", "modern", *MODEL, *sizes, *changed, "--no-small-scalar-hints"]
    assert cli.main([*command, "--out", str(tmp_path / "run")]) == 0
    config = RunFolder(tmp_path / "run").read_config(TrainConfig.from_dict)
    assert (config.settings.batch_size, config.settings.gradient_clip) == (32, 1.0)
    protocol = config.protocol
    assert (protocol.train_lengths, protocol.validation_examples, protocol.teacher_forcing) == ((4, 5), 3, 0.0)
    assert (protocol.data, protocol.hint_feedback, protocol.small_scalar_hints) == ("modern", "hard_on_eval", False)
    assert defaults(["bfs", "--protocol", "modern"]).numbers == PROTOCOLS["modern"]


@pytest.mark.parametrize("words", [["--model", "pgn"], ["--model=pgn"]])
def test_options_of_a_model_begin_with_its_own_numbers(words: list[str]):
    kind, arguments = TrainArguments, ["bfs", *words, "--num-layers", "2", "--warmup-steps", "5", "--decay", "cosine"]
    read = read_arguments(kind, arguments, "rt train", "", defaults(arguments))
    assert (read.model, read.settings) == ("pgn", replace(find_settings("pgn"), num_layers=2))
    assert read.run.as_config()["schedule"] == Schedule(warmup_steps=5, decay="cosine")


def test_precision_is_chosen_by_the_device_and_recorded(trained, monkeypatch):
    assert json.loads((trained[0] / "config.json").read_text())["precision"] == "fp32"  # as asked for
    for generation, expected in ((9, "bf16"), (10, "bf16"), (8, "tf32")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, generation=generation: (generation, 0))
        assert choose_precision("auto", torch.device("cuda", 0)) == expected
    assert choose_precision("auto", torch.device("cpu")) == "fp32"
    assert choose_precision("fp64", torch.device("cuda", 0)) == "fp64"


def test_a_task_has_to_be_named(capsys):
    assert cli.main(["train"]) == 2
    assert capsys.readouterr().err.startswith("rt: TASK is missing: an algorithm of CLRS-30, such as bellman_ford.")


def test_a_processor_is_asked_for_by_its_model(capsys):
    assert cli.main(["train", "bfs", "--processor", "mpnn", "--device", "cpu"]) == 2
    assert "--model sets the processor" in capsys.readouterr().err


def test_a_run_leaves_metrics_a_result_a_picture_and_curves(trained):
    out, said = trained
    metrics, result = RunFolder(out).read_metrics(), RunFolder(out).read_result()
    assert [row["examples"] for row in metrics] == [12, 24]
    assert result is not None
    assert [seed["seed"] for seed in result["seeds"]] == [0, 1]
    assert all(0.0 <= seed["test"] <= 1.0 for seed in result["seeds"])
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert f"picture {out / 'curves.png'}" in words(said)
    written = {row["examples"]: row["validation"][1] for row in metrics}
    assert dict(curve(out, 1, "validation")) == pytest.approx(written)


def test_a_run_that_has_ended_is_not_run_again(trained, capsys):
    out, _ = trained
    before = {name: (out / name).read_bytes() for name in ("result.json", "metrics.jsonl", "checkpoint.safetensors")}
    command = ["train", "bfs", "--seeds", "2", *MODEL, *options(**PROTOCOL), "--out", str(out)]
    assert cli.main(command) == 0
    assert "test, 7 nodes" in words(capsys.readouterr().out)
    assert {name: (out / name).read_bytes() for name in before} == before


def test_evaluating_a_run_gives_its_test_scores_again(trained, capsys):
    out, _ = trained
    assert cli.main(["evaluate", str(out), "--device", "cpu"]) == 0
    result = RunFolder(out).read_result()
    assert result is not None
    printed = scores_in(capsys.readouterr().out)
    assert [printed[str(row["seed"])] for row in result["seeds"]] == [
        f"{100 * row['test']:.2f}%" for row in result["seeds"]
    ]


def test_a_run_is_evaluated_on_graphs_of_another_size(trained, capsys):
    out, _ = trained
    assert cli.main(["evaluate", str(out), "--nodes", "9", "--examples", "5", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "rt on bfs, 9 nodes" in words(printed)
    assert set(scores_in(printed)) == {"0", "1", "mean"}


def test_a_run_is_evaluated_on_graphs_of_several_sizes(trained, capsys):
    out, _ = trained
    assert cli.main(["evaluate", str(out), "--nodes", "5", "9", "--examples", "5", "--device", "cpu"]) == 0
    printed = words(capsys.readouterr().out)
    assert "rt on bfs, 5 nodes" in printed
    assert "rt on bfs, 9 nodes" in printed


def test_hints_are_scored_at_the_sizes_of_validation_and_test(trained, tmp_path, capsys):
    out, _ = trained
    table = tmp_path / "hints.csv"
    assert cli.main(["evaluate", str(out), "--hints", "--csv", str(table), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "rt on bfs, 6 nodes" in words(printed)
    assert "rt on bfs, 7 nodes" in words(printed)
    assert [line.split()[0] for line in printed.splitlines() if line.startswith((" pi_h", " reach_h"))] != []
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {(row["nodes"], row["hint"], row["type"]) for row in rows} == {
        (nodes, *hint) for nodes in "67" for hint in (("pi_h", "pointer"), ("reach_h", "mask"))
    }
    assert all(0.0 <= float(row[name]) <= 1.0 for row in rows for name in ("score", "score_given_truth"))
    assert rows[0]["examples"] == "6", "of two seeds, each with three graphs of four that have a step"


def test_hints_of_one_seed_are_scored_by_themselves_with_the_score_of_a_test(trained, capsys):
    out, _ = trained
    size = ["--nodes", "9", "--examples", "5", "--data-seed", "6", "--device", "cpu"]
    assert cli.main(["evaluate", str(out), *size]) == 0
    scores = scores_in(capsys.readouterr().out)
    for seed in ("0", "1"):
        assert cli.main(["evaluate", str(out), *size, "--hints", "--seed", seed]) == 0
        assert f"Score of the output: {scores[seed]}." in words(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "1"], "--seed needs --hints: add it, or leave --seed out"),
        (["--csv", "hints.csv"], "--csv needs --hints: add it, or leave --csv out"),
        (["--hints", "--seed", "7"], "has the seeds [0, 1], not 7"),
        (["--hints", "--nodes", "0"], "test-nodes must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_evaluated_is_told(trained, capsys, options, message):
    assert cli.main(["evaluate", str(trained[0]), *options, "--device", "cpu"]) == 2
    assert message in words(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--test-data-seed", "-1"], "test-data-seed must be at least 0, got -1"),
        (["--minimum-evaluation-examples", "-2"], "minimum-evaluation-examples must be at least 0, got -2"),
        (["--teacher-forcing", "1.5"], "teacher-forcing must be at most 1, got 1.5"),
        (["--test-nodes", "20001"], "test-nodes must be at most 20,000, got 20001"),
    ],
)
def test_a_protocol_that_cannot_be_is_refused_before_there_is_a_run(tmp_path, capsys, wrong, message):
    assert cli.main(["train", "bfs", *MODEL, *wrong, "--out", str(tmp_path / "run")]) == 2
    assert message in words(capsys.readouterr().err)
    assert not (tmp_path / "run").exists()
