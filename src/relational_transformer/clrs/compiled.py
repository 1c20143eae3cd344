"""numba where it is installed, plain Python where it is not: the same source runs either way.

Compiling all thirty algorithms takes minutes, so the machine code is kept on disk. numba's own cache would go on
answering with old code after a file that a cached function *calls* was edited; here the cached functions carry a digest
of every source file that can end up in them, so an edit is always seen.

While compiled code runs, Python's other threads do, too: examples are made beside training.
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
    """Compile a function for use inside other compiled functions; without numba, leave it as it is."""
    return function if numba is None else cast(Function, numba.njit(function))


def compiled_entry(function: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """Compile `function` under its own `name`, with `names` added to its globals, and keep the result on disk.

    The names bind what differs from one algorithm to the next (the trace to run), so that one loop serves all of them.
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
    """Digest of the file an entry stands in, of this one, and of those whose functions it may call."""
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
