"""Where a result comes from."""

from pathlib import Path

import torch

from relational_transformer.runs.provenance import commit, commits_with_this, hardware, provenance

CPUINFO = (
    "processor\t: 0\nmodel name\t: A Processor 9000 @ 3 GHz\nprocessor\t: 1\nmodel name\t: A Processor 9000 @ 3 GHz\n"
)


def test_a_processor_is_named(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda path: CPUINFO)
    assert hardware(torch.device("cpu")) == f"A Processor 9000 @ 3 GHz CPU, {torch.get_num_threads()} threads"


def test_where_nobody_names_the_processor_its_kind_is_told(monkeypatch):
    def nothing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", nothing)
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert hardware(torch.device("cpu")).startswith("riscv64 CPU, ")


def test_a_commit_can_be_told_where_there_is_no_history(monkeypatch):
    monkeypatch.setenv("RT_COMMIT", "0123abc")
    assert commit() == "0123abc"


def test_a_run_names_every_commit_that_it_was_trained_with(monkeypatch):
    monkeypatch.setenv("RT_COMMIT", "first")
    once = commits_with_this()
    assert commits_with_this(once) == ["first"]
    assert "earlier_commits" not in provenance(torch.device("cpu"), once)
    monkeypatch.setenv("RT_COMMIT", "second")
    found = provenance(torch.device("cpu"), commits_with_this(once))
    assert (found["earlier_commits"], found["commit"]) == (["first"], "second")
