"""The sources of the kernels, and their launch; they are compiled on first use, or ahead of it (`binaries.py`)."""

import ctypes
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .parameters import CHANNELS

ALL_SHARED_BYTES = 227 * 1024
"""All that a block of compute capability 9.0 may have."""


class Block(NamedTuple):
    """The threads of a block, and its shared memory. That of a whole layer: edges fill a multiprocessor anyway."""

    threads: int = 256
    shared_bytes: int = ALL_SHARED_BYTES


WHOLE_LAYER = Block()


class Source(NamedTuple):
    """The file of a kernel, and what is defined for it besides what it is compiled for."""

    file: str
    defined: dict[str, int]


SOURCES = {
    "layer_forward": Source("forward.cuh", {"KEEPS": 1}),
    "layer_inference": Source("forward.cuh", {"KEEPS": 0}),
    "layer_backward": Source("backward.cuh", {}),
    "attention_rows": Source("../rows/attention.cuh", {}),
    "attention_backward_rows": Source("../rows/attention_backward.cuh", {}),
    "edge_update_rows": Source("../rows/edge_update.cuh", {}),
    "edge_backward_rows": Source("../rows/edge_backward.cuh", {}),
}

INCLUDE = re.compile(r'^#include "(.*\.cuh)"\n', re.MULTILINE)


class Kernel(NamedTuple):
    """One of `SOURCES`, compiled for a number of channels. A whole layer is also compiled for a number of nodes, with
    an edge update or without."""

    name: str
    nodes: int = 0
    update_edges: bool = False
    channels: int = CHANNELS


Launch = Callable[[Kernel, tuple[int, int], Sequence[Any], Block], None]
"""Runs a kernel on a grid (graphs, or blocks that share them; seeds), with ctypes arguments."""

_on_cpu: Launch | None = None


def set_emulator(launch: Launch | None) -> None:
    """Set a function that runs the kernels on CPU tensors. Only tests have one."""
    global _on_cpu
    _on_cpu = launch


def has_emulator() -> bool:
    return _on_cpu is not None


def launch(
    kernel: Kernel, grid: tuple[int, int], arguments: Sequence[Any], device: torch.device, block: Block = WHOLE_LAYER
) -> None:
    """Run `kernel` on the current stream of the device."""
    if device.type == "cpu":
        assert _on_cpu is not None
        _on_cpu(kernel, grid, arguments, block)
        return
    from torch.cuda import _utils as cuda

    addresses = (ctypes.c_void_p * len(arguments))(
        *(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p) for argument in arguments)
    )
    with torch.cuda.device(device):
        _bind_context(torch.cuda.current_device())
        function = _compiled(kernel, torch.cuda.current_device()).func
        stream = torch.cuda.current_stream()._as_parameter_
        cuda._check_cuda(
            cuda._get_gpu_runtime_library().cuLaunchKernel(
                function, *grid, 1, block.threads, 1, 1, block.shared_bytes, stream, addresses, None
            )
        )


def _bind_context(device: int) -> None:
    """Give this thread the device's context if it has none yet. A thread of autograd has none before torch's first call
    in it, and functions of the driver do not create one."""
    from torch.cuda import _utils as cuda

    driver, context = cuda._get_gpu_runtime_library(), ctypes.c_void_p()
    cuda._check_cuda(driver.cuCtxGetCurrent(ctypes.byref(context)))
    if not context:
        cuda._check_cuda(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        cuda._check_cuda(driver.cuCtxSetCurrent(context))


def compile_ahead(kernels: Iterable[Kernel], device: torch.device) -> None:
    """Let a thread compile kernels for a device, in this order; nothing on a CPU."""
    if device.type == "cuda":
        from .binaries import make_ahead

        make_ahead(program_of(kernel, device) for kernel in kernels)


@cache
def _compiled(kernel: Kernel, device: int) -> Any:
    from torch.cuda import _utils as cuda

    from .binaries import binary_of

    code, name = binary_of(program_of(kernel, torch.device("cuda", device)))
    loaded: Any = cuda._cuda_load_module(code, [name])
    loaded[name].set_shared_memory_config(ALL_SHARED_BYTES)
    return loaded[name]


def program_of(kernel: Kernel, device: torch.device) -> Any:
    """A kernel for the generation of a device."""
    from .binaries import Program

    major, minor = torch.cuda.get_device_capability(device)
    return Program(source_of(kernel), kernel.name, f"{major}{minor}")


def source_of(kernel: Kernel) -> str:
    """The whole source of a kernel, in one piece."""
    source = SOURCES[kernel.name]
    defined = {"CHANNELS": kernel.channels}
    if kernel.nodes:
        defined |= {"NODES": kernel.nodes, "UPDATE_EDGES": int(kernel.update_edges)}
    defined |= source.defined
    text = _with_included((Path(__file__).parent / source.file).resolve(), set())
    return "".join(f"#define {name} {value}\n" for name, value in defined.items()) + text


def _with_included(file: Path, seen: set[Path]) -> str:
    """The text of a file with those of ours that it includes in their places, each once: NVRTC sees no folder."""
    if file in seen:
        return ""
    seen.add(file)
    text = file.read_text().replace("#pragma once\n", "")
    return INCLUDE.sub(lambda found: _with_included((file.parent / found[1]).resolve(), seen), text)
