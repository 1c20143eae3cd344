"""Attention along a list of edges on a CPU, some edges at a time: what is made for an edge never leaves the cache.

On a CPU a large tensor costs more to allocate than to compute. Queries, keys and values of E edges would be three of
them, and as many again for every step of the backward pass. Here the edges are taken in the order of their targets, in
chunks that share one piece of memory, and the backward pass makes anew what it needs: both are the sums of
`attend_along_edges`, in memory for N nodes and for the E x H weights.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 2048
"""Edges at a time: with 64 channels, half a megabyte for each of queries, keys and values."""


def runs_in_chunks(*tensors: Tensor) -> bool:
    """Whether tensors are what `ChunkedAttention` is written for; compilers, exporters and torch.func see through the
    plain version alone, and autocast has its say there."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if torch.is_autocast_enabled("cpu") or torch.jit.is_tracing():
        return False
    kinds = (Tensor, torch.nn.Parameter)
    return all(
        type(tensor) in kinds and tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
        for tensor in tensors
    )


class Chunk(NamedTuple):
    """Some of the edges: their places in the list and in the order of targets, and their ends."""

    places: Tensor
    sorted_places: slice
    source: Tensor
    target: Tensor


def chunks(edge_index: Tensor, order: Tensor) -> Iterator[Chunk]:
    """All edges in this order, `CHUNK` at a time."""
    source, target = edge_index.index_select(1, order)
    for start in range(0, order.shape[0], CHUNK):
        some = slice(start, start + CHUNK)
        yield Chunk(order[some], some, source[some], target[some])


class ChunkedAttention(torch.autograd.Function):
    """`attend_along_edges` of query [Nq, H·D], key and value [Nk, H·D], edges [E, edge_size] and their weight
    [3·H·D, edge_size]: messages [Nq, H·D] and weights [E, H]."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        edges: Tensor,
        edge_weight: Tensor,
        edge_index: Tensor,
        num_heads: int,
    ) -> tuple[Tensor, Tensor]:
        query, key, value, edges = (tensor.contiguous() for tensor in (query, key, value, edges))
        size, num_edges = query.shape[1], edges.shape[0]
        query_weight, key_weight, value_weight = edge_weight.t().split(size, dim=1)  # [edge_size, H·D] each
        order = edge_index[1].argsort()
        first, second, some_edges = _buffers(num_edges, size, size, edges.shape[1], like=query)
        scores = query.new_empty(num_edges, num_heads)  # in the order of targets, like `weights`
        for places, sorted_places, source, target in chunks(edge_index, order):
            e = _rows(edges, places, some_edges)
            q = _rows(query, target, first).addmm_(e, query_weight)
            k = _rows(key, source, second).addmm_(e, key_weight)
            torch.sum(_by_head(q.mul_(k), num_heads), -1, out=scores[sorted_places])
        scores.mul_((size // num_heads) ** -0.5)
        weights = _softmax_of_runs(scores, edge_index[1].index_select(0, order), query.shape[0])
        messages = torch.zeros_like(query)
        for places, sorted_places, source, target in chunks(edge_index, order):
            v = _rows(value, source, first).addmm_(_rows(edges, places, some_edges), value_weight)
            messages.index_add_(0, target, _times_heads(v, weights[sorted_places]))
        ctx.num_heads = num_heads
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, value, edges, edge_weight, edge_index, order, weights, messages)
        return messages, torch.empty_like(weights).index_copy_(0, order, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, edges, edge_weight, edge_index, order, weights, messages = ctx.saved_tensors
        if torch.is_grad_enabled():  # these gradients are to have gradients themselves
            inputs = query, key, value, edges, edge_weight
            return (*_gradients_of_plain(inputs, edge_index, ctx.num_heads, gradients), None, None)
        size, num_edges, num_heads = query.shape[1], edges.shape[0], ctx.num_heads
        of_messages, of_weights = gradients
        of_messages = torch.zeros_like(messages) if of_messages is None else of_messages.contiguous()
        # Softmax: a (da - sum of a da). Over the edges of a node that sum is its message times the message's gradient.
        sums = _by_head(of_messages * messages, num_heads).sum(-1)  # [Nq, H]
        if of_weights is not None:
            of_weights = of_weights.index_select(0, order)
            sums.index_add_(0, edge_index[1].index_select(0, order), weights * of_weights)

        query_weight, key_weight, value_weight = edge_weight.split(size)  # [H·D, edge_size] each
        of_query, of_key, of_value = (torch.zeros_like(tensor) for tensor in (query, key, value))
        of_edges, of_edge_weight = torch.empty_like(edges), torch.zeros_like(edge_weight)
        of_query_weight, of_key_weight, of_value_weight = of_edge_weight.split(size)
        widths = (size, size, num_heads, edges.shape[1], edges.shape[1])
        buffers = _buffers(num_edges, *widths, like=query)
        for places, sorted_places, source, target in chunks(edge_index, order):
            first, second, s, some_edges, of_e = (buffer[: places.shape[0]] for buffer in buffers)
            e, a = _rows(edges, places, some_edges), weights[sorted_places]
            g = _rows(of_messages, target, first)
            v = _rows(value, source, second).addmm_(e, value_weight.t())
            torch.sum(_by_head(v.mul_(g), num_heads), -1, out=s)  # of the weights
            if of_weights is not None:
                s.add_(of_weights[sorted_places])
            s.sub_(sums.index_select(0, target)).mul_(a).mul_((size // num_heads) ** -0.5)  # of the scores

            of_v = _times_heads(g, a)
            of_value.index_add_(0, source, of_v)
            of_value_weight.addmm_(of_v.t(), e)
            torch.mm(of_v, value_weight, out=of_e)

            of_k = _times_heads(_rows(query, target, first).addmm_(e, query_weight.t()), s)
            of_key.index_add_(0, source, of_k)
            of_key_weight.addmm_(of_k.t(), e)
            of_e.addmm_(of_k, key_weight)

            of_q = _times_heads(_rows(key, source, second).addmm_(e, key_weight.t()), s)
            of_query.index_add_(0, target, of_q)
            of_query_weight.addmm_(of_q.t(), e)
            of_edges.index_copy_(0, places, of_e.addmm_(of_q, query_weight))
        return of_query, of_key, of_value, of_edges, of_edge_weight, None, None


def _gradients_of_plain(
    inputs: tuple[Tensor, ...], edge_index: Tensor, num_heads: int, gradients: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """The same gradients, by autograd from the plain version."""
    from .sparse_attention import attend_along_edges

    inputs = tuple(tensor.view_as(tensor) for tensor in inputs)  # one may have been made from another
    query, key, value, edges, edge_weight = inputs
    outputs = attend_along_edges(query, key, value, F.linear(edges, edge_weight), edge_index, num_heads)
    given = [number for number, gradient in enumerate(gradients) if gradient is not None]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(
        torch.autograd.grad(
            [outputs[number] for number in given],
            wanted,
            [gradients[number] for number in given],
            create_graph=True,
            materialize_grads=True,
        )
    )
    return [next(found) if tensor.requires_grad else None for tensor in inputs]


def _buffers(num_edges: int, *widths: int, like: Tensor) -> list[Tensor]:
    """Memory for a chunk of edges, of each of these widths. No chunk allocates any."""
    return [like.new_empty(min(CHUNK, num_edges), width) for width in widths]


def _rows(tensor: Tensor, numbers: Tensor, buffer: Tensor) -> Tensor:
    """Rows of a tensor, in the memory of `buffer`."""
    return torch.index_select(tensor, 0, numbers, out=buffer[: numbers.shape[0]])


def _by_head(channels: Tensor, num_heads: int) -> Tensor:
    return channels.view(channels.shape[0], num_heads, -1)  # [.., H·D] -> [.., H, D]


def _times_heads(channels: Tensor, factors: Tensor) -> Tensor:
    """Each head of channels [C, H·D] times its factor [C, H], in place."""
    _by_head(channels, factors.shape[1]).mul_(factors.unsqueeze(-1))
    return channels


def _softmax_of_runs(scores: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Softmax of scores [E, H] over edges with one target [E], which stand together; the scores are overwritten."""
    largest = torch.segment_reduce(scores, "max", lengths=target.bincount(minlength=num_nodes))
    exponentials = scores.sub_(largest.index_select(0, target)).exp_()
    totals = scores.new_zeros(num_nodes, scores.shape[1]).index_add_(0, target, exponentials)
    return exponentials.div_(totals.index_select(0, target))
