import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a program of examples/ with these arguments; what it prints."""

    def run(name: str, *arguments: object) -> str:
        path = EXAMPLES / name
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run
