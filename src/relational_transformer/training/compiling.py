"""Whether to compile and how: it takes most of a minute, so short runs on a CPU do without."""

import shutil
from collections.abc import Callable
from typing import Any

import torch

from .config import CompileMode

STEPS_THAT_PAY = 5_000
"""Training steps on a CPU from which on compiling saves more time than it takes."""


MODELS_IN_ONE_PROCESS = 64
"""The compiler gives up on a function after 8 versions; every fleet of another size is one."""


def should_compile(mode: CompileMode, device: torch.device, num_steps: int) -> bool:
    """Decide; `auto` compiles on CUDA, and on a CPU with a C++ compiler if the run is long."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MODELS_IN_ONE_PROCESS)
    if mode != "auto":
        return mode == "on"
    if device.type == "cuda":
        return True
    return num_steps >= STEPS_THAT_PAY and any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def compiled_for(function: Callable[..., Any], device: torch.device, *, even_sizes: bool = False) -> Callable[..., Any]:
    """A function on tensors of fixed shapes, compiled; `even_sizes` are multiples of eight, which nothing need pad."""
    if device.type != "cuda":
        return torch.compile(function, fullgraph=True, dynamic=False)
    from .cuda_compiler import cuda_compiler, cuda_compiler_of_even_sizes  # here: it takes seconds to import

    backend = cuda_compiler_of_even_sizes if even_sizes else cuda_compiler
    return torch.compile(function, fullgraph=True, dynamic=False, backend=backend)
