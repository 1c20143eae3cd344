"""The device of a run, and its precision: float32 with or without TF32 matrix products, bfloat16 activations, or
float64 for tests."""

import os
import warnings
from typing import Literal

import torch
from torch import Tensor, nn

from relational_transformer.nn.kernels import has_kernels

Precision = Literal["tf32", "bf16", "fp32", "fp64"]
PrecisionChoice = Literal["auto", "tf32", "bf16", "fp32", "fp64"]

PART_OF_A_DEVICE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""The variable by which NVIDIA's MPS gives a process a share of the multiprocessors. With 60 and with 80 on an H200
(torch 2.11), the last seeds of a fleet were wrong from the first step on, compiled and fused; the cause is not
known."""


def default_device() -> str:
    """A CUDA device if there is one, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def find_device(name: str) -> torch.device:
    """The device of that name, if this machine has it.

    >>> find_device("cpu")
    device(type='cpu')
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names that torch deprecates are refused below
            device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f"training runs on cpu or cuda, not on {name!r}")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, IndexError, OverflowError, TypeError) as error:
        raise ValueError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None
    if device.type == "cuda":
        check_whole_device()
    return device


def check_whole_device() -> None:
    """Refuse to train on a part of a device."""
    if os.environ.get(PART_OF_A_DEVICE, "100") != "100":
        raise ValueError(
            f"{PART_OF_A_DEVICE} is set: on a share of a device, seeds of a fleet had wrong results; unset it to train"
        )


def choose_precision(choice: PrecisionChoice, device: torch.device) -> Precision:
    """The precision that a choice stands for: `auto` is bf16 on cards with fused kernels, tf32 on other cards, and fp32
    on a CPU.

    >>> choose_precision("auto", torch.device("cpu")), choose_precision("bf16", torch.device("cpu"))
    ('fp32', 'bf16')
    """
    if choice != "auto":
        return choice
    if device.type != "cuda":
        return "fp32"
    return "bf16" if has_kernels(device) else "tf32"


def set_matrix_products(precision: Precision) -> None:
    """Set whether torch multiplies float32 matrices in TF32. The setting holds for the whole process."""
    torch.set_float32_matmul_precision("highest" if precision in ("fp32", "fp64") else "high")


def set_precision(precision: Precision, model: nn.Module) -> None:
    """Set up torch and a model for a precision. Parameters and optimiser state are float32 (float64 with `fp64`).

    A model whose activations may have another dtype than its parameters has an attribute `activation_dtype`.
    """
    set_matrix_products(precision)
    if hasattr(model, "activation_dtype"):
        model.activation_dtype = torch.bfloat16 if precision == "bf16" else None  # pyright: ignore[reportArgumentType]
    if precision == "fp64":
        model.double()


def for_computing(values: Tensor, precision: Precision) -> Tensor:
    """Parameters in the dtype that the network computes in."""
    return values.bfloat16() if precision == "bf16" else values
