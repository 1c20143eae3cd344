"""A checksum of tensors by name."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of names, dtypes, shapes and values of tensors on the CPU. Their order does not matter.

    >>> zeros = digest({"weight": torch.zeros(2)})
    >>> zeros == digest({"weight": torch.zeros(2)}), zeros == digest({"weight": torch.ones(2)})
    (True, False)
    """
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        sha.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()
