import pytest
import torch

from relational_transformer.molecules.scale import Scale

COUNTS = torch.tensor([[4, 1, 0], [6, 2, 0], [2, 1, 1], [4, 2, 1], [8, 3, 0]])


def test_what_is_linear_in_the_atoms_is_known_already():
    targets = COUNTS.float() @ torch.tensor([1.0, 10.0, -3.0]) + 5
    scale = Scale.of(targets, COUNTS, extensive=True)
    torch.testing.assert_close(scale.guess(COUNTS), targets.double())
    assert scale.std < 1e-9


def test_a_target_that_does_not_grow_has_a_mean_alone():
    targets = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    scale = Scale.of(targets, COUNTS, extensive=False)
    assert (scale.mean, scale.per_atom.tolist()) == (3, [0, 0, 0])
    normal = scale.normalise(targets, COUNTS)
    assert (normal.mean(), normal.std()) == (pytest.approx(0), pytest.approx(1))


def test_an_element_that_is_nowhere_gets_nothing():
    counts = torch.cat([COUNTS, torch.zeros(5, 1)], dim=1)
    scale = Scale.of(torch.arange(5.0), counts, extensive=True)
    assert scale.per_atom.isfinite().all()
    assert abs(scale.per_atom[3]) < 1e-12
