"""How numbers are kept: float32 with or without TF32 products, bfloat16 activations, or float64 for proofs."""

from typing import Literal

import torch

from relational_transformer.reasoning.network import Network

from .over_seeds import Parameters

Precision = Literal["tf32", "bf16", "fp32", "fp64"]


def set_precision(precision: Precision, network: Network) -> None:
    """Prepare torch and the network. Parameters and optimiser are float32 throughout (float64 with `fp64`)."""
    torch.set_float32_matmul_precision("highest" if precision in ("fp32", "fp64") else "high")
    network.activation_dtype = torch.bfloat16 if precision == "bf16" else None
    if precision == "fp64":
        network.double()


def for_computing(parameters: Parameters, precision: Precision) -> Parameters:
    """The parameters as the network computes with them."""
    if precision != "bf16":
        return parameters
    return {name: parameter.bfloat16() for name, parameter in parameters.items()}
