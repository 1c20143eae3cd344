"""The differences of all pairs of nodes in the scalars of the inputs, as features of edges."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.initialization import reset_linear

HIDDEN_SIZE = 16


class PairwiseDifferences(nn.Module):
    r"""What two nodes' scalars say of each other: $W_2\,\text{ReLU}(W_1 (s_i - s_j) + b_1)$.

    Shapes: scalars s [B, N, F] -> [B, N, N, size].
    """

    def __init__(self, num_scalars: int, size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_scalars, HIDDEN_SIZE)
        self.output = nn.Linear(HIDDEN_SIZE, size, bias=False)
        for linear in (self.hidden, self.output):
            reset_linear(linear)

    def forward(self, scalars: Tensor) -> Tensor:
        # Differences are never in half precision, in which different keys may be equal.
        dtype = torch.promote_types(self.hidden.weight.dtype, torch.float32)
        scalars = scalars.to(dtype)
        differences = scalars.unsqueeze(-2) - scalars.unsqueeze(-3)
        with torch.autocast(scalars.device.type, enabled=False):
            hidden = F.relu(F.linear(differences, self.hidden.weight.to(dtype), self.hidden.bias.to(dtype)))
        return self.output(hidden.to(self.output.weight.dtype))
