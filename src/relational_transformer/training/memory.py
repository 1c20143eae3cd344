"""How much memory a trajectory needs, so that long ones are recomputed instead of running out."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SHARE_FOR_ACTIVATIONS = 0.6
"""Of the free memory, which what is kept for a backward pass may fill."""


def saved_bytes(function: Callable[[], Any]) -> int:
    """Bytes that autograd keeps for the backward pass of what `function` does, each storage counted once."""
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = function()
    del result
    return sum(sizes.values())


def free_bytes(device: torch.device) -> int:
    """Memory that may still be taken on the device."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_too_much_to_keep(needed: float, device: torch.device) -> bool:
    """Whether so many bytes for the backward pass are better computed again than kept."""
    return needed > SHARE_FOR_ACTIVATIONS * free_bytes(device)
