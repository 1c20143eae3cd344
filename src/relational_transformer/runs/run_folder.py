"""A run is a folder: its configuration, its metrics, its checkpoints and its result."""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relational_transformer.files import remove_unfinished, write_json, write_json_lines


class RunFolder:
    """Where a run keeps its files.

    | file | what |
    |---|---|
    | `config.json` | what was asked for; a run goes on only under the same configuration |
    | `metrics.jsonl` | one line a validation: examples seen, loss and validation score of every seed |
    | `checkpoint.safetensors`, `checkpoint.previous.safetensors` | where to go on from |
    | `result.json` | scores of every seed, and where they come from |
    | `curves.png` | learning curves |

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as path:
    ...     with RunFolder(path).opened({"task": "bfs"}) as folder:
    ...         print(folder.read_config(), folder.read_result())
    {'task': 'bfs'} None
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.previous_checkpoint = self.path / "checkpoint.previous.safetensors"
        self.result = self.path / "result.json"
        self.curves = self.path / "curves.png"

    @contextmanager
    def opened(self, config: Mapping[str, Any]) -> Iterator["RunFolder"]:
        """Take the folder for this process; make it, or check that it holds a run of the same configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        except OSError as error:
            raise OSError(error.errno, f"cannot write to the run folder {self.path}: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"the run in {self.path} is being worked on by another process") from None
            remove_unfinished(self.path)
            self._check(config)
            yield self

    def read_config(self) -> dict[str, Any]:
        """The configuration of a run that is there."""
        if not self.config.is_file():
            raise ValueError(f"{self.path} is no run folder: it has no config.json")
        try:
            return _read_object(self.config)
        except ValueError as error:
            raise ValueError(f"{self.config} is not readable ({error}); delete the folder to start anew") from None

    def read_result(self) -> dict[str, Any] | None:
        """The result, if the run has ended."""
        if not self.result.is_file():
            return None
        try:
            return _read_object(self.result)
        except ValueError as error:
            raise ValueError(f"{self.result} is not readable ({error}); delete it to test the run again") from None

    def read_metrics(self) -> list[dict[str, Any]]:
        """The rows of `metrics.jsonl`."""
        return [json.loads(line) for line in self.metrics.read_text().splitlines()]

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        write_json_lines(self.metrics, rows)

    def _check(self, config: Mapping[str, Any]) -> None:
        wanted = json.loads(json.dumps(config))
        if not self.config.exists():
            write_json(self.config, wanted)
            return
        changes = list(_differences(self.read_config(), wanted))
        if changes:
            raise ValueError(
                f"{self.path} holds a run with other settings ({'; '.join(changes)}): "
                "use them again to go on with it, or another --out"
            )


def _read_object(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text())
    if not isinstance(content, dict):
        raise ValueError(f"it is {type(content).__name__}, not an object")
    return content


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield f"{name} was {old}, is {new}"
