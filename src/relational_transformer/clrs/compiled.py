"""Compiles with numba if it is installed; otherwise the same source runs as plain Python.

Compiling all thirty algorithms takes minutes, so the machine code is kept on disk. numba's own cache returns old
code after an edit of a file that a cached function *calls*. Here the name of a cached function has a digest of every
source file that it may contain, so an edited function is always compiled again.

Compiled code lets Python's other threads run, so examples are made beside training. It copies arrays in loops: for an
array that is assigned to a slice, numba compiles a check of sizes, which takes seconds.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

try:
    import numba
except ModuleNotFoundError:
    numba = None

Function = TypeVar("Function", bound=Callable[..., Any])

HAVE_NUMBA = numba is not None


def compiled(function: Function) -> Function:
    """Compile a function for use inside other compiled functions. Without numba it is returned unchanged.

    It is compiled once for all whole numbers: numba would compile it again for every constant that is passed.
    """
    if numba is None:
        return function
    made: Any = numba.njit(function)
    find, without_constants = made.get_call_template, numba.types.unliteral
    made.get_call_template = lambda arguments, names: find(
        tuple(map(without_constants, arguments)), {name: without_constants(kind) for name, kind in names.items()}
    )
    return cast(Function, made)


def compiled_entry(function: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """Compile `function` under its own `name`, with `names` added to its globals, and keep the result on disk.

    The names bind what differs between algorithms (the trace to run), so that one loop serves all of them.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"compiled_entry needs a plain Python function, not {function!r}")
    entry = FunctionType(function.__code__, {**function.__globals__, **names}, name, function.__defaults__)
    entry.__qualname__ = f"{name}_{_source_digest(function.__code__.co_filename)}"
    if numba is None:
        return entry
    try:
        return numba.njit(cache=True, nogil=True)(entry)
    except RuntimeError:  # there is no folder that numba could write to
        return numba.njit(nogil=True)(entry)


def entry(function: Function) -> Function:
    """Compile a function that Python calls, and keep the result on disk."""
    return cast(Function, compiled_entry(function, function.__name__))


@functools.cache
def _source_digest(own_file: str) -> str:
    """The digest of the file of an entry, of this file, and of those whose functions the entry may call."""
    folder = Path(__file__).parent
    sha = hashlib.sha256()
    for path in (
        Path(own_file),
        Path(__file__),
        folder / "samples" / "random.py",
        *sorted((folder / "algorithms").rglob("*.py")),
    ):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:16]
