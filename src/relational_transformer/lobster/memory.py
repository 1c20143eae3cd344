"""Whether a graph fits into the memory of a device."""

import torch

from relational_transformer.fleet.graphs import free_bytes
from relational_transformer.fleet.precision import Precision

CHANNELS_OF_A_PAIR = {"rt": 1_700, "gat": 5, "gcn": 3}
"""What a layer holds of one pair of nodes at the same time: of the paper's RT (measured: 1,350 in float32, 1,610 in
bfloat16), and of the baselines, counted in their code."""


def check_memory(model: str, num_nodes: int, precision: Precision, device: torch.device) -> None:
    """Refuse graphs of which not even one fits, before the machine does."""
    needed = num_nodes**2 * CHANNELS_OF_A_PAIR[model] * {"bf16": 2, "fp64": 8}.get(precision, 4)
    free = free_bytes(device)
    if needed > free:
        raise ValueError(
            f"a graph of {num_nodes} nodes needs about {needed / 1e9:.0f} GB, and {free / 1e9:.0f} GB are free: "
            "take fewer nodes or another device"
        )
