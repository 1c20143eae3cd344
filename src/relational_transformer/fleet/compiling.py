"""Whether and how functions are compiled. Compiling takes most of a minute, so short runs on a CPU are not compiled. On
CUDA the compiler is given `OPTIONS`, and other ones where Triton fails."""

import copy
import functools
import logging
import shutil
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import FunctionType, MethodType
from typing import Any, Literal

import torch
from torch.fx import GraphModule

CompileMode = Literal["auto", "on", "off"]

STEPS_THAT_PAY = 5_000
"""The number of training steps on a CPU from which compiling saves more time than it takes."""

VERSIONS_OF_A_FUNCTION = 64
"""Versions of a function that the compiler may make, one for each set of shapes; its own limit is 8."""

OPTIONS = {
    "combo_kernels": True,
    "deterministic": True,
    "triton.mix_order_reduction": False,
}
"""Independent small kernels are launched as one. Reductions do not choose their order by measurement, so that a resumed
run adds numbers in the same order. Reductions along different axes are not merged, because merging leaves some
gradients unwritten from torch 2.10 on (https://github.com/pytorch/pytorch/issues/193061)."""

NO_PADDING = {"shape_padding": False, "comprehensive_padding": False}
"""Matrix products of odd sizes are neither padded nor measured for it. With Inductor's defaults (padding and merged
reductions), bfloat16 losses of lobster graphs became NaN on an H200 at about the first group of 51 nodes; which default
was the cause is not known."""

ATTEMPTS = (
    {},
    {"max_fusion_size": 4},
    {"combo_kernels_pointwise_only": True},
    {"combo_kernels_pointwise_only": True, "max_fusion_size": 4},
    {"combo_kernels_pointwise_only": True, "max_fusion_size": 1},
)
"""Options that are tried one after the other where Triton fails: fewer operations in a kernel (the compiler's own limit
is 64), and reductions that are launched one by one.

Triton 3.6 moves a change of layout above the sum that it follows. It then fails ("operand does not dominate this use",
"PassManager::run failed") in some kernels that store several results of a row, each computed from the one before. RT on
`bfs` has such a kernel: it computes a node's logit, the hint that the logit decides, and the encoding of that hint.
With fewer operations in a kernel, these results are computed by several kernels.

Kernels that are launched as one share their block sizes. With RT on `matrix_chain_order`, 98,304 sums of 192 numbers
want blocks of 64 rows; with such blocks, three sums of 1,024 numbers need more shared memory than there is ("out of
resource").
"""

log = logging.getLogger(__name__)


def should_compile(mode: CompileMode, device: torch.device, num_steps: int, *, pays_on_cuda: bool = True) -> bool:
    """Whether to compile. `auto` compiles on CUDA where it pays, and in long runs on a CPU that has a C++ compiler."""
    if mode != "auto":
        return mode == "on"
    if device.type == "cuda":
        return pays_on_cuda
    return num_steps >= STEPS_THAT_PAY and any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def compiled_for(function: Callable[..., Any], device: torch.device, *, even_sizes: bool = False) -> Callable[..., Any]:
    """Compile a function on tensors of fixed shapes. With `even_sizes`, where all are multiples of eight, nothing is
    padded."""
    # In newer versions of torch this setting holds for the current thread alone.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, VERSIONS_OF_A_FUNCTION)
    function = with_own_code(function)
    if device.type != "cuda":
        return torch.compile(function, fullgraph=True, dynamic=False)
    backend = cuda_compiler_of_even_sizes if even_sizes else cuda_compiler
    return torch.compile(function, fullgraph=True, dynamic=False, backend=backend)


def with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a function or method that has a code object of its own.

    The compiler keeps its versions with the code object, which all functions of one `def` share. Without a copy, the
    versions of many fleets in one process would reach its limit, and every call would search them all.

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


def cuda_compiler(graph: GraphModule, inputs: Sequence[Any], patches: dict[str, Any] = OPTIONS) -> Any:
    """A backend of `torch.compile`: Inductor with `patches` of its options; each pass uses the first of `ATTEMPTS` that
    compiles."""
    from torch._inductor import compile_fx  # here, as below: it takes seconds to import

    return compile_fx.compile_fx(graph, inputs, inner_compile=compile_pass, config_patches=patches)  # pyright: ignore[reportArgumentType]


def cuda_compiler_of_even_sizes(graph: GraphModule, inputs: Sequence[Any]) -> Any:
    """`cuda_compiler` without padding, for functions whose large matrix products have sizes that are multiples of
    eight."""
    return cuda_compiler(graph, inputs, {**OPTIONS, **NO_PADDING})


def compile_pass(graph: GraphModule, inputs: Sequence[Any], **arguments: Any) -> Any:
    """Compile a forward or backward pass; where that fails, again with the next of `ATTEMPTS`."""
    from torch._inductor.exc import InductorError

    whole = copy.deepcopy(graph.graph)  # compiling rewrites the graph that it is given
    for options, others in pairwise(ATTEMPTS):
        try:
            return _compile(graph, inputs, options, arguments)
        except InductorError as error:
            log.warning("compiling again with %s, after %s", others, error)
            graph = GraphModule(graph, copy.deepcopy(whole))
    return _compile(graph, inputs, ATTEMPTS[-1], arguments)


def _compile(graph: GraphModule, inputs: Sequence[Any], options: dict[str, Any], arguments: dict[str, Any]) -> Any:
    from torch._inductor import compile_fx, config

    with config.patch(options):
        return compile_fx.compile_fx_inner(graph, inputs, **arguments)
