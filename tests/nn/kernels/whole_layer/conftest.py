"""Kernels run in the emulator, in all tests of this folder."""

import pytest
import torch

from .emulation import emulator_in_use


@pytest.fixture(autouse=True)
def _emulator():
    torch.manual_seed(0)
    with emulator_in_use():
        yield
