"""A run is a folder: its configuration, its metrics, its checkpoints and its result."""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

from relational_transformer.files import check_replaceable, remove_unfinished, write_json, write_json_lines
from relational_transformer.reading import open_regular, parse_json, read_json, read_json_lines, read_text

log = logging.getLogger(__name__)

Config = TypeVar("Config")


class MetricsRow(TypedDict):
    """A line of `metrics.jsonl`: one validation, with a number for every seed."""

    examples: int
    loss: list[float | None]
    validation: list[float | None]


class SeedRow(TypedDict):
    """The scores of one seed in a result, in the units of its task; None where there is no score."""

    seed: int
    failed: bool
    test: float | None
    train: NotRequired[float | None]
    validation: NotRequired[float | None]
    examples_of_best: NotRequired[int | None]
    test_in_distribution: NotRequired[float | None]
    test_greedy: NotRequired[float | None]
    test_of_last: NotRequired[float | None]


class Result(TypedDict):
    """The entries of `result.json` that are read.

    `files` has the SHA-256 of the run's files that the result was made with, `sha256` that of the result itself. Older
    results have neither.
    """

    config: dict[str, Any]
    seeds: list[SeedRow]
    hardware: str
    parameters: NotRequired[int | None]
    seconds: NotRequired[float | None]
    seconds_of_test: NotRequired[float | None]
    seconds_to_first_step: NotRequired[float | None]
    commit: NotRequired[str | None]
    levels: NotRequired[dict[str, Any] | None]
    files: NotRequired[dict[str, str]]
    sha256: NotRequired[str]


class RunFolder:
    """The folder in which a run keeps its files.

    | file | what |
    |---|---|
    | `config.json` | the configuration; a run resumes only under the same one |
    | `metrics.jsonl` | one line for each validation: examples seen, loss and validation score of every seed |
    | `checkpoint.safetensors`, `checkpoint.previous.safetensors` | the states to resume from |
    | `result.json` | scores and provenance of every seed |
    | `curves.png` | learning curves |

    The folder may be a link; its files may not. Every file is checked when it is read. A wrong file raises a ValueError
    that names it and says what to do.

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
        self.lock = self.path / ".lock"

    @contextmanager
    def opened(self, config: Mapping[str, Any]) -> Iterator["RunFolder"]:
        """Lock the folder for this process. Create it, or check that it holds a run of the same configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, f"cannot write to the run folder {self.path}: {error.strerror}") from error
        with self._locked():
            checkpoints = (self.checkpoint, self.previous_checkpoint)
            for path in (self.config, self.metrics, *checkpoints, self.result, self.curves):
                check_replaceable(path)  # now, and not after days of training
            remove_unfinished(self.path)
            self._check(config)
            yield self

    def read_config(self, kind: Callable[[dict[str, Any]], Config] = dict) -> Config:
        """Read the configuration of the run: `kind` of its JSON object."""
        if not os.path.lexists(self.config):
            raise ValueError(f"{self.path} is not a run folder: it has no config.json")
        remedy = "delete the folder to start anew"
        content = _told(lambda: read_json(self.config), remedy)
        try:
            return kind(content)
        except ValueError as error:
            raise ValueError(f"{self.config} is not a valid configuration ({error}); {remedy}") from None

    def read_result(self) -> dict[str, Any] | None:
        """The result; None where the run has not ended, ValueError where it is damaged or belongs to another run."""
        if not os.path.lexists(self.result):
            return None
        remedy = "delete it to test the run again"
        result = _told(lambda: read_json(self.result, Result), remedy)
        if result.get("sha256", checksum(result)) != checksum(result):
            raise ValueError(f"{self.result} is damaged (its checksum does not fit); {remedy}")
        if self.config.is_file() and not self.is_of(result, self.config):
            raise ValueError(f"{self.result} belongs to another run than {self.config}; {remedy}")
        return result

    def is_of(self, result: Mapping[str, Any], path: Path) -> bool:
        """Whether a file is the one that a result was made with; True where the result has no checksum of it."""
        known = result.get("files", {}).get(path.name)
        return known is None or known == _sha256(path)

    def write_result(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write a result with checksums of the run's files and of itself. Returns it as `read_result` would."""
        files = {path.name: _sha256(path) for path in (self.config, self.metrics, self.checkpoint)}
        whole = json.loads(json.dumps({**result, "files": files}, allow_nan=False))
        whole["sha256"] = checksum(whole)
        write_json(self.result, whole)
        return whole

    def read_metrics(self, row: Any = MetricsRow) -> list[dict[str, Any]]:
        """The rows of `metrics.jsonl`."""
        return _told(lambda: read_json_lines(self.metrics, row), "delete it: only curves are drawn from it")

    def read_last_metrics(self) -> dict[str, Any] | None:
        """The last row of `metrics.jsonl`; None where there is none yet."""
        lines = read_text(self.metrics).splitlines() if self.metrics.is_file() else []
        return parse_json(lines[-1], f"the last line of {self.metrics}", MetricsRow) if lines else None

    def read_metrics_of(self, result: Mapping[str, Any], row: Any = MetricsRow) -> list[dict[str, Any]]:
        """The metrics that belong to a result; ValueError where they are damaged or of another run."""
        rows, seeds = self.read_metrics(row), len(result["seeds"])
        lists = row.__required_keys__ - {"examples"}
        if not self.is_of(result, self.metrics) or any(len(one[name]) != seeds for one in rows for name in lists):
            raise ValueError(f"{self.metrics} is not the one that {self.result} was made with; delete it")
        return rows

    def find_metrics_of(self, result: Mapping[str, Any], row: Any = MetricsRow) -> list[dict[str, Any]]:
        """`read_metrics_of`, but with a warning and no rows where they are missing or damaged: the result is complete
        without them."""
        try:
            return self.read_metrics_of(result, row)
        except (OSError, ValueError) as error:
            log.warning("No curves are drawn: %s", error)
            return []

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        write_json_lines(self.metrics, rows)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        check_replaceable(self.lock)
        try:
            descriptor = open_regular(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        except OSError as error:
            raise OSError(error.errno, f"cannot write to the run folder {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ValueError(f"the run in {self.path} is being worked on by another process") from None
        try:
            yield
        finally:
            os.close(descriptor)

    def _check(self, config: Mapping[str, Any]) -> None:
        wanted = json.loads(json.dumps(config))
        if not os.path.lexists(self.config):
            write_json(self.config, wanted)
            return
        changes = list(differences(self.read_config(), wanted))
        if changes:
            raise ValueError(
                f"{self.path} holds a run with other settings ({'; '.join(changes)}): "
                "give the same settings to resume it, or another --out"
            )


def checksum(content: Mapping[str, Any]) -> str:
    """The SHA-256 of a JSON object without its entry `sha256`. The order of the keys does not matter.

    >>> checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1, "sha256": "..."})
    True
    """
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """The settings in which two configurations, given as JSON, differ: a phrase for each.

    >>> list(differences({"seeds": [0], "protocol": {"examples": 9}}, {"seeds": [0], "protocol": {"examples": 8}}))
    ['protocol.examples was 9, is 8']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif json.dumps(old) != json.dumps(new):  # which tells true from 1
        was, now = (" ".join(str(value).split())[:200] for value in (old, new))
        yield f"{' '.join(name.split())[:80]} was {was}, is {now}"


def _told(read: Callable[[], Any], remedy: str) -> Any:
    try:
        return read()
    except ValueError as error:
        raise ValueError(f"{error}; {remedy}") from None


def _sha256(path: Path) -> str:
    with open(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
