"""The choice between fused kernels and the plain implementation.

The default, ``auto``, takes the kernels that were measured to be faster than the compiled plain path
(docs/performance.md): a whole layer as one kernel, where it fits (`whole_layer.is_one_kernel`), those of attention and
edge update in bfloat16 on large graphs (`are_faster`), and that of pointer scores (`scores_pointers`).
``RT_KERNELS=on`` in the environment, or ``with use_kernels(True):`` in the code, takes the latter three always, on any
CUDA device of compute capability 8.0 or more, and in place of the former two, where they fit, the kernels by rows
(`rows.takes_attention`, `rows.takes_edge_update`), which no card has measured. ``off`` and ``False`` take none.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

Mode = bool | Literal["auto"]

SUPPORTED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
HAS_TRITON = importlib.util.find_spec("triton") is not None
LARGE_GRAPH = 64
"""The number of nodes from which attention and edge update were measured to be faster as kernels. Smaller graphs that
do not fit one kernel have not been measured."""
MOST_CHOICES = 128
"""The largest number of nodes for the kernel of pointer scores, in which one program reads all of them."""
ENVIRONMENT_MODES: dict[str, Mode] = {"auto": "auto", "on": True, "off": False}


def mode_from_environment() -> Mode:
    """The mode that ``RT_KERNELS`` names: ``auto`` (default), ``on`` or ``off``."""
    name = os.environ.get("RT_KERNELS", "auto")
    if name not in ENVIRONMENT_MODES:
        raise ValueError(f"RT_KERNELS is '{name}', but must be one of: {', '.join(ENVIRONMENT_MODES)}.")
    return ENVIRONMENT_MODES[name]


_mode: Mode = mode_from_environment()


@contextmanager
def use_kernels(mode: Mode) -> Iterator[None]:
    """Within the block: ``True`` all fused kernels, ``False`` none, ``"auto"`` those that are known to be faster."""
    global _mode
    before, _mode = _mode, mode
    try:
        yield
    finally:
        _mode = before


def current_mode() -> Mode:
    """The mode in force."""
    return _mode


def available(tensor: Tensor) -> bool:
    """Whether kernels can run on this tensor: by its device and dtype, and if Triton is installed."""
    if not HAS_TRITON or tensor.dtype not in SUPPORTED_DTYPES:
        return False
    if tensor.is_cuda:
        return torch.cuda.get_device_capability(tensor.device) >= (8, 0)
    return os.environ.get("TRITON_INTERPRET") == "1"


def are_faster(num_nodes: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether kernels of attention and edge update are known to be faster than compiled code: in bfloat16, on large
    graphs, on Hopper and (not measured) later cards. They also need half the memory."""
    return dtype == torch.bfloat16 and on_hopper(device) and num_nodes >= LARGE_GRAPH


def scores_pointers(rows: Tensor, num_choices: int) -> bool:
    """Whether the kernel should compute scores of pointers from these rows: on Hopper and (not measured) later cards,
    and wherever kernels are switched on."""
    if num_choices > MOST_CHOICES or not available(rows):
        return False
    if _mode == "auto":
        return on_hopper(rows.device) and not is_exporting()
    return _mode


def on_hopper(device: torch.device) -> bool:
    """Whether a device is of compute capability 9.0 or more, for which `auto` was measured."""
    return device.type == "cuda" and HAS_TRITON and torch.cuda.get_device_capability(device) >= (9, 0)


def is_exporting() -> bool:
    """Whether a model is being exported: it may then run on a machine without kernels.

    This replaces `torch.compiler.is_exporting()`, which in torch 2.11 is true whenever torch compiles.
    """
    return torch.compiler._is_exporting_flag


def enabled(edges: Tensor) -> bool:
    """Whether attention and edge update should call their kernels on these edges, [..., N, N, edge_size]."""
    if _mode == "auto":
        if not edges.is_cuda or is_exporting():
            return False
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else edges.dtype
        return are_faster(edges.shape[-2], dtype, edges.device)
    if _mode and not available(edges):
        if edges.dtype == torch.float64:
            return False
        raise RuntimeError(
            f"Fused kernels were asked for, but need a CUDA device and Triton; "
            f"this is a {edges.dtype} tensor on {edges.device} and Triton is "
            f"{'installed' if HAS_TRITON else 'missing (pip install triton)'}."
        )
    return _mode
