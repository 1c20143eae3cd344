r"""Scores of pointers from many rows to a few choices as one operator of PyTorch.

$$s_{rk} = \sum_c w_c \max(l_{rc}, p_{kc})$$

Compiled, the forward pass and each of the three gradients (of l, p and w) goes over all R x K x C maxima. Here
the backward pass makes them once, in registers, and adds up in three directions.
"""

from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.seeds import differentiable, differentiable_once


def pointer_scores(rows: Tensor, choices: Tensor, weight: Tensor) -> Tensor:
    """Scores [B, R, K, F] in float32, of rows [B, R, F, C], choices [B, K, F, C] and weights [F, C]."""
    (scores,) = scored(*(tensor.unsqueeze(0) for tensor in (rows, choices, weight)))
    return scores.squeeze(0)


@torch.library.custom_op("relational_transformer::pointer_scores", mutates_args=())
def pointer_scores_operator(
    rows: Tensor,  # [S, B, R, F, C]
    choices: Tensor,  # [S, B, K, F, C]
    weight: Tensor,  # [S, F, C]
) -> tuple[Tensor]:
    from relational_transformer.nn.kernels.pointer_scores_passes import pointer_scores_forward

    return (pointer_scores_forward(rows.contiguous(), choices.contiguous(), weight.contiguous()),)


@pointer_scores_operator.register_fake
def _(rows: Tensor, choices: Tensor, weight: Tensor) -> tuple[Tensor]:
    seeds, batch, count, features, _ = rows.shape
    return (rows.new_empty((seeds, batch, count, choices.shape[2], features), dtype=torch.float32),)


@torch.library.custom_op("relational_transformer::pointer_scores_backward", mutates_args=())
def pointer_scores_backward_operator(
    gradient: Tensor,  # [S, B, R, K, F]
    rows: Tensor,
    choices: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    from relational_transformer.nn.kernels.pointer_scores_passes import pointer_scores_backward

    return pointer_scores_backward(*(tensor.contiguous() for tensor in (gradient, rows, choices, weight)))


@pointer_scores_backward_operator.register_fake
def _(gradient: Tensor, rows: Tensor, choices: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    of_choices, of_weight = (weight.new_empty(tensor.shape, dtype=torch.float32) for tensor in (choices, weight))
    return rows.new_empty(rows.shape), of_choices, of_weight


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
    rows, choices, weight = ctx.saved_tensors
    of_rows, of_choices, of_weight = scored_backward(gradient, rows, choices, weight)
    return of_rows, of_choices.to(choices.dtype), of_weight.to(weight.dtype)


scored = differentiable(pointer_scores_operator, _save, _differentiate)
scored_backward = differentiable_once(pointer_scores_backward_operator)
