"""The edge update: a new edge vector from the edge, its reverse and its two nodes."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import kernels
from .alignment import padded
from .checks import (
    check_alike,
    check_batches,
    check_edges,
    check_globals,
    check_mask,
    check_number,
    check_place,
    check_size,
    check_size_or_zero,
    check_sizes,
    check_tensor,
    check_vectors,
    check_weights,
)
from .concat_linear import linear_of_parts
from .initialization import reset_linear
from .options import PUBLISHED, LayerOptions, check_options
from .padding import present_edges, present_nodes
from .plain import EPSILON, is_plain, replaceable


def edge_update(
    edges: Tensor,
    receivers: Tensor,
    senders: Tensor,
    message_edge_weight: Tensor,
    message_reverse_weight: Tensor,
    message_out_weight: Tensor,
    message_out_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    feed_forward_in_weight: Tensor,
    feed_forward_in_bias: Tensor,
    feed_forward_out_weight: Tensor,
    feed_forward_out_bias: Tensor,
    feed_forward_norm_weight: Tensor,
    feed_forward_norm_bias: Tensor,
    eps: float = EPSILON,
    dropout: float = 0.0,
    node_mask: Tensor | None = None,
) -> Tensor:
    r"""New edge vectors (Eq. 4-5 of the paper), the first Linear applied without building the concatenation.

    $$m_{ij} = \text{ReLU}(W_e e_{ij} + W_r e_{ji} + s_j + r_i) \qquad
    u_{ij} = \text{LayerNorm}(W_5 m_{ij} + b_5 + e_{ij}) \qquad
    e'_{ij} = \text{LayerNorm}(W_7 \text{ReLU}(W_6 u_{ij} + b_6) + b_7 + u_{ij})$$

    Args:
        edges: [..., N, N, edge_size].
        receivers: $r_i$, what node i contributes to the hidden layer, [..., N, hidden].
        senders: $s_j$, likewise node j, with the hidden layer's bias, [..., N, hidden].
        message_edge_weight: $W_e$ [hidden, edge_size].
        message_reverse_weight: $W_r$ [hidden, edge_size].

    The other arguments are the weights and biases of the Linears and LayerNorms in the order they act; `dropout` acts
    on each of the two updates before it is added. `node_mask` [..., N], bool, is True for present nodes; the others
    and their edges affect no gradient, even if they are NaN.

    >>> edges, receivers, senders = torch.randn(5, 5, 4), torch.randn(5, 16), torch.randn(5, 16)
    >>> message = torch.randn(16, 4), torch.randn(16, 4), torch.randn(4, 16), torch.zeros(4)
    >>> feed_forward = torch.randn(8, 4), torch.zeros(8), torch.randn(4, 8), torch.zeros(4)
    >>> norm = torch.ones(4), torch.zeros(4)
    >>> edge_update(edges, receivers, senders, *message, *norm, *feed_forward, *norm).shape
    torch.Size([5, 5, 4])
    """
    parameters = {
        "message_edge_weight": message_edge_weight,
        "message_reverse_weight": message_reverse_weight,
        "message_out_weight": message_out_weight,
        "message_out_bias": message_out_bias,
        "norm_weight": norm_weight,
        "norm_bias": norm_bias,
        "feed_forward_in_weight": feed_forward_in_weight,
        "feed_forward_in_bias": feed_forward_in_bias,
        "feed_forward_out_weight": feed_forward_out_weight,
        "feed_forward_out_bias": feed_forward_out_bias,
        "feed_forward_norm_weight": feed_forward_norm_weight,
        "feed_forward_norm_bias": feed_forward_norm_bias,
    }
    _check(edges, receivers, senders, parameters, node_mask)
    check_number("eps", eps)
    check_number("dropout", dropout, below=1.0)
    if node_mask is not None:
        receivers, senders = present_nodes(receivers, node_mask), present_nodes(senders, node_mask)
        edges = present_edges(edges, node_mask)
    return _update(edges, receivers, senders, *parameters.values(), eps=eps, dropout=dropout)


def _update(
    edges: Tensor,
    receivers: Tensor,
    senders: Tensor,
    message_edge_weight: Tensor,
    message_reverse_weight: Tensor,
    message_out_weight: Tensor,
    message_out_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    feed_forward_in_weight: Tensor,
    feed_forward_in_bias: Tensor,
    feed_forward_out_weight: Tensor,
    feed_forward_out_bias: Tensor,
    feed_forward_norm_weight: Tensor,
    feed_forward_norm_bias: Tensor,
    eps: float,
    dropout: float,
) -> Tensor:
    """`edge_update` of checked arguments."""
    if not dropout and kernels.enabled(edges):
        return kernels.edge_update(
            edges,
            receivers,
            senders,
            message_edge_weight,
            message_reverse_weight,
            message_out_weight,
            message_out_bias,
            norm_weight,
            norm_bias,
            feed_forward_in_weight,
            feed_forward_in_bias,
            feed_forward_out_weight,
            feed_forward_out_bias,
            feed_forward_norm_weight,
            feed_forward_norm_bias,
            eps=eps,
        )
    if wants_aligned_sizes(edges):
        # Hidden channels without weights are ReLU(0) = 0, and add nothing.
        receivers, senders = padded(receivers, -1), padded(senders, -1)
        message_edge_weight = padded(message_edge_weight, -2)
        message_reverse_weight = padded(message_reverse_weight, -2)
        message_out_weight = padded(message_out_weight, -1)
        feed_forward_in_weight = padded(feed_forward_in_weight, -2)
        feed_forward_in_bias = padded(feed_forward_in_bias, -1)
        feed_forward_out_weight = padded(feed_forward_out_weight, -1)
    # One product for both roles of an edge; the small result is transposed, not the edges.
    own, reverse = F.linear(edges, torch.cat([message_edge_weight, message_reverse_weight])).chunk(2, dim=-1)
    hidden = own + reverse.transpose(-2, -3) + senders.unsqueeze(-3) + receivers.unsqueeze(-2)  # [..., N, N, hidden]
    update = F.linear(F.relu(hidden), message_out_weight, message_out_bias)
    middle = F.layer_norm(edges + F.dropout(update, dropout), edges.shape[-1:], norm_weight, norm_bias, eps)
    hidden = F.relu(F.linear(middle, feed_forward_in_weight, feed_forward_in_bias))
    update = F.linear(hidden, feed_forward_out_weight, feed_forward_out_bias)
    middle = middle + F.dropout(update, dropout)
    return F.layer_norm(middle, edges.shape[-1:], feed_forward_norm_weight, feed_forward_norm_bias, eps)


def wants_aligned_sizes(edges: Tensor) -> bool:
    """Whether products with these edges are slow for unaligned hidden sizes, as they are in half precision on CUDA."""
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else edges.dtype
    return edges.is_cuda and dtype in (torch.bfloat16, torch.float16)


class EdgeUpdate(nn.Module):
    """`edge_update` with its weights.

    `message_in` reads the concatenation (e_ij, e_ji, n_j, n_i), in that order (and the global vector, if there is one),
    but is applied piece by piece: the nodes' pieces N times instead of N². A Linear or LayerNorm that is wrapped or
    quantised, or has hooks, is called. `options` are those of the layer.

    Shapes: edges [..., N, N, edge_size], nodes [..., N, node_size] -> edges [..., N, N, edge_size].

    >>> update = EdgeUpdate(node_size=32, edge_size=8, hidden_sizes=(16, 8))
    >>> update(torch.randn(2, 5, 5, 8), torch.randn(2, 5, 32)).shape
    torch.Size([2, 5, 5, 8])
    """

    def __init__(
        self,
        *,
        node_size: int,
        edge_size: int,
        hidden_sizes: tuple[int, int] = (16, 8),
        global_size: int = 0,
        dropout: float = 0.0,
        options: LayerOptions = PUBLISHED,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size(node_size=node_size, edge_size=edge_size)
        check_size_or_zero(global_size=global_size)
        message_size, feed_forward_size = check_sizes("hidden_sizes", hidden_sizes, "d_eh1, d_eh2")
        check_number("dropout", dropout, below=1.0)
        check_options(options)
        check_place(device, dtype)
        self.node_size = node_size
        self.edge_size = edge_size
        self.global_size = global_size
        self.hidden_sizes = (message_size, feed_forward_size)
        self.dropout = dropout
        self.options = options
        place = {"device": device, "dtype": dtype}
        read = 2 * edge_size + 2 * node_size + global_size
        self.message_in = nn.Linear(read, options.widened(message_size), **place)
        self.message_out = nn.Linear(message_size, edge_size, **place)
        self.norm = options.make_norm(edge_size, **place)
        self.node_norm = options.make_norm(node_size, **place) if options.pre_norm else None
        self.feed_forward_in = nn.Linear(edge_size, options.widened(feed_forward_size), **place)
        self.feed_forward_out = nn.Linear(feed_forward_size, edge_size, **place)
        self.feed_forward_norm = options.make_norm(edge_size, **place)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.message_in, self.message_out, self.feed_forward_in, self.feed_forward_out):
            reset_linear(linear)
        for norm in (self.norm, self.node_norm, self.feed_forward_norm):
            if norm is not None:
                norm.reset_parameters()

    @replaceable
    def forward(
        self,
        edges: Tensor,
        nodes: Tensor,
        globals: Tensor | None = None,
        node_mask: Tensor | None = None,
        *,
        checked: bool = False,
    ) -> Tensor:
        """New edges. Absent nodes in `node_mask` [..., N] and their edges affect no gradient, even if they are NaN.

        `checked` is for modules that call this one: they have checked all arguments, and absent nodes hold finite
        numbers.
        """
        if not checked:
            self._check(edges, nodes, globals, node_mask)
            if node_mask is not None:
                nodes, edges = present_nodes(nodes, node_mask), present_edges(edges, node_mask)
        if not self.options.has_published_blocks or not all(is_plain(child) for child in self.children()):
            return self._call_modules(edges, nodes, globals)
        assert isinstance(self.norm, nn.LayerNorm)
        assert isinstance(self.feed_forward_norm, nn.LayerNorm)
        sizes = [self.edge_size, self.edge_size, self.node_size, self.node_size, self.global_size]
        own, reverse, sender, receiver, whole = self.message_in.weight.split(sizes, dim=1)
        senders = F.linear(nodes, sender, self.message_in.bias)
        if globals is not None:
            senders = senders + F.linear(globals, whole).unsqueeze(-2)
        receivers = F.linear(nodes, receiver)
        return _update(
            edges,
            receivers,
            senders,
            own,
            reverse,
            self.message_out.weight,
            self.message_out.bias,
            self.norm.weight,
            self.norm.bias,
            self.feed_forward_in.weight,
            self.feed_forward_in.bias,
            self.feed_forward_out.weight,
            self.feed_forward_out.bias,
            self.feed_forward_norm.weight,
            self.feed_forward_norm.bias,
            eps=EPSILON,
            dropout=self.dropout if self.training else 0.0,
        )

    def _call_modules(self, edges: Tensor, nodes: Tensor, globals: Tensor | None) -> Tensor:
        """The equations of the paper, or of the options, with every module called."""
        read = edges
        if self.node_norm is not None:
            read, nodes = self.norm(edges), self.node_norm(nodes)
        parts = [read, read.transpose(-2, -3), nodes.unsqueeze(-3), nodes.unsqueeze(-2)]
        parts += [] if globals is None else [globals.unsqueeze(-2).unsqueeze(-2)]
        return self.update_edges(edges, linear_of_parts(self.message_in, parts))

    def update_edges(self, edges: Tensor, hidden: Tensor) -> Tensor:
        """New edges [..., edge_size], from the output of `message_in` on the edges, their reverses and their nodes.

        >>> update = EdgeUpdate(node_size=8, edge_size=4, hidden_sizes=(16, 8))
        >>> update.update_edges(torch.randn(5, 4), torch.randn(5, 16)).shape
        torch.Size([5, 4])
        """
        middle = edges + self._drop(self.message_out(self.options.activate(hidden)))
        if self.options.pre_norm:
            return middle + self._drop(self._feed_forward(self.feed_forward_norm(middle)))
        middle = self.norm(middle)
        return self.feed_forward_norm(middle + self._drop(self._feed_forward(middle)))

    def _feed_forward(self, edges: Tensor) -> Tensor:
        return self.feed_forward_out(self.options.activate(self.feed_forward_in(edges)))

    def _drop(self, update: Tensor) -> Tensor:
        return F.dropout(update, self.dropout, self.training)

    def _check(self, edges: Tensor, nodes: Tensor, globals: Tensor | None, node_mask: Tensor | None) -> None:
        check_vectors("nodes", nodes, self.node_size, axes=2)
        check_vectors("edges", edges, self.edge_size, axes=3)
        check_edges(edges, nodes.shape[-2], nodes.shape[-2])
        check_globals(globals, self.global_size, "an edge update")
        check_weights(self.message_in, edges=edges, nodes=nodes, globals=globals)
        check_mask("node_mask", node_mask, (nodes.shape[-2],), nodes)
        check_batches(edges=(edges, 3), nodes=(nodes, 2), globals=(globals, 1), node_mask=(node_mask, 1))

    def extra_repr(self) -> str:
        return f"node_size={self.node_size}, edge_size={self.edge_size}, hidden_sizes={self.hidden_sizes}"


def _check(
    edges: Tensor, receivers: Tensor, senders: Tensor, parameters: dict[str, Tensor], node_mask: Tensor | None
) -> None:
    check_tensor("edges", edges, axes=3)
    check_tensor("receivers", receivers, axes=2)
    num_nodes, hidden, edge_size = edges.shape[-2], receivers.shape[-1], edges.shape[-1]
    check_edges(edges, num_nodes, num_nodes)
    for name, ends in {"receivers": receivers, "senders": senders}.items():
        check_vectors(name, ends, hidden, axes=2)
        if ends.shape[-2] != num_nodes:
            raise ValueError(f"{name} must have the {num_nodes} nodes of edges, got shape {list(ends.shape)}")
    for name, parameter in parameters.items():
        check_tensor(name, parameter)
    feed_forward = parameters["feed_forward_in_weight"].shape[0]
    shapes = {
        "message_edge_weight": [hidden, edge_size],
        "message_reverse_weight": [hidden, edge_size],
        "message_out_weight": [edge_size, hidden],
        "feed_forward_in_weight": [feed_forward, edge_size],
        "feed_forward_in_bias": [feed_forward],
        "feed_forward_out_weight": [edge_size, feed_forward],
    }
    for name, parameter in parameters.items():
        shape = shapes.get(name, [edge_size])
        if list(parameter.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {list(parameter.shape)}")
    check_alike("edges", edges, receivers=receivers, senders=senders, **parameters)
    check_mask("node_mask", node_mask, (num_nodes,), edges)
    check_batches(edges=(edges, 3), receivers=(receivers, 2), senders=(senders, 2), node_mask=(node_mask, 1))
