"""The compiler as it is used on CUDA: options, and smaller kernels where Triton fails on large ones.

Apart from `compiling.py`, because importing the compiler takes seconds.
"""

import copy
import logging
from collections.abc import Sequence
from typing import Any

from torch._inductor import compile_fx, config
from torch._inductor.exc import InductorError
from torch.fx import GraphModule

OPTIONS = {"combo_kernels": True, "deterministic": True, "triton.mix_order_reduction": False}
"""Small kernels that do not depend on each other are launched as one, and the order in which numbers are added up is
not left to what a measurement found fastest, so that a run that is resumed adds as before. Reductions along different
axes are not merged, which leaves some gradients unwritten (https://github.com/pytorch/pytorch/issues/193061, from torch
2.10 on; no kernel of a training step of three seeds was such a one)."""

NO_PADDING = {"shape_padding": False, "comprehensive_padding": False}
"""No time goes into trying whether odd matrix products would be faster padded, and nothing is padded inside. With
Inductor's defaults, these and merged reductions, bfloat16 losses of lobster graphs became NaN on an H200 at about the
first group of 51 nodes; which of them it was is not known."""

MOST_FUSED = (64, 4, 1)
"""How many operations may become one kernel: the compiler's own limit, then what is tried after a failure.

Triton 3.6 moves a change of layout above the sum that it follows, and fails ("operand does not dominate this use",
"PassManager::run failed") in some kernels that store several results of a row, each made of the one before. That is so
with RT on `bfs`, where a node's logit, the hint it decides and the reading of that hint are one kernel; which kernels
are struck depends on the order of their stores. With fewer operations to a kernel such results lie in several.
"""

log = logging.getLogger(__name__)


def cuda_compiler(graph: GraphModule, inputs: Sequence[Any]) -> Any:
    """A backend of `torch.compile`: Inductor with `OPTIONS`, every pass in kernels as large as can be compiled."""
    return compile_fx.compile_fx(graph, inputs, inner_compile=compile_pass, config_patches=OPTIONS)  # pyright: ignore[reportArgumentType]


def cuda_compiler_of_even_sizes(graph: GraphModule, inputs: Sequence[Any]) -> Any:
    """The same where all sizes are multiples of eight: `NO_PADDING`."""
    return compile_fx.compile_fx(graph, inputs, inner_compile=compile_pass, config_patches={**OPTIONS, **NO_PADDING})  # pyright: ignore[reportArgumentType]


def compile_pass(graph: GraphModule, inputs: Sequence[Any], **arguments: Any) -> Any:
    """Compile a forward or backward pass, with smaller kernels after a failure."""
    # Compiling rewrites the graph that it is given, so the later attempts get copies.
    graphs = [graph, *(GraphModule(graph, copy.deepcopy(graph.graph)) for _ in MOST_FUSED[1:])]
    for most, version in zip(MOST_FUSED[:-1], graphs[:-1], strict=True):
        try:
            with config.patch(max_fusion_size=most):
                return compile_fx.compile_fx_inner(version, inputs, **arguments)
        except InductorError as error:
            log.warning("compiling again with smaller kernels, after %s", error)
    with config.patch(max_fusion_size=MOST_FUSED[-1]):
        return compile_fx.compile_fx_inner(graphs[-1], inputs, **arguments)
