"""What is kept for a backward pass, and when it is too much."""

import pytest
import torch

from relational_transformer.training import memory
from relational_transformer.training.memory import is_too_much_to_keep, saved_bytes

CPU = torch.device("cpu")


def test_saved_bytes_are_those_that_autograd_keeps():
    weight = torch.ones(1_000, requires_grad=True)
    assert saved_bytes(lambda: (weight * 2.0).exp()) == 4_000  # the result of exp; a constant factor keeps nothing


@pytest.mark.parametrize(("needed", "too_much"), [(599, False), (601, True)])
def test_three_fifths_of_the_free_memory_may_be_filled(monkeypatch, needed: int, too_much: bool):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1_000)
    assert is_too_much_to_keep(needed, CPU) is too_much
