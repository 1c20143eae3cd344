"""`reading`: what is not a regular file, or not of the type expected, is one sentence that names the file."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from relational_transformer.reading import (
    UnreadableFile,
    check,
    make,
    read_bytes,
    read_json,
    read_json_lines,
    read_text,
)


class Row(TypedDict):
    seed: int
    score: float | None
    note: NotRequired[str]


@dataclass
class Settings:
    size: int
    kind: Literal["a", "b"] = "a"


def test_what_fits_is_returned_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    content = [{"seed": 1, "score": None}, {"seed": 2, "score": 1, "note": "x", "of a newer version": [1]}]
    path.write_text(json.dumps(content))
    assert read_json(path, list[Row]) == content


@pytest.mark.parametrize(
    ("value", "expected", "sentence"),
    [
        ([], dict[str, Any], "it is a list, not an object"),
        ({"seed": 1}, Row, "score is missing"),
        ({"seed": True, "score": 1}, Row, "seed is true or false, not an integer"),
        ({"seed": 1, "score": "x"}, Row, "score is a string, not a number or null"),
        ([{"seed": 1, "score": 1, "note": 2}], list[Row], r"\[0\].note is an integer, not a string"),
        ({"size": 1, "kind": "c"}, Settings, "kind is 'c', not one of 'a', 'b'"),
        ({"kind": "a"}, Settings, "size is missing"),
        ([1, 10**400], tuple[float, ...], r"\[1\] is an integer, not a finite number"),
        ([1, float("nan")], tuple[float, ...], r"\[1\] is nan, not a finite number"),
        ({"a": [{"seed": None, "score": 0}]}, dict[str, list[Row] | None], r"a\[0\].seed is null, not an integer"),
    ],
)
def test_the_first_misfit_is_named_by_its_place(value: Any, expected: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        check(value, expected)


@dataclass
class Other:
    width: int = 1


@dataclass
class Whole:
    seeds: tuple[int, ...]
    settings: Settings | Other
    note: str | None = None
    task: str = field(default="x", init=False)


def test_dataclasses_are_made_with_those_inside_of_them() -> None:
    content = {"seeds": [1, 2], "settings": {"size": 3}, "task": "x"}
    assert make(content, Whole) == Whole((1, 2), Settings(3))
    assert make({**content, "settings": {"width": 3}}, Whole) == Whole((1, 2), Other(3))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"seeds": [1, "2"]}, r"seeds\[1\] is a string, not an integer"),
        ({"settings": {"size": 3, "sise": 4}}, "settings.sise is unknown"),
        ({"settings": None}, "settings is null, not an object or an object"),
        ({"more": 1}, "more is unknown"),
    ],
)
def test_a_dataclass_of_which_something_is_wrong_is_not_made(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        make({"seeds": [1], "settings": {"size": 3}, **changed}, Whole)


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN}', '{"a": 1} x', "[1]"])
def test_text_that_is_not_the_json_expected_is_named_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UnreadableFile, match=f"^{path} is not "):
        read_json(path)


def test_deep_nesting_does_not_end_in_a_recursion_error(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[" * 200_000 + "]" * 200_000)
    with pytest.raises(UnreadableFile, match="nested too deeply"):
        read_json(path)


def test_the_damaged_line_of_a_file_of_lines_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(UnreadableFile, match=f"^line 2 of {path} is not JSON"):
        read_json_lines(path)


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableFile, match="is not text"):
        read_text(path)


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UnreadableFile, match="is not a regular file"):
        read_bytes(tmp_path / "fifo")


def test_devices_folders_and_links_in_circles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    for path, sentence in (("/dev/zero", "not a regular file"), (tmp_path, "not a regular file"),
                           (tmp_path / "circle", "cannot be read")):  # fmt: skip
        with pytest.raises(UnreadableFile, match=sentence):
            read_bytes(path)


def test_a_file_beyond_the_bound_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"12345")
    assert read_bytes(path, most_bytes=5) == b"12345"
    with pytest.raises(UnreadableFile, match="too large"):
        read_bytes(path, most_bytes=4)


def test_a_file_that_is_not_there_is_the_system_s_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")
