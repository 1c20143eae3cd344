"""Before anything else is imported: without a GPU, Triton's kernels run on the CPU through its interpreter."""

import functools
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest
import torch

from tests.traps.trap import Traps

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which any test may do

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell that runs the tests in the background has them ignore Ctrl-C, and all processes that they start and stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Whatever other tests have drawn in the process."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    """What other tests of the process have compiled would count towards torch's limit of recompilations."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_not_looked_at_again() -> None:
    """A run collects garbage before it begins. That takes longer than a small run where torch's compiler has been used,
    so objects that are there before the tests of a module are left out from then on."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture
def traced(monkeypatch) -> list[torch.fx.GraphModule]:
    """The graphs that `torch.compile` makes from now on, traced whole and run as they are, without a C++ compiler: what
    is compiled on a GPU is the same functions."""
    graphs: list[torch.fx.GraphModule] = []

    def note(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=note))
    return graphs


@pytest.fixture
def traps(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Traps:
    """Traps for all processes that the test starts from here on."""
    traps = Traps(tmp_path_factory.mktemp("traps"))
    for name, value in traps.environment.items():
        monkeypatch.setenv(name, value)
    return traps
