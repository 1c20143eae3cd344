"""CUDA graphs on a CPU: a capture notes every operation with the tensors that it reads and writes, a replay does the
same operations on the same tensors again. So a replay sees what has changed at an address since, and no Python. Kernels
of layers that run in the emulator are noted with the addresses that they were given.

What CUDA refuses during a capture is refused here, too: reading a number of the device, data of the host, chance.
"""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock
from weakref import WeakSet

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from relational_transformer.nn.kernels.whole_layer import launching

CUDA = SimpleNamespace(type="cuda", index=0)
"""Stands for the device."""

REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "lift_fresh", "is_pinned")


class Recorder(TorchDispatchMode):
    """Notes the operations that are done within."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[Any]]] = []
        self.emulator = launching._on_cpu

    def __enter__(self) -> Any:
        if self.emulator is not None:
            launching.set_emulator(self._launch)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        launching.set_emulator(self.emulator)

    def _launch(self, *arguments: Any) -> None:
        assert self.emulator is not None
        self.emulator(*arguments)
        self.operations.append((self.emulator, arguments, {}, []))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.removeprefix("aten::") in REFUSED or torch.Tag.nondeterministic_seeded in func.tags:
            raise RuntimeError(f"{func} is not permitted when a stream is capturing")
        made = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, tree_leaves(made)))
        return made


class FakeGraph:
    """What `torch.cuda.CUDAGraph` is to a capture."""

    captured = 0
    of_pools: ClassVar[dict[Any, WeakSet[Any]]] = {}

    def __init__(self) -> None:
        self.recorder = Recorder()

    def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
        assert capture_error_mode == "thread_local"
        assert pool not in self.of_pools or len(self.of_pools[pool]), "torch refuses a pool whose graphs are all gone"
        self.of_pools.setdefault(pool, WeakSet()).add(self)
        self.recorder.__enter__()

    def capture_end(self) -> None:
        self.recorder.__exit__(None, None, None)
        FakeGraph.captured += 1

    @torch.no_grad()
    def replay(self) -> None:
        for func, args, kwargs, before in self.recorder.operations:
            made = tree_leaves(func(*args, **kwargs))
            if not isinstance(func, OpOverload):
                continue
            for result, place, described in zip(made, before, func._schema.returns, strict=False):
                if described.alias_info is None and isinstance(place, Tensor):  # no view, and not in place
                    place.copy_(result)


@contextmanager
def fake_graphs() -> Iterator[type[FakeGraph]]:
    """Within the block `fleet.graphs.record` captures on the CPU."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    answers = {
        "CUDAGraph": FakeGraph,
        "Stream": lambda device: stream,
        "current_stream": lambda device: stream,
        "default_stream": lambda device: None,
        "stream": lambda stream: nullcontext(),
        "memory_reserved": lambda device: 0,
        "mem_get_info": lambda device: (2**60, 2**60),
        "graph_pool_handle": partial(next, itertools.count()),
    }
    FakeGraph.captured = 0
    FakeGraph.of_pools.clear()
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        yield FakeGraph
