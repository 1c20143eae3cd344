"""A whole model from a PyG batch to numbers: packing, encodings, relational transformer layers, pooling and a head."""

from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from relational_transformer.nn import LayerOptions, Pretrained, RelationalTransformer
from relational_transformer.nn.checks import (
    check_choice,
    check_device,
    check_size,
    check_size_or_zero,
    check_vectors,
    check_weights,
    shown,
)
from relational_transformer.nn.initialization import reset_linear, truncated_normal_
from relational_transformer.nn.options import PUBLISHED

from .checks import check_rows
from .features import feature_input
from .packing import Packing
from .pooling import pool

if TYPE_CHECKING:
    from torch_geometric.data import Data

Readout = Literal["mean", "sum", "max", "none"]


class RelationalGraphModel(Pretrained):
    r"""Predictions for the graphs of a PyG batch, or for their nodes, from an edge vector for **every** pair of nodes.

    $$e_{ij} = W\,[\text{edge}_{ij},\ \text{pair}_{ij}] \qquad \hat y = \text{pool}_i\ \text{MLP}(n_i^{(L)})$$

    where $\text{edge}_{ij}$ are the features of the edge j -> i, or a learnt vector where there is none, $\text{pair}$
    are encodings of the pair (`AddPairEncodings`), and $n^{(L)}$ the nodes after L relational transformer layers.

    Args:
        in_channels: channels of `x`; or, where `x` has integers, the number of categories of each column, in a tuple.
        out_channels: numbers that are predicted for each graph, or node.
        edge_dim: channels of `edge_attr`, or the categories of its columns; None where there is no `edge_attr`.
        pair_dim: channels of `pair_attr`, the encodings of pairs; 0 where there are none.
        pooling: ``mean``, ``sum`` (for what grows with the graph) or ``max`` over the nodes of a graph, or ``none`` for
            predictions of nodes.

    The other arguments are those of `RelationalTransformer`, `options` among them. Encodings of nodes are channels of
    `x`: PyG's transforms put them there with `attr_name=None`.

    Shapes: a `Data` or `Batch` with x [N, in_channels], edge_index [2, E], edge_attr [E, edge_dim] and pair_attr
    [P, pair_dim] (pairs of nodes that share a graph) -> [graphs, out_channels], or [N, out_channels] without pooling.

    >>> from torch_geometric.data import Batch, Data
    >>> graph = Data(x=torch.randn(3, 7), edge_index=torch.tensor([[0, 1], [1, 2]]), edge_attr=torch.randn(2, 4))
    >>> model = RelationalGraphModel(7, 1, edge_dim=4, num_layers=2)
    >>> model(Batch.from_data_list([graph, graph])).shape
    torch.Size([2, 1])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, ...],
        out_channels: int,
        edge_dim: int | tuple[int, ...] | None = None,
        *,
        pair_dim: int = 0,
        pooling: Readout = "mean",
        node_size: int = 64,
        edge_size: int = 32,
        num_heads: int = 4,
        head_size: int = 16,
        node_hidden_size: int = 128,
        edge_hidden_sizes: tuple[int, int] = (32, 32),
        num_layers: int = 4,
        dropout: float = 0.0,
        options: LayerOptions = PUBLISHED,
    ) -> None:
        super().__init__()
        check_size(out_channels=out_channels, node_size=node_size, edge_size=edge_size)
        check_size_or_zero(pair_dim=pair_dim)
        check_choice("pooling", pooling, get_args(Readout))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.edge_dim = edge_dim
        self.pair_dim = pair_dim
        self.pooling: Readout = pooling
        self.node_size = node_size
        self.edge_size = edge_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.node_hidden_size = node_hidden_size
        self.edge_hidden_sizes = edge_hidden_sizes
        self.num_layers = num_layers
        self.dropout = dropout
        self.options = options
        self.node_features = feature_input("x", "in_channels", in_channels, node_size)
        # Without features an edge is a one, and what is learnt is its difference from no edge.
        self.edge_features = feature_input("edge_attr", "edge_dim", 1 if edge_dim is None else edge_dim, edge_size)
        self.no_edge = nn.Parameter(torch.empty(self.edge_features.size))
        self.transformer = RelationalTransformer(
            self.node_features.size,
            self.edge_features.size + pair_dim,
            node_size=node_size,
            edge_size=edge_size,
            num_heads=num_heads,
            head_size=head_size,
            node_hidden_size=node_hidden_size,
            edge_hidden_sizes=edge_hidden_sizes,
            num_layers=num_layers,
            dropout=dropout,
            options=options,
        )
        self.readout_in = nn.Linear(node_size, node_size)
        self.readout_out = nn.Linear(node_size, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for module in (self.node_features, self.edge_features, self.transformer):
            module.reset_parameters()
        truncated_normal_(self.no_edge, fan_in=1)
        reset_linear(self.readout_in)
        reset_linear(self.readout_out)

    def forward(self, batch: "Data") -> Tensor:
        """Predictions for each graph of `batch`, or for each node."""
        nodes, edges, packing = self._pack(batch)
        nodes, _, _ = self.transformer(nodes, edges, node_mask=packing.node_mask)  # [graphs, nodes, node_size]
        predictions = self.readout_out(torch.relu(self.readout_in(nodes)))  # [graphs, nodes, out_channels]
        if self.pooling == "none":
            return packing.unpack_nodes(predictions)
        return pool(predictions, packing.node_mask, self.pooling)

    def _pack(self, batch: "Data") -> tuple[Tensor, tuple[Tensor, ...], Packing]:
        """Dense nodes, the parts of dense edges, and where each node stands in them."""
        names = ("x", "edge_index", "edge_attr", "pair_attr", "batch")
        x, edge_index, edge_attr, pair_attr, graph = (getattr(batch, name, None) for name in names)
        if x is None or edge_index is None:
            raise ValueError(f"batch must be a PyG Data or Batch with x and edge_index, got {type(batch).__name__}")
        nodes = self.node_features(x)
        packing = Packing.of(edge_index, nodes.shape[0], graph, getattr(batch, "num_graphs", None))
        if (edge_attr is None) != (self.edge_dim is None):
            expected = "None" if self.edge_dim is None else "given"
            raise ValueError(f"edge_attr must be {expected} for a model with edge_dim={shown(self.edge_dim)}")
        check_device("edge_index", edge_index, "x", nodes)
        if edge_attr is None:
            edge_attr = self.no_edge.new_ones(edge_index.shape[1], 1)
        check_rows("edge_attr", edge_attr, edge_index.shape[1], "edges")
        edge_vectors = self.edge_features(edge_attr)
        check_weights(self.readout_in, x=nodes, edge_attr=edge_vectors)
        edges = (packing.pack_edges(edge_vectors, missing=self.no_edge),)
        if (pair_attr is None) != (self.pair_dim == 0):
            expected = "given" if self.pair_dim else "None"
            raise ValueError(f"pair_attr must be {expected} for a model with pair_dim={self.pair_dim}")
        if pair_attr is not None:
            check_vectors("pair_attr", pair_attr, self.pair_dim, axes=2)
            check_rows("pair_attr", pair_attr, packing.pair_places()[0].shape[0], "pairs of nodes that share a graph")
            check_weights(self.readout_in, pair_attr=pair_attr)
            edges = (*edges, packing.pack_pairs(pair_attr))
        return packing.pack_nodes(nodes), edges, packing
