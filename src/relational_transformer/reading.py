"""Reads all files of the package: regular files only, bounded in size, checked against a type.

A wrong file raises `UnreadableFile`, a ValueError of one sentence that names the file. Needs Python alone.
"""

import dataclasses
import errno
import json
import math
import os
import stat
import sys
import types
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

Made = TypeVar("Made")

MOST_BYTES = 256 * 2**20
"""The largest size of a text file. The longest files of the package, metrics of long runs with many seeds, have a few
megabytes."""


class UnreadableFile(ValueError):
    """A file exists, but is not valid."""


def open_regular(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file, or of a link to one, for the caller to close. Everything else is refused, as in
    `read_bytes`."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG, errno.EISDIR):
            raise UnreadableFile(f"{path} cannot be read ({error.strerror})") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableFile(f"{path} is not a regular file")
    return descriptor


def read_bytes(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a regular file, up to its size when it was opened.

    A FIFO or a device is refused without waiting. FileNotFoundError and PermissionError are passed on.
    """
    descriptor = open_regular(path)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > most_bytes:
            raise UnreadableFile(f"{path} is too large ({size:,} bytes; at most {most_bytes:,} are read)")
        return file.read(size)


def read_text(path: Path | str, most_bytes: int = MOST_BYTES) -> str:
    """The content of a regular file of UTF-8 text."""
    try:
        return read_bytes(path, most_bytes).decode()
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is not text (UTF-8)") from None


def read_json(path: Path | str, expected: Any = dict[str, Any], most_bytes: int = MOST_BYTES) -> Any:
    """The content of a JSON file that fits the type `expected` (see `check`)."""
    return parse_json(read_text(path, most_bytes), path, expected)


def read_json_lines(path: Path | str, expected: Any = dict[str, Any]) -> list[Any]:
    """The content of a file with one JSON value per line, each of which fits the type `expected`."""
    lines = read_text(path).splitlines()
    return [parse_json(line, f"line {number} of {path}", expected) for number, line in enumerate(lines, 1)]


def parse_json(text: str, name: Path | str, expected: Any = dict[str, Any]) -> Any:
    """The JSON value in `text` that fits the type `expected`; `name` says where it comes from."""
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise UnreadableFile(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise UnreadableFile(f"{name} is not JSON ({error})") from None
    try:
        check(content, expected)
    except ValueError as error:
        raise UnreadableFile(f"{name} is not what it should be ({error})") from None
    return content


def check(value: Any, expected: Any, place: str = "it") -> None:
    """ValueError, with the place of the first misfit, where a JSON value does not fit a type.

    Types are those of annotations: `int`, `float` (finite), `str`, `bool`, `None`, `Any`, unions, literals, `list[T]`,
    `tuple[T, ...]` (a list), `dict[str, T]`, TypedDicts and dataclasses. Keys that a TypedDict or a dataclass does not
    name are let through: a newer version may have written them.

    >>> check({"seed": 3, "scores": [0.5, 1]}, dict[str, int | list[float]])
    >>> check({"seed": "3"}, dict[str, int])
    Traceback (most recent call last):
        ...
    ValueError: seed is a string, not an integer
    """
    origin, arguments = get_origin(expected), get_args(expected)
    value = list(value) if isinstance(value, tuple) else value  # from a dataclass instead of a file
    if expected is Any:
        return
    if origin in (Union, types.UnionType):
        if not any(_fits(value, choice) for choice in arguments):
            near = [choice for choice in arguments if _kind(choice) is type(value)]
            if near:  # the branch that fits best, for a more exact message
                check(value, near[0], place)
            raise ValueError(f"{place} is {_name(value)}, not {' or '.join(map(_type_name, arguments))}")
    elif origin is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in arguments):
            raise ValueError(f"{place} is {str(value)[:80]!r}, not one of {', '.join(map(repr, arguments))}")
    elif expected is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            raise ValueError(f"{place} is {_name(value)}, not a finite number")
    elif type(value) is not _kind(expected):
        raise ValueError(f"{place} is {_name(value)}, not {_type_name(expected)}")
    elif is_typeddict(expected) or dataclasses.is_dataclass(expected):
        hints = get_type_hints(expected)
        for key in sorted(_required(expected) - value.keys()):
            raise ValueError(f"{_inside(place, key)} is missing")
        for key in hints.keys() & value.keys():
            check(value[key], hints[key], _inside(place, key))
    elif origin is dict:
        for key, entry in value.items():
            check(entry, arguments[1], _inside(place, key))
    elif origin in (list, tuple):
        for number, entry in enumerate(value):
            check(entry, arguments[0], f"{'' if place == 'it' else place}[{number}]")


def make(value: dict[str, Any], expected: type[Made]) -> Made:
    """Make a dataclass, with nested ones, from a JSON object. Lists become tuples.

    ValueError where it does not fit, as in `check`; unknown names are errors here.

    >>> @dataclasses.dataclass
    ... class Settings:
    ...     sizes: tuple[int, ...]
    >>> make({"sizes": [3, 4]}, Settings)
    Settings(sizes=(3, 4))
    """
    check(value, expected)
    return _made(value, expected, "it")


def _made(value: Any, expected: Any, place: str) -> Any:
    if isinstance(value, list | tuple):
        return tuple(value)
    choices = get_args(expected) if get_origin(expected) in (Union, types.UnionType) else (expected,)
    fitting = [choice for choice in choices if dataclasses.is_dataclass(choice) and _fits(value, choice)]
    if not fitting:
        return value
    expected = next((choice for choice in fitting if value.keys() <= _names(choice)), fitting[0])
    for key in sorted(value.keys() - _names(expected)):
        raise ValueError(f"{_inside(place, key)} is unknown")
    hints = get_type_hints(expected)
    given = {one.name: value[one.name] for one in dataclasses.fields(expected) if one.init and one.name in value}
    return expected(**{name: _made(part, hints[name], _inside(place, name)) for name, part in given.items()})


def _names(expected: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(expected)}


def _fits(value: Any, expected: Any) -> bool:
    try:
        check(value, expected)
    except ValueError:
        return False
    return True


def _kind(expected: Any) -> type:
    """The Python type of JSON values that may fit."""
    if expected is None:
        return type(None)
    if is_typeddict(expected) or dataclasses.is_dataclass(expected) or get_origin(expected) is dict:
        return dict
    kind = get_origin(expected) or expected
    return list if kind is tuple else kind


def _required(expected: Any) -> set[str]:
    if is_typeddict(expected):
        return set(expected.__required_keys__)
    missing = dataclasses.MISSING
    fields = [field for field in dataclasses.fields(expected) if field.init]
    return {field.name for field in fields if field.default is missing and field.default_factory is missing}


def _inside(place: str, key: str) -> str:
    return key[:80] if place == "it" else f"{place}.{key[:80]}"


NAMES: dict[Any, str] = {
    dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "an integer", float: "a number",
    type(None): "null",
}  # fmt: skip


def _name(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return NAMES.get(type(value), type(value).__name__)


def _type_name(expected: Any) -> str:
    return NAMES.get(_kind(expected), str(expected))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
