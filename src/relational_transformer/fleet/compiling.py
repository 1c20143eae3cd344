"""Whether to compile and how: it takes most of a minute, so short runs on a CPU do without. On CUDA the compiler has
options, and other kernels where Triton fails."""

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
"""Training steps on a CPU from which on compiling saves more time than it takes."""

VERSIONS_OF_A_FUNCTION = 64
"""The compiler gives up on a function after 8 versions; every shape that it is called with is one."""

OPTIONS = {
    "combo_kernels": True,
    "deterministic": True,
    "triton.mix_order_reduction": False,
}
"""Small kernels that do not depend on each other are launched as one, and the order in which numbers are added up is
not left to what a measurement found fastest, so that a run that is resumed adds as before. Reductions along different
axes are not merged, which leaves some gradients unwritten (https://github.com/pytorch/pytorch/issues/193061, from torch
2.10 on; no kernel of a training step of three seeds was such a one)."""

NO_PADDING = {"shape_padding": False, "comprehensive_padding": False}
"""No time goes into trying whether odd matrix products would be faster padded, and nothing is padded inside. With
Inductor's defaults, these and merged reductions, bfloat16 losses of lobster graphs became NaN on an H200 at about the
first group of 51 nodes; which of them it was is not known."""

ATTEMPTS = (
    {},
    {"max_fusion_size": 4},
    {"combo_kernels_pointwise_only": True},
    {"combo_kernels_pointwise_only": True, "max_fusion_size": 4},
    {"combo_kernels_pointwise_only": True, "max_fusion_size": 1},
)
"""What is tried in turn where Triton fails: fewer operations to a kernel (the compiler's own limit is 64), and sums
that are each launched alone.

Triton 3.6 moves a change of layout above the sum that it follows, and fails ("operand does not dominate this use",
"PassManager::run failed") in some kernels that store several results of a row, each made of the one before. That is so
with RT on `bfs`, where a node's logit, the hint it decides and the reading of that hint are one kernel; which kernels
are struck depends on the order of their stores. With fewer operations to a kernel such results lie in several.

Kernels that are launched as one share their block sizes. With RT on `matrix_chain_order` 98,304 sums of 192 numbers ask
for 64 rows to a block, and three sums of 1,024, taken whole, then for more shared memory than there is ("out of
resource").
"""

log = logging.getLogger(__name__)


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


def cuda_compiler(graph: GraphModule, inputs: Sequence[Any]) -> Any:
    """A backend of `torch.compile`: Inductor with `OPTIONS`, every pass by the first of `ATTEMPTS` that works."""
    from torch._inductor import compile_fx  # here, as below: it takes seconds to import

    return compile_fx.compile_fx(graph, inputs, inner_compile=compile_pass, config_patches=OPTIONS)  # pyright: ignore[reportArgumentType]


def cuda_compiler_of_even_sizes(graph: GraphModule, inputs: Sequence[Any]) -> Any:
    """The same where all sizes of large products are multiples of eight, as an edge update makes its own in half
    precision: `NO_PADDING`."""
    from torch._inductor import compile_fx

    return compile_fx.compile_fx(graph, inputs, inner_compile=compile_pass, config_patches={**OPTIONS, **NO_PADDING})  # pyright: ignore[reportArgumentType]


def compile_pass(graph: GraphModule, inputs: Sequence[Any], **arguments: Any) -> Any:
    """Compile a forward or backward pass, with other kernels after a failure."""
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
