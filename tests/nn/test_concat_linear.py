import pytest
import torch

from relational_transformer.nn import ConcatLinear


def test_equals_a_linear_on_the_concatenation():
    linear = ConcatLinear(9, 4)
    parts = torch.randn(2, 5, 5, 3), torch.randn(2, 1, 1, 2), torch.randn(2, 5, 5, 4)
    joined = torch.cat([parts[0], parts[1].expand(2, 5, 5, 2), parts[2]], dim=-1)
    torch.testing.assert_close(linear(*parts), torch.nn.functional.linear(joined, linear.weight, linear.bias))


@pytest.mark.parametrize("sizes", [(3, 4), (10,), ()])
def test_parts_must_add_up(sizes: tuple[int, ...]):
    with pytest.raises(ValueError, match="parts must have 9 channels together"):
        ConcatLinear(9, 4)(*(torch.randn(2, size) for size in sizes))
