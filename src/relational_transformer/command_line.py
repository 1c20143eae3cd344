"""Reads the arguments of a command into its dataclass, with tyro. A mistake is a ValueError of one sentence."""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

Arguments = TypeVar("Arguments")

MISTAKE = 2
"""The exit status of tyro where it could not read the arguments."""
STYLES = re.compile(r"\x1b\[[0-9;]*m")
BORDERS = "│ \n"
RULE = re.compile(r"[─╭╮╰╯-]*")


def read_arguments(
    kind: type[Arguments], arguments: Sequence[str], program: str, description: str, default: Arguments | None = None
) -> Arguments:
    """Read a command line into the dataclass `kind`, with other defaults from `default`. With --help, print the help
    and exit."""
    import tyro  # here, because it comes with an extra

    options: dict[str, Any] = {} if default is None else {"default": default}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), _wide_unless_help(arguments):
            return tyro.cli(
                kind,
                args=arguments,
                **options,
                prog=program,
                description=description,
                registry=_plain_values(),
                config=(tyro.conf.PositionalMetavarFromFieldName,),
            )
    except AssertionError as error:  # of tyro's own options, such as --tyro-print-completion
        raise ValueError(f"{error} ({program} --help explains the arguments)") from None
    except SystemExit as stop:
        if stop.code != MISTAKE:
            raise
    raise ValueError(f"{sentence_of(printed.getvalue())} ({program} --help explains the arguments)")


def said_before(words: Sequence[str], **defaults: str) -> dict[str, str]:
    """The values of options on which the defaults of other options depend, read before all others.

    >>> said_before(["bfs", "--model", "pgn", "--seeds=3"], model="rt", seeds="1", protocol="paper")
    {'model': 'pgn', 'seeds': '3', 'protocol': 'paper'}
    """
    said = dict(defaults)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if option.startswith("--") and name in said:
            said[name] = value if equals else following
    return said


def sentence_of(box: str) -> str:
    """The error that tyro prints in a box, as one sentence: the part above the first rule, and the options it suggests.

    >>> sentence_of("╭ Title ╮\\n│ Unrecognized options: --sedes │\\n│ ─── │\\n│ Perhaps: │\\n│   --seeds INT │\\n╰──╯")
    'unrecognized options: --sedes; did you mean --seeds?'
    """
    lines = [line.strip(BORDERS) for line in STYLES.sub("", box).splitlines()]
    parts: list[list[str]] = [[]]
    for line in lines[1:]:  # the first is the title
        if RULE.fullmatch(line):
            parts.append([])
        else:
            parts[-1].append(line)
    first, *others = [part for part in parts if part] or [lines]
    sentence = re.sub(r"^Error parsing ", "", " ".join(first)).rstrip(".")
    sentence = sentence.replace(". Expected", "; expected")
    sentence = re.sub(r"^[A-Z](?=[a-z])", lambda letter: letter[0].lower(), sentence)
    meant = [option[0] for part in others for line in part if (option := re.match(r"--[\w-]+", line))]
    if sentence.startswith("unrecognized") and meant:
        sentence += f"; did you mean {' or '.join(dict.fromkeys(meant))}?"
    return sentence


@contextlib.contextmanager
def _wide_unless_help(arguments: Sequence[str]) -> Iterator[None]:
    """Pretend that the terminal is very wide, so that no line of an error is broken."""
    if {"-h", "--help"} & set(arguments):
        yield
        return
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "1000000"
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _plain_values() -> Any:
    """A registry for tyro that reads numbers and paths with plain error messages, and shows `--seeds INT` for `int |
    None`."""
    from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        kind: Any = info.type
        if get_origin(kind) in (Union, UnionType) and len(get_args(kind)) == 2 and NoneType in get_args(kind):
            kind = next(one for one in get_args(kind) if one is not NoneType)
        if not isinstance(kind, type) or kind not in READERS:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=kind.__name__.upper(),
            instance_from_str=lambda words: READERS[kind](words[0]),
            is_instance=lambda value: isinstance(value, kind) or (value is None and kind is not info.type),
            str_from_instance=lambda value: [str(value)],
        )

    return registry


def _whole_number(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"expected a whole number, got {word!r}") from None


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"expected a number, got {word!r}") from None


def _path(word: str) -> Path:
    if not word or "\0" in word:
        raise ValueError(f"expected the name of a file or folder, got {word!r}")
    return Path(word)


READERS: dict[type, Callable[[str], Any]] = {int: _whole_number, float: _number, str: str, Path: _path}
