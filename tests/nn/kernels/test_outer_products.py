"""Sums of outer products over edges, in one part or in several."""

import pytest
import torch

from relational_transformer.nn.kernels import outer_products
from tests.nn.kernels.cases import DEVICE


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "sliced"])
def test_the_sum_is_the_same_in_parts_and_at_once(seeds: int, sliced: bool):
    left, right = torch.randn(seeds, 60, 5), torch.randn(seeds, 60, 7)
    if sliced:
        left, right = left[:, 6:36], right[:, 6:36]
    expected = torch.einsum("sra,srb->sab", left.double(), right.double())
    torch.testing.assert_close(
        outer_products.sum_of_outer_products(left, right).double(), expected, rtol=1e-5, atol=1e-5
    )


def test_sums_of_bfloat16_are_made_in_float32():
    ones = torch.ones(1, 1000, 1, dtype=torch.bfloat16)  # added in bfloat16 they would stay at 256
    total = outer_products.sum_of_outer_products(ones, ones)
    assert total.dtype == torch.float32
    assert total.item() == 1000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_parts_of_the_rows_have_sums_of_their_own(dtype: torch.dtype):
    left, right = torch.randn(2, 60, 20, device=DEVICE).to(dtype), torch.randn(2, 60, 70, device=DEVICE).to(dtype)
    parts = outer_products.parts_of_outer_products(left, right, 3)
    left, right = (tensor.double().unflatten(1, (3, 20)) for tensor in (left, right))
    expected = torch.einsum("spra,sprb->spab", left, right)
    torch.testing.assert_close(parts.double(), expected, rtol=1e-5, atol=1e-5)


def test_few_rows_and_many_seeds_need_no_parts():
    assert outer_products.parts_of_rows(7, 1000) == 1
    assert outer_products.parts_of_rows(1, 1) == 1


def test_no_rows_sum_to_zero():
    assert torch.equal(
        outer_products.sum_of_outer_products(torch.empty(2, 0, 3), torch.empty(2, 0, 4)), torch.zeros(2, 3, 4)
    )
