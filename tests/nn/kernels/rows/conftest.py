"""Kernels run in the emulator, and are asked for, in all tests of this folder."""

import pytest
import torch

from relational_transformer.nn import kernels
from tests.nn.kernels.whole_layer.emulation import emulator_in_use


@pytest.fixture(autouse=True)
def _emulator():
    torch.manual_seed(0)
    with emulator_in_use(), kernels.use_kernels(True):
        yield
