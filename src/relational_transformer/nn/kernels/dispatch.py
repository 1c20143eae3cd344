"""Which path runs: the fused kernels or the plain implementation.

The default, ``auto``, takes the kernels that were measured to be faster than the compiled plain path: a whole layer as
one kernel, where it fits (`whole_layer.is_one_kernel`). ``RT_KERNELS=on`` in the environment, or ``with
use_kernels(True):`` in the code, also takes those of attention and edge update, on any CUDA device of compute
capability 8.0 or more: they save memory, and time only in bfloat16 (docs/performance.md). ``off`` and ``False`` take
none.
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
    """Whether the kernels can run on this tensor: its device, its dtype, and Triton is installed."""
    if not HAS_TRITON or tensor.dtype not in SUPPORTED_DTYPES:
        return False
    if tensor.is_cuda:
        return torch.cuda.get_device_capability(tensor.device) >= (8, 0)
    return os.environ.get("TRITON_INTERPRET") == "1"


def enabled(tensor: Tensor) -> bool:
    """Whether attention and edge update should call their kernels on this tensor."""
    if _mode == "auto":
        return False
    if _mode and not available(tensor):
        if tensor.dtype == torch.float64:
            return False
        raise RuntimeError(
            f"Fused kernels were asked for, but need a CUDA device and Triton; "
            f"this is a {tensor.dtype} tensor on {tensor.device} and Triton is "
            f"{'installed' if HAS_TRITON else 'missing (pip install triton)'}."
        )
    return _mode
