"""What the tests of sweeps share."""

import pytest
import torch


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch):
    """Here and in every process started from here: the number of threads decides in which order numbers are added."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
