"""IterGNN's GCN and GAT: the equations of PyTorch Geometric's layers on dense matrices.

They are dense, because the graphs of a batch are padded to one size and fleets run under `vmap`. The parameters have
the names of those of `GCNConv` and `GATConv`, with which the tests compare them.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.regression.model import LayeredModel, State, max_pool, precise_linear

from ..data import NODE_INPUTS, GraphBatch, neighbours
from ..settings import BaselineSettings

ATTENTION_SLOPE = 0.2


def baseline_model(layer_class: "type[DenseGCN] | type[DenseGAT]", settings: BaselineSettings) -> LayeredModel:
    """A stack of `layer_class` without activation, residual or norm in between. All layers have the same initial
    parameters.

    >>> sum(parameter.numel() for parameter in baseline_model(DenseGCN, BaselineSettings()).parameters())
    132933
    """
    size = settings.hidden_size
    layer = layer_class(NODE_INPUTS + size, size)
    layers: list[nn.Module] = [copy.deepcopy(layer) for _ in range(settings.num_layers)]
    return LayeredModel(Embedding(settings), layers, Readout(settings))


class Embedding(nn.Module):
    """Two Linears, each with a LeakyReLU, of the one-hot nodes."""

    def __init__(self, settings: BaselineSettings) -> None:
        super().__init__()
        self.hidden = nn.Linear(NODE_INPUTS, settings.embedding_hidden_size)
        self.output = nn.Linear(settings.embedding_hidden_size, settings.hidden_size)

    def forward(self, graphs: GraphBatch) -> State:
        nodes = graphs.nodes.to(self.hidden.weight.dtype)
        return (F.leaky_relu(self.output(F.leaky_relu(self.hidden(nodes)))),)


class Readout(nn.Module):
    """The nodes' maximum, a Linear, a LeakyReLU."""

    def __init__(self, settings: BaselineSettings) -> None:
        super().__init__()
        self.output = nn.Linear(settings.hidden_size, 1)

    def forward(self, graphs: GraphBatch, state: State) -> Tensor:
        return F.leaky_relu(precise_linear(self.output, max_pool(state[0], graphs.node_mask))).squeeze(-1)


class DenseGCN(nn.Module):
    r"""Graph convolution (Kipf & Welling, 2017) of the one-hot inputs beside the hidden nodes:

    $$h'_i = b + \sum_{j \in N(i) \cup \{i\}} \frac{W [x_j, h_j]}{\sqrt{d_i d_j}} \qquad d_i = |N(i)| + 1$$
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, graphs: GraphBatch, state: State) -> State:
        nodes = self.lin(_with_inputs(graphs, state))
        adjacency = neighbours(graphs).to(nodes.dtype)
        scale = adjacency.sum(-1, keepdim=True).rsqrt()  # [..., N, 1]
        return (scale * (adjacency @ (scale * nodes)) + self.bias,)


class DenseGAT(nn.Module):
    r"""Graph attention (Veličković et al., 2018), one head, of the one-hot inputs beside the hidden nodes:

    $$g_i = W [x_i, h_i] \qquad h'_i = b + \sum_{j \in N(i) \cup \{i\}} \text{softmax}_j\left(
    \text{LeakyReLU}_{0.2}(a_s \cdot g_j + a_t \cdot g_i)\right) g_j$$
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.att_src = nn.Parameter(torch.empty(1, 1, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, 1, out_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        for weight in (self.lin.weight, self.att_src[0], self.att_dst[0]):
            nn.init.xavier_uniform_(weight)

    def forward(self, graphs: GraphBatch, state: State) -> State:
        nodes = self.lin(_with_inputs(graphs, state))
        senders = nodes @ self.att_src.flatten()  # [..., N]
        receivers = nodes @ self.att_dst.flatten()
        scores = F.leaky_relu(senders.unsqueeze(-2) + receivers.unsqueeze(-1), ATTENTION_SLOPE)  # [..., N, N]
        scores = scores.masked_fill(~neighbours(graphs), float("-inf"))
        precise = torch.promote_types(scores.dtype, torch.float32)
        return (scores.softmax(-1, dtype=precise).to(nodes.dtype) @ nodes + self.bias,)


def _with_inputs(graphs: GraphBatch, state: State) -> Tensor:
    (nodes,) = state
    return torch.cat([graphs.nodes.to(nodes.dtype), nodes], dim=-1)
