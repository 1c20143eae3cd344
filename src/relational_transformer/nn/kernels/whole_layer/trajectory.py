"""The layers of a fleet over all steps of a trajectory: weights laid out once, their gradients made once."""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .launching import launch
from .operator import Arguments
from .parameters import (
    CHANNELS,
    HEAD_SIZE,
    HEADS,
    HIDDEN_ROW,
    NODE_HIDDEN,
    NORMAL_ROW,
    NUM_SUMS,
    Learnt,
    Packed,
    SeedStrides,
)
from .weight_gradients import weight_gradients

FORWARD = (
    *("attention", "middle_nodes", "messages", "context"),
    *("edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden"),
)
"""What a layer's forward kernel keeps, in the order of its arguments."""

READ = ("attention", "edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden")
"""What its backward kernel reads of that, in the order of its arguments."""

BACKWARD = (
    *("qkv_gradient", "query_key_gradient", "message_gradient", "output_gradient", "node_out_gradient"),
    *("node_in_gradient", "send_receive_gradient"),
)
"""Rows that its backward kernel leaves for products, in the order of its arguments."""

BY_HEAD = ("context", "message_gradient")
"""Rows of which a head's lie together, [L, S, H, T, G, ...]; all others are [L, S, T, G, ...]."""


def kept_shapes(nodes: int) -> dict[str, tuple[int, ...]]:
    """What a layer's kernels keep of one graph at one step, by name."""
    node, hidden = (nodes, CHANNELS), (nodes, NODE_HIDDEN)
    return {
        **dict.fromkeys((*FORWARD, *BACKWARD), node),
        **dict.fromkeys(("node_in_gradient", "node_hidden", "send_receive_gradient"), hidden),
        "attention": (HEADS, nodes, nodes),
        "edge_normals": (2, nodes, nodes, CHANNELS),
        "edge_hidden": (nodes, nodes, HIDDEN_ROW),
        "node_normals": (nodes, NORMAL_ROW),
        "context": (HEADS, nodes, CHANNELS),
        "message_gradient": (HEADS, nodes, HEAD_SIZE),
        **dict.fromkeys(("node_qkv", "qkv_gradient"), (nodes, 3 * CHANNELS)),
        "query_key_gradient": (nodes, nodes, 2 * CHANNELS),
    }


def kept_bytes(layers: int, num_steps: int, seeds: int, graphs: int, nodes: int) -> int:
    """What a trajectory keeps for its backward pass: rows, what layers read, the nodes of the last one, and sums."""
    numbers = sum(torch.Size(shape).numel() for shape in kept_shapes(nodes).values())
    read = CHANNELS * (layers * (nodes + nodes**2) + 2 * nodes)
    return seeds * graphs * (num_steps * 2 * (layers * numbers + read) + layers * 4 * NUM_SUMS)


class Trajectory:
    """The same layers at every step of a trajectory, differentiable: `trajectory(step, nodes, edges)` for each in turn.

    A layer is one kernel forward and one backward (`operator.py`), and that is all that a step launches here. What the
    kernels read of the weights is laid out when the trajectory begins. The kernels leave, for every step, the rows that
    the gradients of the weights are products of. The products are made when the backward pass has come back to the
    beginning, for all layers at once; a seed's steps lie side by side, so that one sum goes over all of them.

    Args:
        learnt: for each layer its parameters as `as_learnt` gives them, bfloat16 [S, ...]: they get the gradients.
        packed: for each layer its weights as `pack` lays them out.
        num_steps: how many steps there will be, T.
        graphs: of a seed at each step, G.
        nodes: of a graph, N.

    Every step must be called once, and the result differentiated once.
    """

    def __init__(
        self, learnt: Sequence[Learnt], packed: Sequence[Packed], num_steps: int, graphs: int, nodes: int
    ) -> None:
        self.layers = _Layers(packed, num_steps, graphs, nodes)
        self._begun = _Begin.apply(self.layers, *(tensor for layer in learnt for tensor in layer))

    def __call__(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """New nodes [S, G, N, D] and edges [S, G, N, N, D] after all layers."""
        return _Step.apply(self.layers, step, self._begun, nodes, edges)


class _Layers:
    """The weights as the kernels read them, and what the steps leave for each other and for the products.

    Layer l reads `nodes[l]` and `edges[l]`, and writes those that the next one reads. But the first reads what it is
    given, [S, G, ...], and puts it there, and the last writes tensors that hold one step alone: strides that told of
    the number of steps would make others compile for every number.
    """

    def __init__(self, packed: Sequence[Packed], num_steps: int, graphs: int, count: int) -> None:
        like = packed[0].backward_matrices
        layers, seeds = len(packed), len(like)
        self.packed, self.grid, self.count = packed, (graphs, seeds), count
        self.num_steps, self.kept_graphs, self.steps_differentiated = num_steps, num_steps * graphs, 0
        steps = (seeds, num_steps, graphs)
        self.nodes = like.new_empty(layers + 1, *steps, count, CHANNELS)
        self.edges = like.new_empty(layers, *steps, count, count, CHANNELS)
        self.last_nodes = like.new_empty(num_steps, seeds, graphs, count, CHANNELS)
        self.sums = like.new_empty(layers, seeds, graphs, NUM_SUMS, dtype=torch.float32)
        self.rows: dict[str, Tensor] = {}
        for name, shape in kept_shapes(count).items():
            if name in BY_HEAD:
                self.rows[name] = like.new_empty(layers, seeds, HEADS, num_steps, graphs, *shape[1:])
            else:
                self.rows[name] = like.new_empty(layers, *steps, *shape)

    def forward(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        nodes, edges = nodes.detach().contiguous(), edges.detach().contiguous()
        for layer in range(len(self.packed)):
            nodes, edges = self._forward(layer, step, nodes, edges)
        return nodes, edges

    def backward(self, step: int, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor, Tensor]:
        nodes_gradient, edges_gradient = nodes_gradient.contiguous(), edges_gradient.contiguous()
        for layer in reversed(range(len(self.packed))):
            nodes_gradient, edges_gradient = self._backward(layer, step, nodes_gradient, edges_gradient)
        self.steps_differentiated += 1
        return nodes_gradient, edges_gradient

    def parameter_gradients(self) -> list[Learnt]:
        """Of every layer, over all steps and graphs. To the products a layer's seed is a seed, [L S, ...]."""
        if self.steps_differentiated != self.num_steps:
            done = f"{self.steps_differentiated} of the trajectory's {self.num_steps} steps"
            raise RuntimeError(f"{done} have a gradient.")
        self.nodes[-1].copy_(self.last_nodes.transpose(0, 1))
        rows = {name: rows.flatten(0, 1) for name, rows in self.rows.items()}
        rows["new_nodes"] = self.nodes[1:].flatten(0, 1)
        sums = self.sums.flatten(0, 1).sum(1).to(self.nodes.dtype)
        found = weight_gradients(rows, self.nodes[:-1].flatten(0, 1), self.edges.flatten(0, 1), sums)
        layers = len(self.packed)
        return [Learnt(*of_layer) for of_layer in zip(*(tensor.chunk(layers) for tensor in found), strict=True)]

    def _forward(self, layer: int, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        graphs, is_last = self.grid[0], layer == len(self.packed) - 1
        strides = SeedStrides(self.kept_graphs, self.kept_graphs, self.kept_graphs)
        kept = (0, 0)
        if layer == 0:
            strides.read = graphs
            kept = self.nodes[0, :, step].data_ptr(), self.edges[0, :, step].data_ptr()
        if is_last:
            strides.made = graphs
            made = self.last_nodes[step], torch.empty_like(edges, memory_format=torch.contiguous_format)
        else:
            made = self.nodes[layer + 1, :, step], self.edges[layer + 1, :, step]
        rows = [self._of_step(name, layer, step) for name in FORWARD]
        addresses = [nodes.data_ptr(), edges.data_ptr(), *kept, *(tensor.data_ptr() for tensor in (*made, *rows))]
        arguments = [self.packed[layer].forward_weights, strides, *map(ctypes.c_void_p, addresses)]
        launch("layer_forward", self.count, self.grid, arguments, nodes.device)
        return made

    def _backward(self, layer: int, step: int, *given: Tensor) -> tuple[Tensor, Tensor]:
        kept = [self.edges[layer, :, step], *(self._of_step(name, layer, step) for name in READ)]
        made = torch.empty_like(given[0]), torch.empty_like(given[1])
        rows = [self._of_step(name, layer, step) for name in BACKWARD]
        tensors = (*kept, *given, *self.packed[layer][2:], *made, *rows, self.sums[layer])
        is_first, is_last = self.steps_differentiated == 0, self.steps_differentiated == self.num_steps - 1
        arguments = Arguments(*(tensor.data_ptr() for tensor in tensors), self.kept_graphs, is_first, is_last)
        launch("layer_backward", self.count, self.grid, [arguments], given[0].device)
        return made

    def _of_step(self, name: str, layer: int, step: int) -> Tensor:
        return self.rows[name][layer].select(2 if name in BY_HEAD else 1, step)


class _Begin(torch.autograd.Function):
    """Ties the parameters to all steps. It returns a number that steps take and do not look at; its backward pass,
    which autograd makes after those of all steps, finds the gradients of the parameters in what they have left."""

    @staticmethod
    def forward(ctx: Any, layers: _Layers, *parameters: Tensor) -> Tensor:
        ctx.layers = layers
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        layers, ctx.layers = ctx.layers, None
        return None, *(gradient for layer in layers.parameter_gradients() for gradient in layer)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, layers: _Layers, step: int, begun: Tensor, nodes: Tensor, edges: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.layers, ctx.step = layers, step
        return layers.forward(step, nodes, edges)

    @staticmethod
    def backward(ctx: Any, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        layers, ctx.layers = ctx.layers, None
        return None, None, None, *layers.backward(ctx.step, nodes_gradient, edges_gradient)
