"""Files that are whole or not there: written under a temporary name, then renamed."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(
    path: Path, write: Callable[[Path], object], before_replacing: Callable[[], object] = lambda: None
) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place.

    `before_replacing` is called when the new file is safe on the disk and the old one still in its place.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        before_replacing()
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Delete what killed processes left half written; nobody else may be writing there."""
    for path in folder.glob(".*.writing"):
        path.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, lambda file: file.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n"))


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    write_atomically(path, lambda file: file.write_text(text))
