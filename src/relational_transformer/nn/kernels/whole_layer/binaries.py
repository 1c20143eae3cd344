"""Machine code of kernels: compiled by NVRTC, which comes with torch, kept on disk, and made ahead of its use.

A kernel takes 2 to 5 seconds to compile, and a training run on five sizes of graphs has eleven of them.
"""

import contextlib
import hashlib
import os
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import torch

from relational_transformer.files import cache_folder, write_atomically
from relational_transformer.reading import UnreadableFile, read_bytes

OPTIONS = ("--std=c++17", "-default-device", "-ftz=true")
THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"
"""The variable by which a process is told with how many threads to compile; by default one for two cores."""


class Program(NamedTuple):
    """What machine code is made of: the text in CUDA C++, the name of the kernel in it, and the compute capability
    (such as "90") that it is for."""

    text: str
    name: str
    capability: str

    @property
    def path(self) -> Path:
        """The file that keeps the machine code."""
        versions = (torch.__version__, str(torch.version.cuda), *OPTIONS)
        key = hashlib.sha256("\n".join((*versions, *self)).encode()).hexdigest()
        return cache_folder() / "kernels" / f"{self.name}-{key[:32]}.cubin"


class Binary(NamedTuple):
    """Machine code, and the name of the kernel in it."""

    code: bytes
    name: str


_coming: dict[Program, Future[Binary]] = {}
_queue: deque[Program] = deque()
_lock = threading.Lock()
_threads: set[threading.Thread] = set()


def binary_of(program: Program) -> Binary:
    """The machine code of a kernel: what a thread makes of it or has made, what is on disk, or compiled now."""
    with _lock:
        future = _coming.get(program)
        if future is not None and program in _queue:  # no thread has begun
            _queue.remove(program)
            del _coming[program]
            future = None
    return future.result() if future is not None else _make(program)


def make_ahead(programs: Iterable[Program]) -> None:
    """Let threads make machine code, beginning in this order. A program that ends waits for one kernel of each at
    most."""
    with _lock:
        new = [program for program in dict.fromkeys(programs) if program not in _coming]
        _coming.update((program, Future()) for program in new)
        _queue.extend(new)
        most = int(os.environ.get(THREADS_VARIABLE) or (os.cpu_count() or 1) // 2)
        for _ in range(min(len(_queue), max(1, most) - len(_threads))):
            thread = threading.Thread(target=_work, name="kernels")
            _threads.add(thread)
            thread.start()


def _work() -> None:
    while True:
        with _lock:
            if not _queue or not threading.main_thread().is_alive():
                _threads.discard(threading.current_thread())
                return
            program = _queue.popleft()
            future = _coming[program]
        try:
            future.set_result(_make(program))
        except Exception as error:
            future.set_exception(error)


def _make(program: Program) -> Binary:
    if (kept := _read(program.path)) is not None:
        return kept
    made = _compile(program)
    with contextlib.suppress(OSError):  # it is compiled again the next time
        program.path.parent.mkdir(parents=True, exist_ok=True)
        content = f"{made.name}\n".encode() + made.code
        write_atomically(program.path, lambda path: path.write_bytes(_digest(content) + content))
    return made


def _read(path: Path) -> Binary | None:
    """What a file keeps; None where there is none, or a damaged one."""
    try:
        digest, name, code = read_bytes(path).split(b"\n", 2)
    except (OSError, UnreadableFile, ValueError):
        return None
    return Binary(code, name.decode()) if digest + b"\n" == _digest(name + b"\n" + code) else None


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


def _compile(program: Program) -> Binary:
    from torch.cuda._utils import _nvrtc_compile

    code, name = _nvrtc_compile(program.text, program.name, program.capability, nvcc_options=list(OPTIONS))
    return Binary(code, name)
