"""The relational transformer layer as a PyG convolution."""

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from relational_transformer.nn import ConcatLinear, LayerOptions, RelationalTransformerLayer
from relational_transformer.nn.checks import (
    LARGEST_SIZE,
    check_alike,
    check_choice,
    check_flag,
    check_number,
    check_size,
    check_sizes,
    check_tensor,
)
from relational_transformer.nn.initialization import truncated_normal_
from relational_transformer.nn.layer import can_checkpoint
from relational_transformer.nn.options import PUBLISHED, check_options
from relational_transformer.nn.plain import is_plain
from relational_transformer.nn.saving.pretrained import Pretrained

from .checks import check_batch, check_edge_index, check_node_lists, check_pair, check_rows
from .input_projection import LazyLinear, input_projection, known_channels
from .message_passing import MessagePassing
from .packing import Packing
from .sparse_attention import SparseAttention, SparseAttentionOutput
from .sparse_edge_update import sparse_edge_update

Mode = Literal["sparse", "complete"]
AttentionWeights = tuple[Tensor, Tensor]
Output = Tensor | tuple[Tensor, Tensor] | tuple[Tensor, AttentionWeights] | tuple[Tensor, Tensor, AttentionWeights]


class RelationalTransformerConv(Pretrained, MessagePassing):
    r"""`RelationalTransformerLayer` on PyG's node and edge lists: updates nodes **and** edges.

    An edge $j \to i$ of `edge_index` is $e_{ij}$: node i attends to node j along it,

    $$n'_i = \phi_n\Big(n_i, \sum_j \text{softmax}_j\!\left(\frac{q_{ij} \cdot k_{ij}}{\sqrt{D}}\right) v_{ij}\Big)
    \qquad e'_{ij} = \phi_e(e_{ij}, e_{ji}, n'_j, n'_i)$$

    with queries, keys and values of both the nodes and the edge, $q_{ij} = W_n^Q n_i + W_e^Q e_{ij}$ and so on
    (Diao & Loynd, ICLR 2023).

    Two modes:

    - ``sparse``: a node attends along the edges that lead to it, and to nothing else; time and memory grow with the
      edges. Parallel edges count one by one. Self loops are not added: a node to which no edge leads hears nothing.
    - ``complete``: every node attends to every node of its graph, itself included; pairs without an edge get the
      learned vector `no_edge`. Time and memory grow with the graphs times the square of the largest. Parallel edges are
      an error.

    In both modes `no_edge` also stands for $e_{ji}$ where there is no edge back, so that the sparse mode is the
    dense layer with the adjacency as its attention mask, and on complete graphs both modes are one.

    The sparse mode takes ``x=(sources, targets)`` too, two lists of nodes with the edges between them: the targets hear
    from the sources, new targets are returned, and no edge leads back.

    Args:
        in_channels: channels of `x`; -1 takes them from the first input. Where they are not `out_channels` (and always
            with -1) a Linear comes first. Two numbers are for sources and targets, with a Linear each; one list of
            nodes is then read as both.
        out_channels: channels of a node vector, in the layer and in what it returns.
        heads: attention heads.
        edge_dim: channels of `edge_attr`; -1 takes them from the first input; None where there is no `edge_attr`, and
            every edge starts from one learned vector. Where they are not `edge_channels` a Linear comes first.
        edge_channels: channels of an edge vector, in the layer and in what it returns; `out_channels` if not given.
        head_channels: channels of one head; `out_channels / heads` if not given.
        hidden_channels: hidden width of the node feed-forward; `2 · out_channels` if not given.
        edge_hidden_channels: hidden widths of the edge update.
        mode: ``sparse`` or ``complete``.
        update_edges: without it the edge vectors pass through (after their Linear, if there is one).
        dropout: on each update before it is added to its residual.
        return_edges: without it the new `x` alone is returned, as PyG's containers (`GPSConv`, `HeteroConv`,
            `to_hetero`) expect, and there is no edge update, which nothing would read.
        options: variants of the layer, `LayerOptions`; the published layer if not given.

    Shapes: x [N, in_channels], edge_index [2, E], edge_attr [E, edge_dim] (or [E] for one channel), batch [N], in any
    order -> x [N, out_channels], edge_attr [E, edge_channels].

    >>> conv = RelationalTransformerConv(16, 32, heads=4, edge_dim=3, edge_channels=8)
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> x, edge_attr = conv(torch.randn(3, 16), edge_index, torch.randn(4, 3))
    >>> x.shape, edge_attr.shape
    (torch.Size([3, 32]), torch.Size([4, 8]))
    >>> conv
    RelationalTransformerConv(16, 32, heads=4, edge_dim=3, edge_channels=8)
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        *,
        edge_dim: int | None = None,
        edge_channels: int | None = None,
        head_channels: int | None = None,
        hidden_channels: int | None = None,
        edge_hidden_channels: tuple[int, int] = (16, 8),
        mode: Mode = "sparse",
        update_edges: bool = True,
        dropout: float = 0.0,
        return_edges: bool = True,
        options: LayerOptions = PUBLISHED,
    ) -> None:
        super().__init__(aggr=None)
        check_size(out_channels=out_channels, heads=heads)
        optional = {"edge_channels": edge_channels, "head_channels": head_channels, "hidden_channels": hidden_channels}
        check_size(**{name: size for name, size in optional.items() if size is not None})
        edge_hidden_channels = check_sizes("edge_hidden_channels", edge_hidden_channels, "two hidden widths")
        check_choice("mode", mode, get_args(Mode))
        check_flag(update_edges=update_edges, return_edges=return_edges)
        check_number("dropout", dropout, below=1.0)
        check_options(options)
        if heads * (head_channels or 1) > LARGEST_SIZE:
            raise ValueError(f"heads x head_channels must be at most {LARGEST_SIZE}, got {heads} x {head_channels}")
        if head_channels is None and out_channels % heads:
            raise ValueError(
                f"heads must divide out_channels={out_channels} or head_channels be given, got heads={heads}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.edge_dim = edge_dim
        self.edge_channels = out_channels if edge_channels is None else edge_channels
        self.head_channels = out_channels // heads if head_channels is None else head_channels
        self.hidden_channels = 2 * out_channels if hidden_channels is None else hidden_channels
        self.edge_hidden_channels = edge_hidden_channels
        self.mode: Mode = mode
        self.update_edges = update_edges
        self.dropout = dropout
        self.return_edges = return_edges
        self.options = options

        self.layer = RelationalTransformerLayer(
            node_size=out_channels,
            edge_size=self.edge_channels,
            num_heads=heads,
            head_size=self.head_channels,
            node_hidden_size=self.hidden_channels,
            edge_hidden_sizes=edge_hidden_channels,
            update_edges=update_edges and return_edges,
            dropout=dropout,
            options=options,
        )
        self.sparse_attention = SparseAttention(heads, options.attention_dropout, options.log_scaling_size)
        if isinstance(in_channels, tuple | list):
            source_channels, target_channels = check_pair("in_channels", in_channels)
            self.source_input = input_projection("in_channels[0]", source_channels, out_channels)
            self.node_input = input_projection("in_channels[1]", target_channels, out_channels)
        else:
            self.source_input = None
            self.node_input = input_projection("in_channels", in_channels, out_channels)
        self.edge_input = None if edge_dim is None else input_projection("edge_dim", edge_dim, self.edge_channels)
        self.no_edge = nn.Parameter(torch.empty(self.edge_channels))
        self.some_edge = nn.Parameter(torch.empty(self.edge_channels)) if edge_dim is None else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.layer.reset_parameters()
        for linear in (self.source_input, self.node_input, self.edge_input):
            if isinstance(linear, ConcatLinear | LazyLinear):
                linear.reset_parameters()
        for vector in (self.no_edge, self.some_edge):
            if vector is not None:
                truncated_normal_(vector, fan_in=1)  # of the size of a normalised edge vector, and not zero

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Output:
        """New `x`, and `edge_attr` unless `return_edges` is off; with `return_attention_weights` also
        `(edge_index, weights [.., heads])`.

        The weights are those of the edges in the sparse mode, and of all pairs of nodes of a graph in the complete one.
        `batch` [N] says which graph a node belongs to; the sparse mode follows the edges and does not need it.
        """
        sources, targets = self._check(x, edge_index, edge_attr, batch)
        need_weights = False if return_attention_weights is None else return_attention_weights  # None as in PyG
        check_flag(return_attention_weights=need_weights)
        edge_index, batch = edge_index.long(), None if batch is None else batch.long()
        nodes, edges = self.node_input(targets), self._edge_vectors(edge_index, edge_attr)
        if self.mode == "sparse":
            senders = nodes
            if sources is not None or self.source_input is not None:
                senders = (self.source_input or self.node_input)(targets if sources is None else sources)
            arguments = senders, nodes, edges, edge_index, sources is not None
            if self.options.gradient_checkpointing and self.training and can_checkpoint():
                nodes, edges, attention = checkpoint(self._run_sparse, *arguments, use_reentrant=False)
            else:
                nodes, edges, attention = self._run_sparse(*arguments)
        else:
            nodes, edges, attention = self._run_complete(nodes, edges, edge_index, batch, need_weights)
        if attention is None or not need_weights:
            return (nodes, edges) if self.return_edges else nodes
        return (nodes, edges, attention) if self.return_edges else (nodes, attention)

    def _edge_vectors(self, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        if self.some_edge is not None:
            return self.some_edge.expand(edge_index.shape[1], -1)
        assert edge_attr is not None
        assert self.edge_input is not None
        return self.edge_input(edge_attr.unsqueeze(-1) if edge_attr.dim() == 1 else edge_attr)

    def _run_sparse(
        self, senders: Tensor, nodes: Tensor, edges: Tensor, edge_index: Tensor, is_bipartite: bool
    ) -> tuple[Tensor, Tensor, AttentionWeights]:
        messages, weights = self._attend(senders, nodes, edges, edge_index)
        nodes = self.layer.update_nodes(nodes, messages)
        if self.layer.edge_update is not None:
            senders = senders if is_bipartite else nodes
            edges = sparse_edge_update(self.layer.edge_update, edges, senders, nodes, edge_index, self.no_edge)
        return nodes, edges, (edge_index, weights)

    def _attend(self, senders: Tensor, nodes: Tensor, edges: Tensor, edge_index: Tensor) -> SparseAttentionOutput:
        attention = self.layer.attention
        # What edges bring is added up in the precision of the weights, whatever autocast chose for the products.
        precise = self.no_edge.dtype
        norm, some_edge = self.layer.attended_edge_norm, self.some_edge
        if norm is not None:  # pre-norm
            normed = self.layer.node_norm(nodes)
            senders, nodes = normed if senders is nodes else self.layer.node_norm(senders), normed
            edges, some_edge = norm(edges), None if some_edge is None else norm(some_edge)
        query, key, value = attention.node_qkv(nodes).to(precise).chunk(3, dim=-1)  # [N, H·D] each
        if senders is not nodes:
            _, key, value = attention.node_qkv(senders).to(precise).chunk(3, dim=-1)
        if not is_plain(attention.edge_qkv):
            return self.sparse_attention(query, key, value, attention.edge_qkv(edges), edge_index)
        # What every edge has alike is added to the nodes: the biases of the projection, and without edge features the
        # projection itself, of which no channel is left.
        alike, weight = attention.edge_qkv.bias, attention.edge_qkv.weight
        if some_edge is not None:
            alike, edges, weight = attention.edge_qkv(some_edge), edges[:, :0], weight[:, :0]
        of_query, of_key, of_value = alike.to(precise).chunk(3)
        nodes_qkv = query + of_query, key + of_key, value + of_value
        return self.sparse_attention(*nodes_qkv, edges, edge_index, weight)

    def _run_complete(
        self, nodes: Tensor, edges: Tensor, edge_index: Tensor, batch: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor, AttentionWeights | None]:
        packing = Packing.of(edge_index, nodes.shape[0], batch)
        nodes, edges = packing.pack_nodes(nodes), packing.pack_edges(edges, missing=self.no_edge)
        attention = None
        if need_weights:
            norm = self.layer.attended_edge_norm
            read = (nodes, edges) if norm is None else (self.layer.node_norm(nodes), norm(edges))
            weights = self.layer.attention(*read, node_mask=packing.node_mask, need_weights=True, checked=True).weights
            pairs, indices = packing.all_pairs()
            attention = pairs, weights.movedim(1, -1)[indices]  # [graphs, i, j, heads] -> [P, heads]
        nodes, edges = self.layer(nodes, edges, node_mask=packing.node_mask, checked=True)  # padding is zeros here
        return packing.unpack_nodes(nodes), packing.unpack_edges(edges), attention

    def _check(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor | None,
    ) -> tuple[Tensor | None, Tensor]:
        """The sources, where they are a list of their own, and the targets."""
        sources, targets = check_node_lists("x", x)
        if self.mode != "sparse" and (sources is not None or isinstance(self.in_channels, tuple | list)):
            raise ValueError("x and in_channels must be one each in mode='complete': all nodes attend to each other")
        given = self.in_channels if isinstance(self.in_channels, tuple | list) else [self.in_channels] * 2
        projections = self.source_input or self.node_input, self.node_input
        channels = [known_channels(*one) for one in zip(projections, given, strict=True)]
        if sources is None:
            self._check_nodes("x", targets, *channels)
        else:
            self._check_nodes("x[0]", sources, channels[0])
            self._check_nodes("x[1]", targets, channels[1])
            if self.source_input is None and sources.shape[-1] != targets.shape[-1]:
                told = f"got {sources.shape[-1]} and {targets.shape[-1]}: give in_channels=(-1, -1)"
                raise ValueError(f"x must have as many channels in both lists for in_channels=-1, {told}")
        num_sources = None if sources is None else sources.shape[0]
        check_edge_index(edge_index, targets.shape[0], "x", targets, num_sources=num_sources)
        if (edge_attr is None) != (self.edge_dim is None):
            expected = "None" if self.edge_dim is None else "given"
            raise ValueError(f"edge_attr must be {expected} for a layer with edge_dim={self.edge_dim}")
        if edge_attr is not None:
            check_tensor("edge_attr", edge_attr)
            check_rows("edge_attr", edge_attr, edge_index.shape[1], "edges", axes=(1, 2))
            channels = 1 if edge_attr.dim() == 1 else edge_attr.shape[-1]
            known = known_channels(self.edge_input, self.edge_dim)
            if known != -1 and channels != known:  # a compiler may know no number yet: no `in`
                raise ValueError(f"edge_attr must be [E, {known}], got shape {list(edge_attr.shape)}")
        check_alike("the weights", self.no_edge, edge_attr=edge_attr)
        check_batch(batch, targets.shape[0], "x", targets)
        return sources, targets

    def _check_nodes(self, name: str, nodes: Any, *channels: Any) -> None:
        check_tensor(name, nodes)
        if nodes.dim() != 2:
            raise ValueError(f"{name} must be [N, in_channels], got shape {list(nodes.shape)}")
        for number in channels:
            if number != -1 and nodes.shape[-1] != number:
                raise ValueError(f"{name} must have {number} channels in its last axis, got shape {list(nodes.shape)}")
        check_alike("the weights", self.no_edge, **{name: nodes})

    def __repr__(self) -> str:
        parts = [str(self.in_channels), str(self.out_channels), f"heads={self.heads}"]
        parts += [f"edge_dim={self.edge_dim}", f"edge_channels={self.edge_channels}"]
        parts += [f"mode={self.mode!r}"] if self.mode != "sparse" else []
        parts += [f"options={self.options}"] if self.options != PUBLISHED else []
        return f"{type(self).__name__}({', '.join(parts)})"
