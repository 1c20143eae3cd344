"""Operations counted where they are made."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

FORWARD_AND_BACKWARD = 3
"""Training costs three forward passes: the backward pass has two products for each one."""


def count(function: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products in a call of `function`; to multiply and add is two.

    >>> count(lambda: torch.ones(2, 3) @ torch.ones(3, 5))
    60
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        function()
    return counter.get_total_flops()


def without_values(build: Callable[[], nn.Module]) -> Any:
    """A module whose parameters were never initialised: what they are does not matter where operations are counted."""
    with torch.device("meta"):
        module = build()
    return module.to_empty(device="cpu")
