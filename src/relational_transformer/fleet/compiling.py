"""Whether to compile and how: it takes most of a minute, so short runs on a CPU do without."""

import functools
import shutil
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Literal

import torch

CompileMode = Literal["auto", "on", "off"]

STEPS_THAT_PAY = 5_000
"""Training steps on a CPU from which on compiling saves more time than it takes."""

VERSIONS_OF_A_FUNCTION = 64
"""The compiler gives up on a function after 8 versions; every shape that it is called with is one."""


def should_compile(mode: CompileMode, device: torch.device, num_steps: int) -> bool:
    """Decide; `auto` compiles on CUDA, and on a CPU with a C++ compiler if the run is long."""
    if mode != "auto":
        return mode == "on"
    if device.type == "cuda":
        return True
    return num_steps >= STEPS_THAT_PAY and any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def compiled_for(function: Callable[..., Any], device: torch.device, *, even_sizes: bool = False) -> Callable[..., Any]:
    """A function on tensors of fixed shapes, compiled; `even_sizes` are multiples of eight, which nothing need pad."""
    # In newer versions of torch what is set here holds for this thread alone.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, VERSIONS_OF_A_FUNCTION)
    function = with_own_code(function)
    if device.type != "cuda":
        return torch.compile(function, fullgraph=True, dynamic=False)
    from .cuda_compiler import cuda_compiler, cuda_compiler_of_even_sizes  # here: it takes seconds to import

    backend = cuda_compiler_of_even_sizes if even_sizes else cuda_compiler
    return torch.compile(function, fullgraph=True, dynamic=False, backend=backend)


def with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function or method with a code object that no other function has; all else that is called stays.

    The compiler keeps its versions with the code, which all functions of one `def` share: those of many fleets in one
    process would come to its limit, and be looked through at every call.

    >>> def double(x):
    ...     return 2 * x
    >>> with_own_code(double)(4), with_own_code(double).__code__ is double.__code__
    (8, False)
    """
    if isinstance(function, MethodType):
        return MethodType(with_own_code(function.__func__), function.__self__)
    if not isinstance(function, FunctionType):
        return function
    code, name = function.__code__.replace(), function.__name__
    copy = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copy, function)
