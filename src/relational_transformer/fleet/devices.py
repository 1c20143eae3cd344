"""The device a run is on."""

import os

import torch

PART_OF_A_DEVICE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""With which NVIDIA's MPS gives a process some of a device's multiprocessors. Set to 60 and to 80 on an H200 (torch
2.11), the last seeds of a fleet were wrong from the first step on, compiled and fused; why is not known."""


def default_device() -> str:
    """A CUDA device if there is one, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def find_device(name: str) -> torch.device:
    """The device of that name, if this machine has it.

    >>> find_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"training runs on cpu or cuda, not on {name!r}")
    if device.type == "cuda":
        check_whole_device()
    return device


def check_whole_device() -> None:
    """Refuse to train on a part of a device."""
    if os.environ.get(PART_OF_A_DEVICE, "100") != "100":
        raise ValueError(f"{PART_OF_A_DEVICE} is set, with which seeds of a fleet came out wrong: unset it to train")
