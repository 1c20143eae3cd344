"""The Makefile's word on which tests need a GPU."""

import ast
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def has_mark(path: Path, mark: str) -> bool:
    """Whether a file of tests uses `pytest.mark.MARK`."""
    return any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == f"pytest.mark.{mark}"
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_make_test_gpu_runs_every_file_with_tests_that_need_one():
    command = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "test-gpu"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    named = [REPOSITORY / word for word in command if word.startswith("tests/")]
    marked = [path for path in sorted((REPOSITORY / "tests").rglob("test_*.py")) if has_mark(path, "gpu")]
    assert len(marked) >= 4
    left_out = [path for path in marked if not any(path.is_relative_to(place) for place in named)]
    assert left_out == []
