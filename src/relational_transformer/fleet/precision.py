"""How numbers are kept: float32 with or without TF32 products, bfloat16 activations, or float64 for proofs."""

from typing import Literal

import torch
from torch import Tensor, nn

Precision = Literal["tf32", "bf16", "fp32", "fp64"]


def set_matrix_products(precision: Precision) -> None:
    """Whether torch may multiply float32 matrices in TF32, which all models of the process share."""
    torch.set_float32_matmul_precision("highest" if precision in ("fp32", "fp64") else "high")


def set_precision(precision: Precision, model: nn.Module) -> None:
    """Prepare torch and a model. Parameters and optimiser are float32 throughout (float64 with `fp64`).

    A model whose activations may be of another type than its parameters has an attribute `activation_dtype`.
    """
    set_matrix_products(precision)
    if hasattr(model, "activation_dtype"):
        model.activation_dtype = torch.bfloat16 if precision == "bf16" else None  # pyright: ignore[reportArgumentType]
    if precision == "fp64":
        model.double()


def for_computing(values: Tensor, precision: Precision) -> Tensor:
    """Parameters as the network computes with them."""
    return values.bfloat16() if precision == "bf16" else values
