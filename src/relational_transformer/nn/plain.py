"""Whether a module computes exactly what its class defines, so that a faster implementation may replace a call."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor, nn

KINDS = (nn.Linear, nn.LayerNorm, nn.ModuleList)
"""Modules of torch that are plain."""
EPSILON = 1e-5
"""The epsilon of a plain LayerNorm."""

Forward = TypeVar("Forward", bound=Callable[..., Any])


def replaceable(forward: Forward) -> Forward:
    """Mark the `forward` of a class of this package that kernels or identities may replace.

    A subclass with a `forward` of its own does not have the mark, and is called.
    """
    forward.is_replaceable = True  # pyright: ignore[reportFunctionMemberAccess]
    return forward


def is_plain(module: nn.Module) -> bool:
    """Whether a call of the module does nothing but its class's formula on its weights.

    Only then may its weights be read instead, to split a product or in a fused kernel. A module that is wrapped by
    peft, quantised or parametrized, or has a hook, has to be called.

    >>> linear = nn.Linear(2, 3)
    >>> is_plain(linear)
    True
    >>> handle = linear.register_forward_hook(print)
    >>> is_plain(linear)
    False
    """
    known = type(module) in KINDS or getattr(type(module).forward, "is_replaceable", False)
    own = module.__dict__
    if not known or "forward" in own or own.get("eps", EPSILON) != EPSILON:
        return False
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
        return False
    return all(weight is not None and can_be_cut(weight) for weight in module._parameters.values())


def can_be_cut(weight: Tensor) -> bool:
    """Whether a weight can be split into pieces. A quantised one, which consists of several tensors, may support matrix
    products alone."""
    return not hasattr(weight, "__tensor_flatten__")


def is_plain_inside(module: nn.Module) -> bool:
    """Whether all modules inside are plain.

    >>> from relational_transformer import RelationalAttention
    >>> attention = RelationalAttention(node_size=8, edge_size=4, num_heads=2, head_size=4)
    >>> is_plain_inside(attention)
    True
    >>> attention.node_qkv = nn.Sequential(attention.node_qkv, nn.Dropout(0.1))
    >>> is_plain_inside(attention)
    False
    """
    return all(is_plain(child) and is_plain_inside(child) for child in module.children())
