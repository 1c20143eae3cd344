"""What all files of tensors need: a checksum, and the package safetensors, imported when a file is read or written."""

import hashlib
from collections.abc import Mapping
from types import ModuleType

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


def import_safetensors() -> ModuleType:
    """The package, or a ModuleNotFoundError that says how to install it."""
    try:
        import safetensors.torch
    except ModuleNotFoundError:
        message = "saved models need safetensors: pip install '.[saving]' in a checkout"
        raise ModuleNotFoundError(message, name="safetensors") from None
    return safetensors
