"""The relational transformer layer: a node update by relational attention, then an edge update."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from . import kernels
from .attention import RelationalAttention
from .checks import (
    check_batches,
    check_bias,
    check_edges,
    check_flag,
    check_globals,
    check_mask,
    check_number,
    check_place,
    check_size,
    check_sizes,
    check_vectors,
    check_weights,
    checked_head_size,
)
from .edge_update import EdgeUpdate
from .initialization import reset_linear
from .options import PUBLISHED, LayerOptions, check_options
from .padding import present_edges, present_nodes
from .plain import replaceable
from .saving.pretrained import Pretrained


class LayerOutput(NamedTuple):
    """The output of a layer: `nodes` [..., N, node_size] and `edges` [..., N, N, edge_size].

    >>> layer = RelationalTransformerLayer(node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8)
    >>> output = layer(torch.randn(5, 8), torch.randn(5, 5, 4))
    >>> output.nodes.shape, output.edges.shape
    (torch.Size([5, 8]), torch.Size([5, 5, 4]))
    """

    nodes: Tensor
    edges: Tensor


class RelationalTransformerLayer(Pretrained):
    r"""One layer of the Relational Transformer (Diao & Loynd, ICLR 2023).

    The nodes are updated as in a transformer (post-norm), with relational attention in place of attention:

    $$h_i = \text{LayerNorm}(W_1\,\text{attention}_i + n_i) \qquad
    n'_i = \text{LayerNorm}(W_3\,\text{ReLU}(W_2 h_i) + h_i)$$

    Then the edges, from the **updated** nodes (see `edge_update`): $e'_{ij} = \phi(e_{ij}, e_{ji}, n'_j, n'_i)$.

    Args:
        node_size: channels of a node vector, d_n.
        edge_size: channels of an edge vector, d_e; may differ from node_size.
        num_heads: attention heads.
        head_size: channels of one head; node_size / num_heads if not given, but their product need not be node_size.
        node_hidden_size: hidden width of the node feed-forward, d_nh; 2 · node_size if not given, as in other graph
            transformers. (The paper searched among 4 to 90, and took 32 for a node_size of 192.)
        edge_hidden_sizes: hidden widths of the edge update, (d_eh1, d_eh2).
        update_edges: without it the edges pass through unchanged.
        dropout: on each update before it is added to its residual.
        global_size: channels of an optional vector of the whole graph that joins every query, key, value and edge
            update (the paper's `att`).
        options: variants of the layer, `LayerOptions`; the published layer if not given.
        device: where the parameters are made.
        dtype: the dtype they are made in.

    Masks are bool, True = present: `node_mask` [..., N], `attention_mask` [..., N, N]. Absent nodes and their edges
    affect no present node, no present edge and no gradient, even if they are NaN. `attention_mask` is True where
    node i attends to node j. The edge of a masked pair affects no node in this layer, but it is updated like the
    others, and so is its reverse, which reads it. `attention_bias` [..., H, N, N] is added to the scores of
    attention; -inf masks a pair in one head.

    >>> layer = RelationalTransformerLayer(node_size=32, edge_size=16, num_heads=4, head_size=8, node_hidden_size=64)
    >>> nodes, edges = layer(torch.randn(2, 10, 32), torch.randn(2, 10, 10, 16))
    >>> nodes.shape, edges.shape
    (torch.Size([2, 10, 32]), torch.Size([2, 10, 10, 16]))
    """

    def __init__(
        self,
        *,
        node_size: int,
        edge_size: int,
        num_heads: int,
        head_size: int | None = None,
        node_hidden_size: int | None = None,
        edge_hidden_sizes: tuple[int, int] = (16, 8),
        update_edges: bool = True,
        dropout: float = 0.0,
        global_size: int = 0,
        options: LayerOptions = PUBLISHED,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size(node_size=node_size, num_heads=num_heads)
        head_size = checked_head_size(head_size, node_size, num_heads)
        node_hidden_size = 2 * node_size if node_hidden_size is None else node_hidden_size
        check_size(node_hidden_size=node_hidden_size)
        edge_hidden_sizes = check_sizes("edge_hidden_sizes", edge_hidden_sizes, "d_eh1, d_eh2")
        check_number("dropout", dropout, below=1.0)
        check_flag(update_edges=update_edges)
        check_options(options)
        check_place(device, dtype)
        self.node_size = node_size
        self.edge_size = edge_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.node_hidden_size = node_hidden_size
        self.edge_hidden_sizes = edge_hidden_sizes
        self.update_edges = update_edges
        self.dropout = dropout
        self.global_size = global_size
        self.options = options
        place = {"device": device, "dtype": dtype}
        self.attention = RelationalAttention(
            node_size=node_size,
            edge_size=edge_size,
            num_heads=num_heads,
            head_size=head_size,
            global_size=global_size,
            dropout=options.attention_dropout,
            log_scaling_size=options.log_scaling_size,
            **place,
        )
        self.node_output = nn.Linear(num_heads * head_size, node_size, **place)
        self.node_norm = options.make_norm(node_size, **place)
        self.attended_edge_norm = options.make_norm(edge_size, **place) if options.pre_norm else None
        self.node_feed_forward_in = nn.Linear(node_size, options.widened(node_hidden_size), **place)
        self.node_feed_forward_out = nn.Linear(node_hidden_size, node_size, **place)
        self.node_feed_forward_norm = options.make_norm(node_size, **place)
        self.edge_update = (
            EdgeUpdate(
                node_size=node_size,
                edge_size=edge_size,
                hidden_sizes=edge_hidden_sizes,
                global_size=global_size,
                dropout=dropout,
                options=options,
                **place,
            )
            if update_edges
            else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.attention.reset_parameters()
        for linear in (self.node_output, self.node_feed_forward_in, self.node_feed_forward_out):
            reset_linear(linear)
        for norm in (self.node_norm, self.attended_edge_norm, self.node_feed_forward_norm):
            if norm is not None:
                norm.reset_parameters()
        if self.edge_update is not None:
            self.edge_update.reset_parameters()

    @replaceable
    def forward(
        self,
        nodes: Tensor,
        edges: Tensor,
        node_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        globals: Tensor | None = None,
        *,
        attention_bias: Tensor | None = None,
        checked: bool = False,
    ) -> LayerOutput:
        """New nodes and edges. `checked` is for modules that call this one: they have checked all arguments, and absent
        nodes hold finite numbers."""
        before = edges
        if not checked:
            self._check(nodes, edges, node_mask, attention_mask, attention_bias, globals)
            if node_mask is not None:
                nodes, edges = present_nodes(nodes, node_mask), present_edges(edges, node_mask)
        is_bare = node_mask is None and attention_mask is None and attention_bias is None
        if is_bare and kernels.fits_one_kernel(self, nodes, edges):
            return LayerOutput(*kernels.relational_layer(nodes, edges, dict(self.named_parameters())))
        arguments = nodes, edges, node_mask, attention_mask, attention_bias, globals
        if self.options.gradient_checkpointing and self.training and can_checkpoint():
            nodes, edges = checkpoint(self._update, *arguments, use_reentrant=False)
        else:
            nodes, edges = self._update(*arguments)
        return LayerOutput(nodes, before if self.edge_update is None else edges)

    def _update(
        self,
        nodes: Tensor,
        edges: Tensor,
        node_mask: Tensor | None,
        attention_mask: Tensor | None,
        attention_bias: Tensor | None,
        globals: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        attended, attended_edges = nodes, edges
        if self.attended_edge_norm is not None:
            if attention_mask is not None:  # the norm's gradient reads whatever edges it is given
                attended_edges = torch.where(attention_mask.unsqueeze(-1), edges, 0)
            attended, attended_edges = self.node_norm(nodes), self.attended_edge_norm(attended_edges)
        messages = self.attention(
            attended,
            attended_edges,
            node_mask=node_mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            globals=globals,
            checked=attention_mask is None,  # with a mask, it clears masked edges itself
        ).messages
        nodes = self.update_nodes(nodes, messages)
        return nodes, edges if self.edge_update is None else self.edge_update(edges, nodes, globals, checked=True)

    def update_nodes(self, nodes: Tensor, messages: Tensor) -> Tensor:
        """The node update after attention, from the nodes before it and their messages.

        >>> layer = RelationalTransformerLayer(node_size=8, edge_size=4, num_heads=2)
        >>> layer.update_nodes(torch.randn(5, 8), torch.randn(5, 8)).shape
        torch.Size([5, 8])
        """
        nodes = nodes + self._drop(self.node_output(messages))
        if self.options.pre_norm:
            return nodes + self._drop(self._feed_forward(self.node_feed_forward_norm(nodes)))
        nodes = self.node_norm(nodes)
        return self.node_feed_forward_norm(nodes + self._drop(self._feed_forward(nodes)))

    def _feed_forward(self, nodes: Tensor) -> Tensor:
        return self.node_feed_forward_out(self.options.activate(self.node_feed_forward_in(nodes)))

    def _check(
        self,
        nodes: Tensor,
        edges: Tensor,
        node_mask: Tensor | None,
        attention_mask: Tensor | None,
        attention_bias: Tensor | None,
        globals: Tensor | None,
    ) -> None:
        check_vectors("nodes", nodes, self.node_size, axes=2)
        check_vectors("edges", edges, self.edge_size, axes=3)
        check_globals(globals, self.global_size, "a layer")
        num_nodes = nodes.shape[-2]
        check_edges(edges, num_nodes, num_nodes)
        check_weights(self.node_output, nodes=nodes, edges=edges, globals=globals)
        check_mask("node_mask", node_mask, (num_nodes,), nodes)
        check_mask("attention_mask", attention_mask, (num_nodes, num_nodes), nodes)
        check_bias(attention_bias, self.num_heads, num_nodes, num_nodes, nodes)
        check_batches(
            nodes=(nodes, 2),
            edges=(edges, 3),
            node_mask=(node_mask, 1),
            attention_mask=(attention_mask, 2),
            attention_bias=(attention_bias, 3),
            globals=(globals, 1),
        )

    def _drop(self, update: Tensor) -> Tensor:
        return F.dropout(update, self.dropout, self.training)

    def extra_repr(self) -> str:
        parts = [f"node_size={self.node_size}", f"edge_size={self.edge_size}"]
        parts += [f"dropout={self.dropout}"] if self.dropout else []
        parts += [] if self.edge_update is not None else ["update_edges=False"]
        parts += [] if self.options == PUBLISHED else [f"options={self.options}"]
        return ", ".join(parts)


def can_checkpoint() -> bool:
    """Whether activations may be recomputed. Torch's checkpoints do not support the transforms of `torch.func`,
    under which all activations are kept."""
    stack = torch._C._functorch.peek_interpreter_stack()  # pyright: ignore[reportAttributeAccessIssue]
    return torch.is_grad_enabled() and stack is None
