"""How much memory a trajectory needs, so that long ones are recomputed instead of running out."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)

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
        return torch.cuda.mem_get_info(device)[0] + cached_bytes(torch.cuda.memory_snapshot(), device)
    try:
        found = AVAILABLE.search(Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    if found is None:  # not Linux: what is free, without what caches of files would give back
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1024 * int(found[1])


def cached_bytes(segments: Sequence[Mapping[str, Any]], device: torch.device) -> int:
    """What torch keeps and would give to anyone. What belongs to graphs, which others may not use, does not count."""
    index = torch.cuda.current_device() if device.index is None else device.index
    for_all = [one for one in segments if one["device"] == index and tuple(one["segment_pool_id"]) == (0, 0)]
    return sum(one["total_size"] - one["allocated_size"] for one in for_all)


def is_too_much_to_keep(needed: float, device: torch.device) -> bool:
    """Whether so many bytes for the backward pass are better computed again than kept."""
    return needed > SHARE_FOR_ACTIVATIONS * free_bytes(device)
