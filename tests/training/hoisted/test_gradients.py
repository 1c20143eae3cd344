"""What steps have left behind, put side by side."""

import pytest
import torch

from relational_transformer.training.hoisted import gradients
from relational_transformer.training.hoisted.gradients import lie_side_by_side, side_by_side


@pytest.mark.parametrize("most", [128, 1])
def test_tensors_of_all_steps_lie_side_by_side(most: int, monkeypatch):
    monkeypatch.setattr(gradients, "IN_ONE_LAUNCH", most)
    steps = [
        [
            torch.randn(2, 3),
            torch.randn(2, 4, 5, 6).bfloat16(),
            torch.randn(2, 5, 4, 3, 2).transpose(1, 2),
            torch.randn(2, 4, 6, 9)[..., :8],
            torch.randn(2),
            torch.randn(7, 2, 3),
        ]
        for _ in range(3)
    ]
    for number, tensor in enumerate(side_by_side(steps)):
        assert torch.equal(tensor, torch.stack([step[number] for step in steps], dim=1)), number


def test_nothing_lies_side_by_side_with_nothing():
    assert side_by_side([[], []]) == []


@pytest.mark.parametrize(
    ("device", "dtype", "expected"),
    [("cuda", torch.float32, True), ("cpu", torch.bfloat16, True), ("cpu", torch.float32, False)],
)
def test_they_lie_side_by_side_where_that_is_faster(device: str, dtype: torch.dtype, expected: bool):
    assert lie_side_by_side(torch.device(device), dtype) is expected
