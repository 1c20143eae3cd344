"""Which path runs: the fused kernels or the plain implementation.

``RT_KERNELS=auto`` in the environment, or ``with use_kernels("auto"):`` in the code, takes the kernels wherever they
can run: on a CUDA device of compute capability 8.0 or more. They are off unless asked for, because the compiled plain
path was still the faster one when they were last measured (docs/performance.md).
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
    """The mode that ``RT_KERNELS`` names: ``auto``, ``on`` or ``off`` (default)."""
    name = os.environ.get("RT_KERNELS", "off")
    if name not in ENVIRONMENT_MODES:
        raise ValueError(f"RT_KERNELS is '{name}', but must be one of: {', '.join(ENVIRONMENT_MODES)}.")
    return ENVIRONMENT_MODES[name]


_mode: Mode = mode_from_environment()


@contextmanager
def use_kernels(mode: Mode) -> Iterator[None]:
    """Within the block: ``True`` fused kernels always, ``False`` never, ``"auto"`` wherever they can run."""
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
    """Whether a layer given this tensor should call the kernels."""
    if _mode == "auto":
        return tensor.is_cuda and available(tensor)
    if _mode and not available(tensor):
        if tensor.dtype == torch.float64:
            return False
        raise RuntimeError(
            f"Fused kernels were asked for, but need a CUDA device and Triton; "
            f"this is a {tensor.dtype} tensor on {tensor.device} and Triton is "
            f"{'installed' if HAS_TRITON else 'missing (pip install triton)'}."
        )
    return _mode
