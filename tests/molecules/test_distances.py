import pytest
import torch

from relational_transformer.molecules import distance_basis


def test_each_centre_answers_most_to_its_own_distance():
    basis = distance_basis(torch.linspace(0.0, 10.0, 32), size=32, longest=10.0)
    assert torch.equal(basis.argmax(-1), torch.arange(32))
    torch.testing.assert_close(basis.diagonal(), torch.ones(32))


def test_a_distance_far_beyond_the_last_centre_is_zero():
    assert distance_basis(torch.tensor(50.0), size=8, longest=10.0).max() < 1e-30


def test_one_centre_is_refused():
    with pytest.raises(ValueError, match="size must be at least 2 centres, got 1"):
        distance_basis(torch.zeros(3), size=1, longest=10.0)
