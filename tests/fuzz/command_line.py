"""Wrong words on the command line of `rt`.

Each attempt is a command with some options, most of them with odd values. It must be accepted, or refused with status 2
and one line on stderr. Nothing is trained or made: what would do that is replaced by what notes that it was reached. A
few attempts run as processes of their own, with what is replaced replaced there too.
"""

import contextlib
import importlib
import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints
from unittest import mock

from relational_transformer import cli

from .outcome import Outcome

SECONDS = 600
"""An attempt that takes longer hangs; most take a few milliseconds."""
PROCESS_SECONDS = 600
SHARE_OF_PROCESSES = 0.005

WORK = {
    "data": ("_prepare",),
    "train": ("train",),
    "train_lobster": ("train",),
    "train_qm9": ("train",),
    "train_sokoban": ("train",),
    "evaluate": ("find_task", "show_hints"),
    "evaluate_sokoban": ("evaluate_run",),
    "reproduce": ("carry_out", "show_plan"),
    "tune": ("search", "train_winner"),
    "look": ("make_page",),
    "play": ("generate_split", "_play_by_keyboard", "_show", "write_gif"),
    "report": ("write_report",),
}
"""What of each command would take long, or write: reached, the words have been accepted."""

NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "64", "2147483648", "9223372036854775807", "9223372036854775808", "1" + "0" * 30,
    "9" * 5_000, "nan", "inf", "-inf", "1e308", "1e-320", "1e999", "0.5", "-0.0", "0x10", "1_0", "٣", "", " ", "three",
    "None", "1,2", "--",
)  # fmt: skip
WORDS = (
    "", " ", "rt", "bfs", "core", "lobster", "sokoban", "qm9", "main", "paper", "ünïcödé", "🙂", "a" * 10_000, "a\nb",
    "\x1b[2J", "../..", "--", "-", "-h", "None", "True", "\udcff", "%s", "{}", "[red]", "'; --", "RT", "hpu",
)  # fmt: skip
DEVICES = (
    "cpu", "cuda", "cuda:99", "cuda:-1", "cuda:9999999999999999999", "cpu:7", "hpu", "mps", "meta", "auto", "xpu",
    "privateuseone", "mkldnn", "", "GPU", "cpu:", ":", "cuda:x",
)  # fmt: skip
POSITIONAL: dict[str, tuple[str, ...]] = {
    "data": ("bfs", "insertion_sort", "bsf", "dijkstra"),
    "train": ("bfs", "bellman_ford", "quickselect", "bsf", "lobster", "sokoban", "qm9"),
    "evaluate": ("RUN",),
    "evaluate_sokoban": ("RUN",),
    "reproduce": ("main", "edge_updates", "lobster", "sokoban", "qm9", "speed", "parameters", "mian"),
    "tune": ("rt", "mpnn", "gcn"),
    "look": ("RUN",),
    "play": ("sokoban",),
    "report": ("RESULTS",),
}


ARGUMENTS = {
    ("data", "algorithms"), ("train", "task"), ("evaluate", "run"), ("evaluate_sokoban", "run"),
    ("reproduce", "experiment"), ("tune", "model"), ("look", "runs"), ("play", "game"), ("play", "run"),
    ("report", "results"),
}  # fmt: skip
"""Fields of commands that are no options."""


class Reached(BaseException):
    """Instead of the work that a command would begin now. No handler of a command takes it for an error."""


def assault(tries: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """So many attempts, the same for the same seed. Nothing is written outside of `folder`."""
    places = make_places(folder)
    with contextlib.chdir(folder), mock.patch.dict(os.environ, RT_CACHE=str(folder / "cache"), COLUMNS="100"):
        for number in range(tries):
            chance = random.Random(f"{seed} {number}")
            words = command_line(chance, places)
            alone = chance.random() < SHARE_OF_PROCESSES
            yield (attempt_alone if alone else attempt)(words, f"{seed}:{number} rt {described(words)}")


def make_places(folder: Path) -> tuple[str, ...]:
    """Files and folders of all kinds below `folder`; no name leads out of it."""
    (folder / "empty").mkdir()
    (folder / "text").write_text("no run")
    (folder / "binary").write_bytes(bytes(range(256)))
    os.mkfifo(folder / "fifo")
    (folder / "circle").symlink_to("circle")
    (folder / "dangling").symlink_to("nowhere")
    run = folder / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    (folder / "fifo-run").mkdir()
    os.mkfifo(folder / "fifo-run" / "config.json")
    names = [
        "empty",
        "text",
        "binary",
        "fifo",
        "circle",
        "dangling",
        "run",
        "fifo-run",
        "missing",
        "text/below",
        "ü" * 300,
    ]
    with contextlib.suppress(PermissionError):  # which only an administrator may make
        os.mknod(folder / "zero", 0o600 | 0o020000, os.makedev(1, 5))
        names.append("zero")
    return tuple(str(folder / name) for name in names)


def command_line(chance: random.Random, places: tuple[str, ...]) -> list[str]:
    """The words after `rt`."""
    if chance.random() < 0.03:
        return [chance.choice((*WORDS, "--version", "--help", "trian")) for _ in range(chance.randint(0, 2))]
    file = chance.choice(sorted(WORK))
    words = file.split("_")
    for name in chance.sample(POSITIONAL.get(file, ()), min(len(POSITIONAL.get(file, ())), 1)):
        odd = chance.random() < 0.1
        words.append(chance.choice(WORDS) if odd else chance.choice(places) if name.isupper() else name)
    if file in ("play", "look") and chance.random() < 0.5:
        words.append(chance.choice(places))
    options = options_of(file)
    for name in chance.sample(sorted(options), min(len(options), chance.choice((0, 1, 1, 2, 2, 3, 5)))):
        words += option(name, options[name], chance, places)
    if file == "reproduce" and chance.random() < 0.7:
        words.append("--plan")
    if chance.random() < 0.03:
        words.append(chance.choice(("--no-such-option", "--sedes", "-x", "extra", "--tyro-print-completion", "--help")))
    return words


def option(name: str, kind: Any, chance: random.Random, places: tuple[str, ...]) -> list[str]:
    """A flag with a value that may be right, or odd; sometimes with none."""
    flag = f"--{name.replace('_', '-')}"
    if kind is bool or chance.random() < 0.03:
        return [flag]
    said = str(kind)
    if name == "device":
        value = chance.choice(DEVICES)
    elif "Path" in said or name == "storage":
        value = chance.choice((*places, *places, "", "new/folder"))
    elif "int" in said or "float" in said:
        whole = "int" in said and chance.random() < 0.85
        value = chance.choice([word for word in NUMBERS if word.lstrip("-").isdecimal()] if whole else NUMBERS)
    elif get_origin(kind) is Literal and chance.random() < 0.85:
        value = chance.choice(get_args(kind))
    else:
        value = chance.choice((*WORDS, "mpnn", "gcn", "test"))
    return [f"{flag}={value}"] if chance.random() < 0.2 else [flag, value]


def options_of(file: str) -> dict[str, Any]:
    """The names of a command's options with their types, those of nested dataclasses included."""
    module = importlib.import_module(f"relational_transformer.commands.{file}")
    return dict(_options(getattr(module, f"{file.title().replace('_', '')}Arguments"), file))


def _options(kind: Any, file: str) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind)
    for one in fields(kind):
        if is_dataclass(hints[one.name]):
            yield from _options(hints[one.name], file)
        elif (file, one.name) not in ARGUMENTS:
            yield one.name, hints[one.name]


def attempt(words: list[str], label: str) -> Outcome:
    """One command line, read here."""
    printed, said = io.StringIO(), io.StringIO()
    try:
        with guarded(SECONDS), without_work(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            status: int | None = cli.main(words)
    except Reached as work:
        return Outcome(label, "accepted", f"begins {work}")
    except TimeoutError:
        return Outcome(label, "hang", f"after {SECONDS} s")
    except BaseException as error:
        return Outcome(label, "traceback", f"{type(error).__name__}: {error}"[:500])
    return judged(label, status, said.getvalue())


def attempt_alone(words: list[str], label: str) -> Outcome:
    """One command line, read by a Python of its own."""
    # What cannot be a word of a process is none here either.
    words = [word.replace("\0", "").encode(errors="replace").decode() for word in words]
    program = (
        "import sys; from tests.fuzz.command_line import Reached, without_work\n"
        "from relational_transformer import cli\n"
        "try:\n    with without_work():\n        sys.exit(cli.main())\nexcept Reached:\n    sys.exit(0)"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, root])}
    try:
        finished = subprocess.run(
            [sys.executable, "-c", program, *words],
            capture_output=True, text=True, errors="replace", env=environment, timeout=PROCESS_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(label, "hang", f"a process of its own, after {PROCESS_SECONDS} s")
    return judged(label, finished.returncode, finished.stderr)


def judged(label: str, status: int | None, said: str) -> Outcome:
    """What a status and what was said on stderr come to."""
    if status == 0:
        return Outcome(label, "accepted")
    is_help = said.startswith("rt: the Relational Transformer") and status == cli.MISTAKE  # of `rt` alone
    is_line = said.startswith("rt: ") and said.count("\n") == 1 and said.endswith("\n")
    right = status == cli.MISTAKE and (is_help or is_line) and "Traceback" not in said
    return Outcome(label, "refused" if right else "traceback", f"status {status}: {said[-500:]}")


@contextlib.contextmanager
def without_work() -> Iterator[None]:
    """The commands with their work replaced."""
    with contextlib.ExitStack() as stack:
        for file, names in WORK.items():
            module = importlib.import_module(f"relational_transformer.commands.{file}")
            for name in names:
                stack.enter_context(mock.patch.object(module, name, reach(f"{file}.{name}")))
        yield


def reach(name: str) -> Callable[..., None]:
    def reached(*arguments: Any, **named: Any) -> None:
        raise Reached(name)

    return reached


@contextlib.contextmanager
def guarded(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer."""

    def stop(*signal_and_frame: object) -> None:
        raise Hanging

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Hanging:
        raise TimeoutError from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Hanging(BaseException):
    """Time is up; no handler of a command takes it for an error."""


def described(words: list[str]) -> str:
    """Words in a line."""
    return " ".join(repr(word) if len(word) <= 60 else f"{word[:20]!r}...({len(word)})" for word in words)
