"""Checks of arguments. Their messages name the argument, what was given and what was expected.

Every wrong argument is a ValueError, also one of a wrong type. Checks read types, shapes, dtypes and devices, never the
values of a tensor. So they do not wait for a GPU, and compilers and exporters can trace them.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, broadcast_shapes, nn

LARGEST_SIZE = 2**16
"""The largest size of a vector. Larger ones are mistakes that would fill the memory."""
MOST_LAYERS = 10_000

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_positive(**sizes: Any) -> None:
    """Every size must be a positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {shown(size)}")


def check_size(most: int = LARGEST_SIZE, /, **sizes: Any) -> None:
    """Every size must be a positive integer, and not a huge one."""
    check_positive(**sizes)
    for name, size in sizes.items():
        if size > most:
            raise ValueError(f"{name} must be at most {most}, got {shown(size)}")


def check_size_or_zero(**sizes: Any) -> None:
    """Every size must be 0 or a positive integer, and not a huge one."""
    for name, size in sizes.items():
        if type(size) is not int or size != 0:
            check_size(**{name: size})


def check_sizes(name: str, sizes: Any, meaning: str) -> tuple[int, int]:
    """Check two sizes and return them as a tuple."""
    if not isinstance(sizes, tuple | list) or len(sizes) != 2:
        raise ValueError(f"{name} must be two sizes ({meaning}), got {shown(sizes)}")
    check_size(**{f"{name}[{number}]": size for number, size in enumerate(sizes)})
    return sizes[0], sizes[1]


def checked_head_size(head_size: Any, node_size: int, num_heads: int) -> int:
    """The size of a head, node_size / num_heads where None is given."""
    if head_size is None:
        if node_size % num_heads:
            raise ValueError(
                f"num_heads must divide node_size={node_size} where no head_size is given, got num_heads={num_heads}"
            )
        head_size = node_size // num_heads
    check_size(head_size=head_size)
    if num_heads * head_size > LARGEST_SIZE:
        raise ValueError(
            f"num_heads x head_size must be at most {LARGEST_SIZE}, got {num_heads} heads of head_size={head_size}"
        )
    return head_size


def check_number(name: str, number: Any, least: float = 0.0, below: float = math.inf) -> None:
    """A number must be at least `least` and less than `below`."""
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or not least <= number < min(below, sys.float_info.max)
    ):
        bounds = f"at least {least:g} and " + ("finite" if below == math.inf else f"less than {below:g}")
        raise ValueError(f"{name} must be {bounds}, got {shown(number)}")


def check_log_scaling_size(size: Any) -> None:
    """A number of nodes whose logarithm can be divided by, or None."""
    if size is not None:
        check_positive(log_scaling_size=size)
        if size < 2:
            raise ValueError(f"log_scaling_size must be at least 2, got {size}")


def check_flag(**flags: Any) -> None:
    """Every flag must be True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise ValueError(f"{name} must be True or False, got {shown(flag)}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """A value must be one of several names."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {shown(value)}")


def check_tensor(name: str, tensor: Any, axes: int = 1) -> None:
    """The argument must be a dense floating-point tensor with at least `axes` axes."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor, got {_kind(tensor)}")
    check_dense(name, tensor)
    if tensor.dtype not in FLOATS:
        raise ValueError(f"{name} must be a floating-point tensor, got {tensor.dtype}")
    if tensor.dim() < axes:
        raise ValueError(f"{name} must have {axes} axes or more, got shape {list(tensor.shape)}")


def check_vectors(name: str, tensor: Any, size: int, axes: int) -> None:
    """The argument must be a dense floating-point tensor with at least `axes` axes and `size` channels in the last
    one."""
    check_tensor(name, tensor, axes)
    if tensor.shape[-1] != size:
        raise ValueError(f"{name} must have {size} channels in its last axis, got shape {list(tensor.shape)}")


def check_parts(name: str, parts: Sequence[Any], size: int, *lengths: int | None) -> None:
    """The parts of an input must be tensors with `size` channels together. The axes before the channels must have these
    `lengths` (None: any). Parts after the first may broadcast."""
    for number, part in enumerate(parts):
        if not isinstance(part, Tensor):
            raise ValueError(f"{name} must be a tensor or a tuple of tensors, got {_kind(part)}")
        check_tensor(name, part, 1 if number else 1 + len(lengths))
        for axis, length in enumerate(reversed(lengths), 2):
            if (
                length is not None
                and part.dim() >= axis
                and part.shape[-axis] not in ((1, length) if number else (length,))
            ):
                wanted = ", ".join("N" if length is None else str(length) for length in lengths)
                raise ValueError(f"{name} must be [..., {wanted}, channels], got shape {list(part.shape)}")
    if sum(part.shape[-1] for part in parts) != size:
        shapes = " and ".join(str(list(part.shape)) for part in parts)
        raise ValueError(
            f"{name} must have {size} channels in the last axis, got {f'shape {shapes}' if parts else None}"
        )


def check_batches(**given: tuple[Tensor | None, int]) -> None:
    """The batch axes of all tensors, those before the given number of their own axes, must broadcast."""
    batches = {
        name: tuple(tensor.shape)[: max(0, tensor.dim() - own)]
        for name, (tensor, own) in given.items()
        if tensor is not None
    }
    try:
        broadcast_shapes(*batches.values())
    except RuntimeError:
        listed = ", ".join(f"{name} {list(batch)}" for name, batch in batches.items())
        raise ValueError(f"the batch axes do not fit together: {listed}") from None


def check_edges(edges: Tensor, num_queries: int, num_keys: int) -> None:
    """Edges must be [..., num_queries, num_keys, edge_size]."""
    if edges.dim() < 3 or edges.shape[-3] != num_queries or edges.shape[-2] != num_keys:
        raise ValueError(
            f"edges must be [..., {num_queries}, {num_keys}, edge_size] for {num_queries} query nodes and "
            f"{num_keys} key nodes, got shape {list(edges.shape)}"
        )


def check_globals(globals: Any, size: int, owner: str) -> None:
    """Globals must be given exactly where the module has a size for them."""
    if (globals is None) != (size == 0):
        raise ValueError(f"globals must be {'given' if size else 'None'} for {owner} with global_size={size}")
    if globals is not None:
        check_vectors("globals", globals, size, axes=1)


def check_mask(name: str, mask: Any, shape: tuple[int, ...], beside: Tensor) -> None:
    """A mask must be bool (True = present), end in `shape`, and be on the device of what it masks; axes of size 1
    broadcast."""
    if mask is None:
        return
    if not isinstance(mask, Tensor):
        raise ValueError(f"{name} must be a bool tensor with True = present, got {_kind(mask)}")
    check_dense(name, mask)
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be a bool tensor with True = present, got {mask.dtype}")
    trailing = tuple(mask.shape[-len(shape) :])
    fits = len(trailing) == len(shape) and all(have in (1, want) for have, want in zip(trailing, shape, strict=True))
    if not fits:
        raise ValueError(f"{name} must be [..., {', '.join(map(str, shape))}], got shape {list(mask.shape)}")
    check_device(name, mask, "the tensors it masks", beside)


def check_alike(what: str, first: Tensor, **tensors: Tensor | None) -> None:
    """Tensors that are combined with `what`, the tensor `first`, must be on its device, and of its dtype unless
    autocast converts them."""
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        check_device(name, tensor, what, first)
        if tensor.dtype != first.dtype:
            has_double = torch.float64 in (tensor.dtype, first.dtype)  # autocast does not convert it
            if has_double or not autocasts(first.device):
                raise ValueError(f"{name} must have the dtype of {what} ({first.dtype}), got {tensor.dtype}")


def check_weights(linear: nn.Module, **tensors: Tensor | None) -> None:
    """Tensors that a Linear reads must have the device and dtype of its weight. Quantised Linears are not checked."""
    weight = getattr(linear, "weight", None)
    if isinstance(weight, Tensor) and weight.is_floating_point():
        check_alike("the weights", weight, **tensors)


def check_place(device: Any, dtype: Any = None) -> None:
    """A device that is here and a floating-point dtype, or None for torch's default."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError, ImportError) as error:  # torch has an error for each device
        reason = str(error).splitlines()[0]
        raise ValueError(f"device must be one that is here, got {shown(device)} ({reason})") from None
    if dtype is not None and dtype not in FLOATS:
        raise ValueError(f"dtype must be a floating-point dtype, got {shown(dtype)}")


def check_bias(bias: Any, num_heads: int, num_queries: int, num_keys: int, beside: Tensor) -> None:
    """A bias of attention scores must be a floating-point tensor [..., num_heads, num_queries, num_keys], on the device
    of what attends; its last three axes may be of size 1."""
    if bias is None:
        return
    check_tensor("attention_bias", bias)
    wanted, trailing = (num_heads, num_queries, num_keys), tuple(bias.shape[-3:])
    if len(trailing) < 3 or any(have not in (1, want) for have, want in zip(trailing, wanted, strict=True)):
        raise ValueError(
            f"attention_bias must be [..., {num_heads}, {num_queries}, {num_keys}] (heads, queries, keys; 1 for all "
            f"of them), got shape {list(bias.shape)}"
        )
    check_device("attention_bias", bias, "what attends", beside)


def check_dense(name: str, tensor: Tensor) -> None:
    """A tensor must be neither sparse nor nested nor quantized."""
    if tensor.is_nested or tensor.is_quantized:
        raise ValueError(f"{name} must be a dense tensor, got a {'nested' if tensor.is_nested else 'quantized'} one")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, got one of layout {tensor.layout}")


def check_device(name: str, tensor: Tensor, what: str, first: Tensor) -> None:
    """A tensor must be on the device of `what`, the tensor `first`."""
    if tensor.device != first.device:
        raise ValueError(f"{name} must be on the device of {what} ({first.device}), got a tensor on {tensor.device}")


def autocasts(device: torch.device) -> bool:
    """Whether autocast is on for a device. There is none for the meta device."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def shown(value: object) -> str:
    """A value in a few words, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # repr may fail, for example for an integer of thousands of digits
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"a value of type {type(value).__name__}"


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
