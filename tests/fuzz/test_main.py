"""`make fuzz`: every assault is carried out, and a try that hangs ends no more than its round."""

import importlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.outcome import Outcome


def assault(tries: int, seed: int, folder: Path) -> Iterator[Outcome]:
    assert folder.is_dir()
    for number in range(tries):
        if (seed, number) == (0, 2):
            assert signal.alarm(0) > 0  # there is a limit
            signal.raise_signal(signal.SIGALRM)  # which is over now
        yield Outcome(f"{seed}:{number}", "accepted")


def test_a_try_that_hangs_is_counted_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fuzz, "TRIES_AT_ONCE", 4)
    outcomes = list(fuzz.all_tries(assault, tries=9, seed=0))
    assert [outcome.kind for outcome in outcomes] == ["accepted", "accepted", "hang", *["accepted"] * 6]
    assert [outcome.attempt for outcome in outcomes[3:]] == [
        *(f"1000000:{number}" for number in range(4)),
        *(f"2000000:{number}" for number in range(2)),
    ]


def test_all_assaults_are_found_and_defects_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    assert {"api", "run_files", "saved_models"} <= fuzz._find_assaults().keys()

    def crashing(tries: int, seed: int, folder: Path) -> Iterator[Outcome]:
        yield Outcome("the first", "traceback", "KeyError: 'a'")
        yield from assault(tries - 1, 1, folder)

    monkeypatch.setattr(fuzz, "_find_assaults", lambda: {"good": lambda *rest: assault(rest[0], 1, rest[2])})
    monkeypatch.setattr(sys, "argv", ["fuzz", "--tries", "3"])
    assert fuzz.main() == 0
    monkeypatch.setattr(fuzz, "_find_assaults", lambda: {"crashing": crashing})
    assert fuzz.main() == 1
    assert "crashing: traceback: the first\n    KeyError: 'a'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("missing", "is_left_out"), [("optuna.storages", True), ("relational_transformer.gone", False)]
)
def test_assaults_without_their_packages_are_left_out_and_those_that_lag_behind_are_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, missing: str, is_left_out: bool
):
    load = importlib.import_module

    def import_module(name: str) -> ModuleType:
        if name == "tests.fuzz.journals":
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return load(name)

    monkeypatch.setattr(fuzz.importlib, "import_module", import_module)
    if is_left_out:
        assert "journals" not in fuzz._find_assaults()
        assert "journals is left out: No module named 'optuna.storages'" in capsys.readouterr().err
    else:
        with pytest.raises(ModuleNotFoundError, match="gone"):
            fuzz._find_assaults()
