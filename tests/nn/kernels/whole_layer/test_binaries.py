"""Machine code of kernels: kept on disk, and made ahead."""

import threading
from collections.abc import Callable

import pytest
import torch

from relational_transformer.nn.kernels.whole_layer import binaries
from relational_transformer.nn.kernels.whole_layer.binaries import Binary, Program, binary_of, make_ahead
from relational_transformer.nn.kernels.whole_layer.launching import SOURCES, Kernel, source_of

FIRST, SECOND, THIRD = (Program(text, "layer", "90") for text in ("first", "second", "third"))
MINUTES = 300.0
"""A limit that only prevents a test from hanging for ever."""


def machine_code(program: Program) -> Binary:
    return Binary(f"\0{program.text}\n".encode(), program.name)


@pytest.fixture
def compiled(monkeypatch, tmp_path) -> list[Program]:
    """An empty cache, and a compiler that notes what it compiles, in one thread besides that of the test."""
    done: list[Program] = []
    monkeypatch.setenv("RT_CACHE", str(tmp_path))
    monkeypatch.setenv(binaries.THREADS_VARIABLE, "1")
    monkeypatch.setattr(binaries, "_coming", {})
    monkeypatch.setattr(binaries, "_compile", lambda program: done.append(program) or machine_code(program))
    return done


@pytest.fixture
def held(monkeypatch, compiled) -> tuple[threading.Event, threading.Event]:
    """The compiler of the thread waits: an event that it has begun, and one that lets it go on."""
    begun, may_end = threading.Event(), threading.Event()
    at_once: Callable[[Program], Binary] = binaries._compile

    def wait(program: Program) -> Binary:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert may_end.wait(MINUTES)
        return at_once(program)

    monkeypatch.setattr(binaries, "_compile", wait)
    return begun, may_end


def wait_for_the_threads() -> None:
    for thread in list(binaries._threads):
        thread.join(MINUTES)


def test_machine_code_is_compiled_once_for_all_processes(compiled):
    assert binary_of(FIRST) == binary_of(FIRST) == machine_code(FIRST)
    assert compiled == [FIRST]


def test_other_texts_generations_and_versions_have_machine_code_of_their_own(monkeypatch):
    others = [FIRST._replace(text="other"), FIRST._replace(name="other"), FIRST._replace(capability="100")]
    paths = [program.path for program in (FIRST, *others)]
    monkeypatch.setattr(torch, "__version__", "another")
    assert len({*paths, FIRST.path}) == 5


@pytest.mark.parametrize("content", [b"", b"\n\n", b"short", "other"], ids=str)
def test_a_damaged_file_is_made_anew(compiled, content):
    binary_of(FIRST)
    if isinstance(content, str):  # a byte at the end
        content = FIRST.path.read_bytes()[:-1] + b"?"
    FIRST.path.write_bytes(content)
    assert binary_of(FIRST) == machine_code(FIRST)
    assert compiled == [FIRST, FIRST]


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(compiled, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RT_CACHE", str(tmp_path / "file"))
    assert binary_of(FIRST) == machine_code(FIRST)


def test_a_thread_makes_all_in_their_order_and_each_once(compiled):
    make_ahead([FIRST, SECOND, FIRST])
    make_ahead([SECOND, THIRD])
    wait_for_the_threads()
    assert compiled == [FIRST, SECOND, THIRD]
    assert [binary_of(program) for program in compiled] == [machine_code(program) for program in compiled]
    assert len(compiled) == 3


def test_as_many_threads_as_there_may_be_compile_at_the_same_time(compiled, monkeypatch):
    monkeypatch.setenv(binaries.THREADS_VARIABLE, "2")
    both = threading.Barrier(2)
    at_once: Callable[[Program], Binary] = binaries._compile

    def meet(program: Program) -> Binary:
        both.wait(MINUTES)
        return at_once(program)

    monkeypatch.setattr(binaries, "_compile", meet)
    fourth = THIRD._replace(text="fourth")
    make_ahead([FIRST, SECOND, THIRD, fourth])
    assert len(binaries._threads) <= 2
    wait_for_the_threads()
    assert sorted(compiled) == sorted([FIRST, SECOND, THIRD, fourth])


def test_what_the_thread_has_begun_is_waited_for_and_what_it_has_not_is_made_at_once(compiled, held):
    begun, may_end = held
    make_ahead([FIRST, SECOND, THIRD])
    assert begun.wait(MINUTES)
    assert binary_of(SECOND) == machine_code(SECOND)
    assert compiled == [SECOND]
    may_end.set()
    assert binary_of(FIRST) == machine_code(FIRST)
    wait_for_the_threads()
    assert compiled == [SECOND, FIRST, THIRD]


def test_an_error_of_the_compiler_is_raised_where_the_kernel_is_needed(compiled, monkeypatch):
    def fail(program: Program) -> Binary:
        raise RuntimeError(f"no such word: {program.text}")

    monkeypatch.setattr(binaries, "_compile", fail)
    make_ahead([FIRST])
    wait_for_the_threads()
    with pytest.raises(RuntimeError, match="no such word: first"):
        binary_of(FIRST)


@pytest.mark.skipif(torch.version.cuda is None, reason="needs a build of torch with CUDA, though no device")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOURCES)
def test_kernels_compile_for_hopper_also_where_no_device_is(name: str):
    for nodes in (4, 20):
        code, entry = binaries._compile(Program(source_of(Kernel(name, nodes, True)), name, "90"))
        assert code.startswith(b"\x7fELF")
        assert entry.encode() in code
