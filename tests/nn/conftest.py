import pytest
import torch


@pytest.fixture
def double():
    """Default dtype float64 for the length of a test."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
