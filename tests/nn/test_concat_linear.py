import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from relational_transformer.nn import ConcatLinear


def test_equals_a_linear_on_the_concatenation():
    linear = ConcatLinear(9, 4)
    parts = torch.randn(2, 5, 5, 3), torch.randn(2, 1, 1, 2), torch.randn(2, 5, 5, 4)
    joined = torch.cat([parts[0], parts[1].expand(2, 5, 5, 2), parts[2]], dim=-1)
    torch.testing.assert_close(linear(*parts), torch.nn.functional.linear(joined, linear.weight, linear.bias))


def test_a_weight_that_cannot_be_cut_is_applied_to_the_concatenation():
    linear, parts = ConcatLinear(5, 4), (torch.randn(2, 3), torch.randn(1, 2))
    expected = linear(*parts)
    linear.weight = torch.nn.Parameter(TwoTensor(linear.weight.detach(), linear.weight.detach()))
    linear.weight.split = None  # must not be called  # pyright: ignore[reportAttributeAccessIssue]
    torch.testing.assert_close(linear(*parts).a, expected)


def test_without_a_bias_it_is_the_product_alone():
    linear, parts = ConcatLinear(5, 4, bias=False), (torch.randn(2, 3), torch.randn(1, 2))
    torch.testing.assert_close(linear(*parts), torch.cat([parts[0], parts[1].expand(2, 2)], -1) @ linear.weight.T)


@pytest.mark.parametrize("sizes", [(3, 4), (10,), ()])
def test_parts_must_add_up(sizes: tuple[int, ...]):
    with pytest.raises(ValueError, match="parts must have 9 channels together"):
        ConcatLinear(9, 4)(*(torch.randn(2, size) for size in sizes))


def test_a_wrong_place_is_named():
    with pytest.raises(ValueError, match=r"device must be one that is here, got 'cuda:-1'"):
        ConcatLinear(3, 2, device="cuda:-1")
    with pytest.raises(ValueError, match=r"dtype must be a floating-point dtype, got torch\.int8"):
        ConcatLinear(3, 2, dtype=torch.int8)
