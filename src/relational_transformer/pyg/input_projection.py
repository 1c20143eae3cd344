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


def known_channels(projection: nn.Module | None, given: int | None) -> int:
    """What an input projection reads: the `given` channels, or for -1 those of its first input; -1 before that.

    >>> [known_channels(input_projection("in_channels", given, 8), given) for given in (8, -1)]
    [8, -1]
    """
    return (getattr(projection, "in_features", 0) if given == -1 else given) or -1
