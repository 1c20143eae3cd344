"""Whether to compile: it takes most of a minute, so short runs on a CPU do without."""

import shutil

import torch

from .config import CompileMode

STEPS_THAT_PAY = 5_000
"""Training steps on a CPU from which on compiling saves more time than it takes."""


def should_compile(mode: CompileMode, device: torch.device, num_steps: int) -> bool:
    """Decide; `auto` compiles on CUDA, and on a CPU with a C++ compiler if the run is long."""
    if mode != "auto":
        return mode == "on"
    if device.type == "cuda":
        return True
    return num_steps >= STEPS_THAT_PAY and any(shutil.which(name) for name in ("g++", "clang++", "c++"))
