"""Whether a graph fits into the memory of a device."""

import torch

from relational_transformer.fleet.graphs import free_bytes
from relational_transformer.fleet.precision import Precision

CHANNELS_OF_A_PAIR = {"rt": 1_700, "gat": 5, "gcn": 3}
"""The numbers that a layer holds for one pair of nodes at the same time. Measured for the paper's RT (1,350 in float32,
1,610 in bfloat16), counted in the code of the baselines."""


def check_memory(model: str, num_nodes: int, precision: Precision, device: torch.device) -> None:
    """Refuse graphs so large that not even one fits into memory."""
    needed = num_nodes**2 * CHANNELS_OF_A_PAIR[model] * {"bf16": 2, "fp64": 8}.get(precision, 4)
    free = free_bytes(device)
    if needed > free:
        raise ValueError(
            f"a graph of {num_nodes} nodes needs about {needed / 1e9:.0f} GB, and {free / 1e9:.0f} GB are free: "
            "take fewer nodes or another device"
        )
