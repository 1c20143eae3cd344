"""Checks of arguments, with messages that say what came and what was expected."""

from collections.abc import Sequence

from torch import Tensor, broadcast_shapes
from torch import bool as torch_bool
from torch.compiler import is_compiling


def check_positive(**sizes: int) -> None:
    """Every size must be a positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")


def check_not_negative(**sizes: int) -> None:
    """Every size must be an integer from 0 on, 0 for what is not there."""
    for name, size in sizes.items():
        if size != 0:
            check_positive(**{name: size})


def check_last_size(name: str, tensor: Tensor, size: int) -> None:
    """The last axis of `tensor` must have `size` channels."""
    if tensor.shape[-1] != size:
        raise ValueError(f"{name} must have {size} channels in its last axis, got shape {list(tensor.shape)}")


def check_parts(name: str, parts: Sequence[Tensor], size: int, axes: int) -> None:
    """The parts of an input are tensors, have `size` channels together, and the first has so many axes or more."""
    for number, part in enumerate(parts):
        if not isinstance(part, Tensor):
            raise ValueError(f"{name} must be a tensor or a tuple of tensors, got {type(part).__name__}")
        if not part.is_floating_point():
            raise ValueError(f"{name} must be of a floating-point type, got {part.dtype}")
        least = 1 if number else axes  # the others are repeated along what they do not have
        if part.dim() < least:
            raise ValueError(f"{name} must have {least} axes or more, got shape {list(part.shape)}")
    if sum(part.shape[-1] for part in parts) != size:
        shapes = " and ".join(str(list(part.shape)) for part in parts)
        raise ValueError(
            f"{name} must have {size} channels in the last axis, got {f'shape {shapes}' if parts else None}"
        )


def check_batches(**given: tuple[Tensor | None, int]) -> None:
    """What comes before so many axes of its own must fit together: it is the same in all tensors, or repeated. Not
    looked at by a compiler, which may leave sizes open."""
    if is_compiling():
        return
    batches = {
        name: tuple(tensor.shape)[: tensor.dim() - own] for name, (tensor, own) in given.items() if tensor is not None
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


def check_mask(name: str, mask: Tensor | None, shape: tuple[int, ...]) -> None:
    """A mask must be bool (True = present) and end in `shape`; axes of size 1 broadcast."""
    if mask is None:
        return
    if mask.dtype != torch_bool:
        raise ValueError(f"{name} must be a bool tensor with True = present, got {mask.dtype}")
    trailing = tuple(mask.shape[-len(shape) :])
    fits = len(trailing) == len(shape) and all(have in (1, want) for have, want in zip(trailing, shape, strict=True))
    if not fits:
        raise ValueError(f"{name} must be [..., {', '.join(map(str, shape))}], got shape {list(mask.shape)}")


def check_same_dtype(**tensors: Tensor) -> None:
    """Tensors that meet in one product must share a floating dtype."""
    names = list(tensors)
    first = tensors[names[0]]
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ValueError(f"{name} must be a floating-point tensor, got {tensor.dtype}")
        if tensor.dtype != first.dtype:
            raise ValueError(f"{name} must have the dtype of {names[0]} ({first.dtype}), got {tensor.dtype}")
