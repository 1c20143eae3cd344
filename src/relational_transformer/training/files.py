"""Files that are whole or not there: written under a temporary name, then renamed."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, lambda file: file.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n"))


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    write_atomically(path, lambda file: file.write_text(text))
