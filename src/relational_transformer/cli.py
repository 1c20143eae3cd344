"""`rt`: the command line. It finds the command, reads its arguments, and turns a user's mistake into one line.

Exit status: 0 done, 2 a mistake in the command, 3 a run in which every seed has failed, 130 stopped with Ctrl-C, 1 any
other error, with its traceback. A closed pipe (`rt report | head -1`) is status 1 without a message.
"""

import contextlib
import importlib
import inspect
import os
import re
import select
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from relational_transformer import __version__, commands
from relational_transformer.command_line import read_arguments

FAILURE, MISTAKE, DIVERGED, INTERRUPTED = 1, 2, 3, 130
LONGEST_LINE = 1_000
TRACEBACK_VARIABLE = "RT_TRACEBACK"
OUT_OF_MEMORY = re.compile("can't allocate memory|out of memory")
"""Torch's messages on a CPU and on a GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `rt` with these arguments (those of the process by default) and return its exit status."""
    status = _shielded(list(sys.argv[1:] if arguments is None else arguments))
    try:
        if sys.stdout is not None:  # it is None where a shell has closed it
            sys.stdout.flush()  # here, while an error can still be reported
    except OSError as error:
        _forget_output()
        if isinstance(error, BrokenPipeError) or status:  # an error was printed already
            return status or FAILURE
        return _say(f"the output cannot be written: {explain(error)}", MISTAKE)
    return status


def _shielded(arguments: Sequence[str]) -> int:
    """Run a command. Turn whatever it raises into an exit status and a line, except for bugs."""
    try:
        return carry_out(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else _say(str(stop.code), FAILURE)
    except KeyboardInterrupt as stop:
        return _say(str(stop) or "stopped", INTERRUPTED)
    except FloatingPointError as error:
        return _say(str(error), DIVERGED)
    except MemoryError as error:
        return _say(f"there is not enough memory for this ({error or 'no more is known'})", MISTAKE)
    except RuntimeError as error:
        if not OUT_OF_MEMORY.search(str(error)) or os.environ.get(TRACEBACK_VARIABLE):
            raise
        return _say(f"there is not enough memory for this ({str(error).splitlines()[0]})", MISTAKE)
    except BrokenPipeError:
        if not _is_output_closed():  # another pipe
            raise
        return FAILURE
    except (ValueError, OSError, ModuleNotFoundError) as error:
        explanation = explain(error)
        if explanation is None or os.environ.get(TRACEBACK_VARIABLE):
            raise
        return _say(explanation, MISTAKE)


def carry_out(arguments: Sequence[str]) -> int:
    """Print the help or the version, or run a command."""
    if not arguments:
        print(help_text(), file=sys.stderr)
        return MISTAKE
    name, *rest = arguments
    if name in ("-h", "--help"):
        print(help_text())
    elif name == "--version":
        print(f"relational-attention {__version__}")
    else:
        run_command(name, rest)
    return 0


def run_command(name: str, arguments: Sequence[str]) -> None:
    """Import the command `name`, read its arguments into its dataclass, and run it.

    If the first argument names a variant of the command (`rt train lobster`), the variant is run.
    """
    offered = commands.available()
    if name not in offered:
        raise ValueError(f"there is no command {name!r}; the commands are: {', '.join(offered)}")
    words, command = [name], offered[name]
    if arguments and arguments[0] in command.variants:
        words, command, arguments = [name, arguments[0]], command.variants[arguments[0]], arguments[1:]
    module: Any = importlib.import_module(f"{commands.__name__}.{'_'.join(words)}")
    arguments_class = getattr(module, f"{''.join(map(str.capitalize, words))}Arguments")
    others = [f"  rt {name} {key} --help: {variant.summary}." for key, variant in command.variants.items()]
    examples = [f"  {example}" for example in (command.example, *command.more)]
    description = "\n\n".join(
        [
            f"{inspect.getdoc(arguments_class)}",
            *(["\n".join(["Other tasks have options of their own:", *others])] if others else ()),
            "\n".join(["Examples:", *examples]),
        ]
    )
    default = module.defaults(arguments) if hasattr(module, "defaults") else None
    module.run(read_arguments(arguments_class, arguments, f"rt {' '.join(words)}", description, default))


def help_text() -> str:
    """What `rt --help` prints: an example of every command, and what it is for."""
    offered = [one for command in commands.available().values() for one in (command, *command.variants.values())]
    width = max((len(command.example) for command in offered), default=0)
    lines = [f"  {command.example:{width}}   {command.summary}" for command in offered]
    return "\n".join(
        [
            "rt: the Relational Transformer, its benchmarks and its experiments.",
            "",
            "usage: rt COMMAND [arguments]",
            "",
            "Commands, by example:",
            "",
            *lines,
            "",
            "rt train --help or rt train lobster --help explains a command and its options.",
            "rt --version prints the version.",
            "",
            f"A mistake in a command ends with one line and status 2; {TRACEBACK_VARIABLE}=1 adds a traceback.",
        ]
    )


def explain(error: Exception) -> str | None:
    """One sentence on a user's mistake or an error of the system; None for a bug."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"there is no file or folder {str(error.filename)!r}"
    if isinstance(error, OSError) and error.strerror is not None:
        place = f" ({str(error.filename)!r})" if error.filename is not None else ""
        return f"{error.strerror[0].lower()}{error.strerror[1:]}{place}"
    message = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError) and "pip install" not in message:
        extra = extra_of(error.name)
        return extra and f"this needs {error.name}: pip install '.[{extra}]' in a checkout"
    return message or f"{type(error).__name__}, with no message"


def extra_of(module: str | None) -> str | None:
    """The extra of this package that installs `module`, by the package's metadata; None where there is none."""
    root = (module or "").partition(".")[0]
    for requirement in _requirements():
        match = re.match(r"([\w-]+).*;\s*extra\s*==\s*['\"](\w+)['\"]", requirement)
        if match and match[1].replace("-", "_").lower() == root and match[2] not in ("all", "dev"):
            return match[2]
    return None


def _requirements() -> list[str]:
    try:
        return metadata.requires("relational-attention") or []
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return []


def _say(message: str, status: int) -> int:
    """Print a message on stderr, made one printable line."""
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in message)
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    with contextlib.suppress(OSError):  # standard error may be closed
        print(f"rt: {line}", file=sys.stderr, flush=True)
    return status


def _is_output_closed() -> bool:
    """Whether standard output is a pipe that its reader has closed."""
    try:
        ready = select.poll()
        ready.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in ready.poll(0))
    except (AttributeError, OSError, ValueError):  # it is closed, or no file of the system
        return False


def _forget_output() -> None:
    """Discard unwritten output, which Python would try to write again at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
