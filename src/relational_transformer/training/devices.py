"""The device a run is on."""

import torch


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
    return device
