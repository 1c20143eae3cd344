"""Features of nodes and edges as vectors: numbers as they are, categories by learnt vectors."""

from typing import Any

import torch
from torch import Tensor, nn

from relational_transformer.nn.checks import LARGEST_SIZE, check_dense, check_device, check_size, check_vectors, shown
from relational_transformer.nn.initialization import truncated_normal_

MOST_CATEGORIES = 10**7
"""Together, of all columns."""
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Numbers(nn.Module):
    """Floating-point features [.., size] as they are.

    >>> Numbers("x", 3)(torch.zeros(5, 3)).shape
    torch.Size([5, 3])
    """

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        self.name = name
        self.size = size

    def forward(self, features: Tensor) -> Tensor:
        check_vectors(self.name, features, self.size, axes=2)
        if features.dim() != 2:
            raise ValueError(f"{self.name} must be [.., {self.size}], got shape {list(features.shape)}")
        return features

    def reset_parameters(self) -> None:
        """There are none."""


class Categories(nn.Module):
    """Integer features [.., columns], each column with so many categories, as the sum of a learnt vector for each.

    >>> Categories("x", (119, 4), 16)(torch.tensor([[6, 0], [8, 3]])).shape
    torch.Size([2, 16])
    """

    first: Tensor

    def __init__(self, name: str, counts: tuple[int, ...], size: int) -> None:
        super().__init__()
        self.name = name
        self.counts = tuple(counts)
        self.size = size
        self.vectors = nn.Embedding(sum(counts), size)
        starts = torch.tensor([0, *counts[:-1]]).cumsum(0)
        self.register_buffer("first", starts, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        truncated_normal_(self.vectors.weight, fan_in=1)

    def forward(self, features: Tensor) -> Tensor:
        self._check(features)
        return self.vectors(features.long() + self.first).sum(-2)  # [.., columns] -> [.., size]

    def _check(self, features: Any) -> None:
        columns = len(self.counts)
        if not isinstance(features, Tensor) or features.dtype not in INTEGERS:
            raise ValueError(f"{self.name} must be a tensor of integers, got {shown(features)}")
        check_dense(self.name, features)
        check_device(self.name, features, "the weights", self.vectors.weight)
        if features.dim() != 2 or features.shape[-1] != columns:
            raise ValueError(f"{self.name} must be [.., {columns}], got shape {list(features.shape)}")
        if features.device.type != "cpu" or not features.numel():
            return
        least, most = features.aminmax(dim=0)
        for column, count in enumerate(self.counts):
            if least[column] < 0 or most[column] >= count:
                wrong = int(least[column] if least[column] < 0 else most[column])
                raise ValueError(f"{self.name}[:, {column}] must be between 0 and {count - 1}, got {wrong}")


def feature_input(name: str, argument: str, given: Any, size: int) -> Numbers | Categories:
    """What reads features: `given` channels of numbers, or categories (a number for each column) as `size` channels.

    >>> feature_input("x", "in_channels", 3, 16), feature_input("x", "in_channels", (5, 2), 16).size
    (Numbers(), 16)
    """
    if isinstance(given, tuple | list):
        for column, count in enumerate(given):
            check_size(MOST_CATEGORIES, **{f"{argument}[{column}]": count})
        if not given or sum(given) > MOST_CATEGORIES:
            raise ValueError(f"{argument} must be between 1 and {MOST_CATEGORIES} categories, got {shown(given)}")
        return Categories(name, tuple(given), size)
    check_size(LARGEST_SIZE, **{argument: given})
    return Numbers(name, given)
