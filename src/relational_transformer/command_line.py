"""Reads the arguments of a command into its dataclass, with tyro. A mistake is a ValueError of one sentence."""

import ast
import contextlib
import dataclasses
import inspect
import io
import itertools
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Arguments = TypeVar("Arguments")

MISTAKE = 2
"""The exit status of tyro where it could not read the arguments."""
MOST_COLUMNS = 120
"""Of a help. In more than 129 columns tyro puts groups of options side by side."""
STYLES = re.compile(r"\x1b\[[0-9;]*m")
BORDERS = "│ \n"
RULE = re.compile(r"[─╭╮╰╯-]*")
MISSING = re.compile(r"^Missing from .*?: (--[\w-]+(?= [A-Z])|\w+)(?:(?<=[a-z]) [A-Z]+)? (\w)(.*?)\.? \(required\)$")
"""Tyro's words on an argument that was not given: its name, the type of an option, and its description."""


def read_arguments(
    kind: type[Arguments], arguments: Sequence[str], program: str, description: str, default: Arguments | None = None
) -> Arguments:
    """Read a command line into the dataclass `kind`, with other defaults from `default`. With --help, print the
    description and the help, and exit."""
    import tyro  # here, because it comes with an extra

    options: dict[str, Any] = {} if default is None else {"default": default}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), _columns_for(arguments):
            if _asks_for_help(arguments):
                print(_filled(description), end="\n\n")
            return tyro.cli(
                kind,
                args=arguments,
                **options,
                prog=program,
                description="",  # is printed above, because tyro does not fill its lines
                registry=_rules(),
                config=(tyro.conf.PositionalMetavarFromFieldName, tyro.conf.OmitArgPrefixes),
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
    for word, following in itertools.pairwise([*words, ""]):
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
    sentence = sentence.replace(". Expected 1 values", "").replace(". Expected", "; expected")
    sentence = re.sub(r"one of \((.*?),?\)", lambda choices: "one of " + choices[1].replace("'", ""), sentence)
    sentence = MISSING.sub(lambda parts: f"{parts[1]} is missing: {parts[2].lower()}{parts[3]}", sentence)
    sentence = re.sub(r"^[A-Z](?=[a-z])", lambda letter: letter[0].lower(), sentence)
    meant = [option[0] for part in others for line in part if (option := re.match(r"--[\w-]+", line))]
    if sentence.startswith("unrecognized") and meant:
        sentence += f"; did you mean {' or '.join(dict.fromkeys(meant))}?"
    return sentence


@contextlib.contextmanager
def _columns_for(arguments: Sequence[str]) -> Iterator[None]:
    """Pretend that the terminal has few enough columns for a help whose groups stand below one another, or so many that
    no line of an error is broken."""
    before = os.environ.get("COLUMNS")
    columns = min(shutil.get_terminal_size().columns, MOST_COLUMNS) if _asks_for_help(arguments) else 1_000_000
    os.environ["COLUMNS"] = str(columns)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _asks_for_help(arguments: Sequence[str]) -> bool:
    return bool({"-h", "--help"} & set(arguments))


def _filled(description: str) -> str:
    """The paragraphs in lines that fit into the terminal. Lines that are indented stay as they are."""
    width = shutil.get_terminal_size().columns
    paragraphs = description.split("\n\n")
    return "\n\n".join(one if re.search(r"^ ", one, re.MULTILINE) else textwrap.fill(one, width) for one in paragraphs)


def _rules() -> Any:
    """Rules for tyro: numbers, paths and choices with plain error messages, shown without the None of `int | None`; and
    fields with their docstrings, in whose place tyro would keep the line breaks of the source."""
    from tyro.constructors import ConstructorRegistry

    registry = ConstructorRegistry()
    registry.primitive_rule(_plain_value)
    registry.struct_rule(_documented_fields)
    return registry


def _plain_value(info: Any) -> Any:
    from tyro.constructors import PrimitiveConstructorSpec

    kind: Any = info.type
    if get_origin(kind) in (Union, UnionType) and len(get_args(kind)) == 2 and NoneType in get_args(kind):
        kind = next(one for one in get_args(kind) if one is not NoneType)
        if get_origin(kind) is Literal:
            return PrimitiveConstructorSpec(
                nargs=1,
                metavar=f"{{{','.join(get_args(kind))}}}",
                instance_from_str=lambda words: words[0],
                is_instance=lambda value: value is None or value in get_args(kind),
                str_from_instance=lambda value: [str(value)],
                choices=get_args(kind),
            )
    if not isinstance(kind, type) or kind not in READERS:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=lambda words: READERS[kind](words[0]),
        is_instance=lambda value: isinstance(value, kind) or (value is None and kind is not info.type),
        str_from_instance=lambda value: [str(value)],
    )


def _documented_fields(info: Any) -> Any:
    import tyro
    from tyro.constructors import StructConstructorSpec, StructFieldSpec

    if not (isinstance(info.type, type) and dataclasses.is_dataclass(info.type)):
        return None
    docs, hints = field_docs(info.type), get_type_hints(info.type, include_extras=True)

    def default(field: Any) -> Any:
        if isinstance(info.default, info.type):
            return getattr(info.default, field.name)
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        return tyro.MISSING if field.default is dataclasses.MISSING else field.default

    def hint(field: Any) -> Any:
        kind = hints[field.name]
        if dataclasses.is_dataclass(get_args(kind)[0] if get_origin(kind) is Annotated else kind):
            return kind
        return Annotated[kind, tyro.conf.arg(help_behavior_hint=_default_hint)]

    fields = dataclasses.fields(info.type)
    return StructConstructorSpec(
        info.type,
        tuple(StructFieldSpec(one.name, hint(one), default(one), docs.get(one.name)) for one in fields),
    )


def _default_hint(label: str) -> str:
    """What the help says of a default. Of None and of an empty tuple it says nothing: their docstrings do."""
    return "" if label in ("None", "") else f"(default: {label})"


def field_docs(kind: type) -> dict[str, str]:
    """The docstring below each field of a dataclass, in one line."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    docs = {}
    for field, below in itertools.pairwise(getattr(definition, "body", ())):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(text.split())
    return docs


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
