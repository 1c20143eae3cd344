"""The whole layer as one operator of PyTorch, with its gradient and its vmap rule."""

import ctypes
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.seeds import differentiable, differentiable_once

from .launching import launch
from .parameters import (
    CHANNELS,
    HEAD_SIZE,
    HEADS,
    HIDDEN_ROW,
    NAMES,
    NODE_HIDDEN,
    NORMAL_ROW,
    NUM_SUMS,
    LayerWeights,
    Learnt,
    SeedStrides,
    gradients_by_name,
    orders_on,
    pack_backward,
    pack_forward,
)
from .weight_gradients import weight_gradients


def whole_layer(nodes: Tensor, edges: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """New nodes [..., N, D] and edges [..., N, N, D]; parameters by their names in a `RelationalTransformerLayer`."""
    batch = edges.shape[:-3]
    nodes = nodes.expand(*batch, *nodes.shape[-2:])
    ordered = [parameters[name].to(edges.dtype).unsqueeze(0) for name in NAMES]
    new_nodes, new_edges, *_ = layer(
        nodes.reshape(1, -1, *nodes.shape[-2:]), edges.reshape(1, -1, *edges.shape[-3:]), *ordered
    )
    return new_nodes.reshape(nodes.shape), new_edges.reshape(edges.shape)


def _schema(inputs: list[str], outputs: int) -> str:
    return f"({', '.join(f'Tensor {name}' for name in inputs)}) -> ({', '.join(['Tensor'] * outputs)})"


_PARAMETERS = [name.replace(".", "_") for name in NAMES]
_SAVED = [
    *("new_nodes", "attention", "middle_nodes", "messages", "context"),
    *("edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden"),
]


@torch.library.custom_op(
    "relational_transformer::layer", mutates_args=(), schema=_schema(["nodes", "edges", *_PARAMETERS], 11)
)
def layer_operator(nodes: Tensor, edges: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
    """Nodes [S, G, N, D], edges [S, G, N, N, D], parameters [S, *shape] -> new nodes and edges, and what the backward
    pass needs: attention [S, G, H, N, N], nodes after the first norm, messages, mean edges [S, H, G, N, D], normalized
    edges [S, G, 2, N, N, D], the edges' hidden layers with what they were scaled by [S, G, N, N, HIDDEN_ROW], the
    nodes' queries, keys and values [S, G, N, 3 D], normalized nodes [S, G, N, NORMAL_ROW] and their hidden layer."""
    nodes, edges = nodes.contiguous(), edges.contiguous()
    seeds, graphs, count, _ = nodes.shape
    outputs = _outputs(nodes, edges)
    named = dict(zip(NAMES, parameters, strict=True))
    matrices, vectors = pack_forward(named, orders_on(edges.device))
    weights = LayerWeights(matrices.data_ptr(), vectors.data_ptr())
    addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (nodes, edges, *outputs)]
    addresses[2:2] = [ctypes.c_void_p(), ctypes.c_void_p()]  # nodes and edges are kept where they are
    strides = SeedStrides(graphs, graphs, graphs)
    launch("layer_forward", count, (graphs, seeds), [weights, strides, *addresses], edges.device)
    return outputs


@layer_operator.register_fake
def _outputs(nodes: Tensor, edges: Tensor, *_: Any) -> tuple[Tensor, ...]:
    seeds, graphs, count, size = nodes.shape
    attention = nodes.new_empty(seeds, graphs, HEADS, count, count)
    context = nodes.new_empty(seeds, HEADS, graphs, count, size)
    edge_normals = edges.new_empty(seeds, graphs, 2, count, count, size)
    edge_hidden = edges.new_empty(seeds, graphs, count, count, HIDDEN_ROW)
    new_nodes, middle_nodes, messages = (nodes.new_empty(nodes.shape) for _ in range(3))
    new_edges = edges.new_empty(edges.shape)
    node_qkv = nodes.new_empty(seeds, graphs, count, 3 * size)
    node_normals = nodes.new_empty(seeds, graphs, count, NORMAL_ROW)
    node_hidden = nodes.new_empty(seeds, graphs, count, NODE_HIDDEN)
    read_again = edge_normals, edge_hidden, node_qkv, node_normals, node_hidden
    return new_nodes, new_edges, attention, middle_nodes, messages, context, *read_again


class Arguments(ctypes.Structure):
    """`backward::Arguments` of backward.cuh."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in (
            *("edges", "attention", "edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden"),
            *("new_nodes_gradient", "new_edges_gradient", "weights", "vectors"),
            *("nodes_gradient", "edges_gradient", "qkv_gradient", "query_key_gradient"),
            *("message_gradient", "output_gradient", "node_out_gradient"),
            *("node_in_gradient", "send_receive_gradient", "sums"),
        )
    ] + [(name, ctypes.c_int) for name in ("kept_graphs", "first", "last")]


@torch.library.custom_op(
    "relational_transformer::layer_backward",
    mutates_args=(),
    schema=_schema(["new_nodes_gradient", "new_edges_gradient", "nodes", "edges", *_SAVED, *_PARAMETERS], 9),
)
def layer_backward_operator(
    new_nodes_gradient: Tensor,
    new_edges_gradient: Tensor,
    nodes: Tensor,
    edges: Tensor,
    new_nodes: Tensor,
    attention: Tensor,
    middle_nodes: Tensor,
    messages: Tensor,
    context: Tensor,
    edge_normals: Tensor,
    edge_hidden: Tensor,
    node_qkv: Tensor,
    node_normals: Tensor,
    node_hidden: Tensor,
    *parameters: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients of nodes and edges, of the weights that read them, [S, out, in], and of all others, [S, sums]."""
    inputs = [edges, attention, edge_normals, edge_hidden, node_qkv, node_normals, node_hidden]
    inputs = [tensor.contiguous() for tensor in (*inputs, new_nodes_gradient, new_edges_gradient)]
    edges = inputs[0]
    named = dict(zip(NAMES, parameters, strict=True))
    inputs += pack_backward(named, orders_on(edges.device))
    seeds, graphs, count, _ = nodes.shape

    def rows_of(width: int) -> Tensor:
        return nodes.new_empty(seeds, graphs, count, width)

    nodes_gradient, edges_gradient = nodes.new_empty(nodes.shape), torch.empty_like(edges)
    rows = {
        "qkv_gradient": rows_of(3 * CHANNELS),
        "query_key_gradient": edges.new_empty(seeds, graphs, count, count, 2 * CHANNELS),
        "message_gradient": nodes.new_empty(seeds, HEADS, graphs, count, HEAD_SIZE),
        "output_gradient": rows_of(CHANNELS),
        "node_out_gradient": rows_of(CHANNELS),
        "node_in_gradient": rows_of(NODE_HIDDEN),
        "send_receive_gradient": rows_of(NODE_HIDDEN),
    }
    sums = nodes.new_empty(seeds, graphs, NUM_SUMS, dtype=torch.float32)
    tensors = (*inputs, nodes_gradient, edges_gradient, *rows.values(), sums)
    arguments = Arguments(*(tensor.data_ptr() for tensor in tensors), graphs, True, True)
    launch("layer_backward", count, (graphs, seeds), [arguments], edges.device)
    rows |= {
        "messages": messages,
        "middle_nodes": middle_nodes,
        "node_hidden": node_hidden,
        "new_nodes": new_nodes,
        "context": context,
    }
    return nodes_gradient, edges_gradient, *weight_gradients(rows, nodes, edges, sums.sum(1).to(nodes.dtype))


@layer_backward_operator.register_fake
def _gradients(new_nodes_gradient: Tensor, new_edges_gradient: Tensor, nodes: Tensor, edges: Tensor, *_: Any) -> Any:
    seeds, size = nodes.shape[0], nodes.shape[-1]
    shapes = [(3 * CHANNELS, size), (3 * CHANNELS, size), (size, size), (NODE_HIDDEN, size), (size, NODE_HIDDEN)]
    weights = [nodes.new_empty(seeds, *shape) for shape in (*shapes, (NODE_HIDDEN, size), (NUM_SUMS,))]
    return nodes.new_empty(nodes.shape), edges.new_empty(edges.shape), *weights


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    nodes, edges, *parameters = inputs
    new_nodes, _, *saved = output
    ctx.save_for_backward(nodes, edges, new_nodes, *saved, *parameters)


def _differentiate(ctx: Any, nodes_gradient: Tensor, edges_gradient: Tensor, *_: Any) -> tuple[Tensor, ...]:
    found = layer_backward(nodes_gradient, edges_gradient, *ctx.saved_tensors)
    nodes, edges, *weights = found
    named = gradients_by_name(Learnt(*weights))
    return nodes, edges, *(named[name] for name in NAMES)


layer = differentiable(layer_operator, _save, _differentiate)
layer_backward = differentiable_once(layer_backward_operator)
