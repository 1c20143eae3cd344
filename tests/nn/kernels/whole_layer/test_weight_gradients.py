"""Sums of products over rows, cut into pieces where few seeds would leave a device idle."""

import pytest
import torch

from relational_transformer.nn.kernels.whole_layer.weight_gradients import (
    ENOUGH_PRODUCTS,
    FEWEST_ROWS,
    num_pieces,
    product,
)


@pytest.mark.parametrize("seeds", [1, 3, ENOUGH_PRODUCTS])
def test_a_product_is_the_sum_over_all_rows_of_a_seed(seeds: int):
    steps, graphs, rows = 3, 4, FEWEST_ROWS // 4
    assert (num_pieces(seeds, steps * graphs * rows) > 1) == (seeds < ENOUGH_PRODUCTS)
    gradient = torch.randn(seeds, steps, graphs, rows, 6).bfloat16()
    read = torch.randn(seeds, steps, graphs, rows, 5).bfloat16()
    exact = torch.einsum("stgro,stgri->soi", gradient.double(), read.double())
    torch.testing.assert_close(product(gradient, read).double(), exact, rtol=0.02, atol=0.02 * exact.abs().max().item())


def test_it_does_not_matter_how_the_steps_lie():
    gradient, read = torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 4, 5, 7)
    steps_first = read.transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(product(gradient, steps_first), product(gradient, read))


@pytest.mark.parametrize("seeds", [1, 2, 3, 10, 20, 80])
@pytest.mark.parametrize("rows", [1, 416, 1024, 6656, 7 * 1024, 7919, 100_000])
def test_pieces_are_equal_and_not_more_than_needed(seeds: int, rows: int):
    pieces = num_pieces(seeds, rows)
    assert rows % pieces == 0
    assert pieces == 1 or rows // pieces >= FEWEST_ROWS
    assert pieces == 1 or not any(seeds * fewer >= ENOUGH_PRODUCTS and rows % fewer == 0 for fewer in range(1, pieces))
