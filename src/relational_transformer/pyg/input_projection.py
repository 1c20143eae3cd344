"""The Linear that brings inputs to the size of a layer, where one is needed."""

from torch import nn
from torch.nn.parameter import UninitializedParameter

from relational_transformer.nn import ConcatLinear
from relational_transformer.nn.checks import check_size
from relational_transformer.nn.initialization import reset_linear


class LazyLinear(nn.LazyLinear):
    """A Linear that learns its input size from its first input, and then starts as the others of this package do."""

    cls_to_become = ConcatLinear

    def reset_parameters(self) -> None:
        if self.in_features and not isinstance(self.weight, UninitializedParameter):
            reset_linear(self)


def input_projection(name: str, given: int, size: int) -> nn.Module:
    """A Linear from `given` channels (the argument called `name`; -1: those of the first input) to `size`, if any.

    >>> input_projection("in_channels", 3, 8), input_projection("in_channels", 8, 8)
    (ConcatLinear(in_features=3, out_features=8, bias=True), Identity())
    """
    if type(given) is int and given == -1:
        return LazyLinear(size)
    check_size(**{name: given})
    return nn.Identity() if given == size else ConcatLinear(given, size)
