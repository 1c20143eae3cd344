"""Values to put in the place of right ones: some are wrong, some merely odd."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

HUGE = (2**31, 2**40, 2**63 - 1, 2**63, 10**18, 10**30, 10**5000)
STRANGE: tuple[Any, ...] = (
    None,
    "x",
    "",
    b"x",
    3,
    -1,
    2.5,
    math.nan,
    True,
    [],
    [1, 2],
    (),
    {},
    {"a": 1},
    object(),
    int,
)
DTYPES = (
    torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64,
    torch.float8_e4m3fn,
)  # fmt: skip


def tensor_instead(right: Tensor, chance: random.Random) -> Any:
    """Something in the place of a tensor."""
    return chance.choice((_strange, _other_layout, _other_dtype, _other_shape, _other_shape, _same))(right, chance)


def _strange(right: Tensor, chance: random.Random) -> Any:
    return chance.choice((*STRANGE, right.tolist(), right.numpy(), [right], np.zeros(3), right.shape))


def _other_layout(right: Tensor, chance: random.Random) -> Any:
    makers: list[Callable[[], Tensor]] = [
        right.to_sparse,
        lambda: right.to("meta"),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        lambda: torch.quantize_per_tensor(torch.ones(right.shape), 0.1, 0, torch.qint8),
    ]
    if right.dim() == 2:
        makers.append(right.to_sparse_csr)
    return chance.choice(makers)()


def _other_dtype(right: Tensor, chance: random.Random) -> Tensor:
    return right.to(chance.choice(DTYPES))


def _other_shape(right: Tensor, chance: random.Random) -> Tensor:
    axis = chance.randrange(max(1, right.dim()))
    makers: list[Callable[[], Tensor]] = [
        lambda: right.unsqueeze(0),
        lambda: right.expand(3, *right.shape),
        lambda: right.expand(2, 1, *right.shape),
        lambda: right.flatten(),
        lambda: right.new_ones(()),
        lambda: right.new_ones(0),
        lambda: right.new_ones([1] * 7),
        lambda: right.new_ones([chance.randint(0, 6) for _ in range(chance.randint(0, 5))]),
    ]
    if right.dim():
        makers += [
            lambda: right.narrow(axis, 0, right.shape[axis] - 1) if right.shape[axis] else right,
            lambda: right.narrow(axis, 0, 0),
            lambda: right.narrow(axis, 0, min(1, right.shape[axis])),
            lambda: torch.cat([right, right], axis),
            lambda: right.select(axis, 0) if right.shape[axis] else right,
            lambda: right.transpose(0, axis),
        ]
    return chance.choice(makers)()


def _same(right: Tensor, chance: random.Random) -> Tensor:
    """The right numbers, kept in another way."""
    copies: list[Callable[[], Tensor]] = [
        right.clone,
        lambda: torch.stack([right, right], -1)[..., 0],
        lambda: right.flip(0).flip(0) if right.dim() else right,
    ]
    if right.is_floating_point():
        copies += [lambda: torch.nn.Parameter(right), lambda: right.clone().requires_grad_()]
    return chance.choice(copies)()


def size_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of an integer."""
    return chance.choice((*STRANGE, *HUGE, 0, 1, 7, 2.0, -(2**63), np.int64(4), np.float64(4), torch.tensor(4), 1j))


def number_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of a number."""
    return chance.choice((*STRANGE, *HUGE, 0, 0.5, 1.0, 1e308, -1e-9, math.inf, -math.inf, np.ones(2), torch.ones(2)))


def flag_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of True or False."""
    return chance.choice((*STRANGE, False, 1, 0, np.array([True, False]), torch.ones(2), "False"))


def choice_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of a name out of several."""
    names = (str(right).upper(), f" {right}", f"{right}\0", "ü" * 1000, "a\nb", "cat", "sparse", "bfs")
    return chance.choice((*STRANGE, *names, np.array([right, right]), [right], {right}))


def sizes_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of two integers."""
    pair = [size_instead(None, chance), 4]
    chance.shuffle(pair)
    return chance.choice((*STRANGE, (4,), (4, 4, 4), [4, 4], tuple(pair), pair, torch.tensor([4, 4])))


def anything_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of an object of ours."""
    return chance.choice((*STRANGE, torch.ones(2, 3), np.ones(3), type(right), [right], ("a", "b", "c", "d")))


def parts_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of a tensor that may be given in parts."""
    first = right[0] if isinstance(right, tuple) else right
    whole = tensor_instead(first, chance)
    return chance.choice((whole, whole, (first[..., :1], first[..., 1:]), [first], (whole, first), (first, whole), ()))


def device_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of a device."""
    names = ("cpu", "meta", "cuda", "cuda:99", "cuda:-1", "hpu", "mps", "xpu", "cpu:3", "CPU", "", torch.device("meta"))
    return chance.choice((*names, *names, *STRANGE, torch.float32, torch.ones(2)))


def dtype_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of a floating-point dtype."""
    return chance.choice((*DTYPES, *STRANGE, "float32", float, np.float32, torch.ones(2), torch.device("cpu")))
