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
    *("new_nodes", "new_edges", "attention", "middle_nodes", "messages", "context"),
    *("edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden"),
)
"""What a layer's forward kernel writes, in the order of its arguments."""

READ = ("attention", "edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden")
"""What its backward kernel reads of that, in the order of its arguments."""

BACKWARD = (
    *("qkv_gradient", "query_key_gradient", "message_gradient", "output_gradient", "node_out_gradient"),
    *("node_in_gradient", "send_receive_gradient"),
)
"""Rows that its backward kernel leaves for products, in the order of its arguments."""

BY_HEAD = ("context", "message_gradient")
"""Rows of which a head's lie together, [S, H, T, G, ...]; all others are [S, T, G, ...]."""


def kept_shapes(nodes: int) -> dict[str, tuple[int, ...]]:
    """What a layer keeps of one graph at one step, by name."""
    node, hidden = (nodes, CHANNELS), (nodes, NODE_HIDDEN)
    return {
        **dict.fromkeys((*FORWARD, *BACKWARD), node),
        **dict.fromkeys(("node_in_gradient", "node_hidden", "send_receive_gradient"), hidden),
        "new_edges": (nodes, nodes, CHANNELS),
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
    """What a trajectory keeps for its backward pass: the rows of every layer, and what the first one reads."""
    numbers = sum(torch.Size(shape).numel() for shape in kept_shapes(nodes).values())
    read = (nodes + nodes**2) * CHANNELS
    return num_steps * seeds * graphs * (layers * (2 * numbers + 4 * NUM_SUMS) + 2 * read)


class Trajectory:
    """The same layers at every step of a trajectory, differentiable: `trajectory(step, nodes, edges)` for each in turn.

    A layer is one kernel forward and one backward (`operator.py`), and that is all that a step launches here. What the
    kernels read of the weights is laid out when the trajectory begins. The kernels leave, for every step, the rows that
    the gradients of the weights are products of; the products of all steps are made together, when the backward pass
    has come back to the beginning. All steps of a seed lie side by side, so that a product is one sum over all of them.

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
        like = packed[0].backward_matrices
        steps = (len(like), num_steps, graphs)
        sums = like.new_empty(len(packed), *steps, NUM_SUMS, dtype=torch.float32)
        read = like.new_empty(*steps, nodes, CHANNELS), like.new_empty(*steps, nodes, nodes, CHANNELS)
        self.layers: list[_Layer] = []
        for number, weights in enumerate(packed):
            layer = _Layer(weights, read, sums[number], number == 0, number == len(packed) - 1)
            self.layers.append(layer)
            read = layer.rows["new_nodes"], layer.rows["new_edges"]
        self._begun = _Begin.apply(self.layers, sums, *(tensor for layer in learnt for tensor in layer))

    def __call__(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """New nodes [S, G, N, D] and edges [S, G, N, N, D] after all layers."""
        return _Step.apply(self, step, self._begun, nodes, edges)

    def forward(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.layers:
            nodes, edges = layer.forward(step, nodes, edges)
        return nodes, edges

    def backward(self, step: int, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor, Tensor]:
        for layer in reversed(self.layers):
            nodes_gradient, edges_gradient = layer.backward(step, nodes_gradient, edges_gradient)
        return nodes_gradient, edges_gradient


class _Layer:
    """One layer: its weights as the kernels read them, and what its steps leave for each other and for the products.

    Args:
        packed: the weights.
        read: where the nodes and edges of all steps are that it reads, [S, T, G, ...]; the first layer puts them there.
        sums: for the gradients that its backward kernel adds up over a graph, [S, T, G, sums].
        is_first: whether nodes and edges come from outside, [S, G, ...].
        is_last: whether the new ones go outside, every step's on its own.
    """

    def __init__(
        self, packed: Packed, read: tuple[Tensor, Tensor], sums: Tensor, is_first: bool, is_last: bool
    ) -> None:
        self.packed, self.read, self.sums, self.is_first = packed, read, sums, is_first
        seeds, num_steps, graphs, self.count = read[0].shape[:4]
        self.grid = (graphs, seeds)
        one, all_steps = graphs, num_steps * graphs
        self.strides = SeedStrides(one if is_first else all_steps, one if is_last else all_steps, all_steps)
        self.rows: dict[str, Tensor] = {}
        for name, shape in kept_shapes(self.count).items():
            if name in BY_HEAD:
                self.rows[name] = read[0].new_empty(seeds, HEADS, num_steps, graphs, *shape[1:])
            elif is_last and name in ("new_nodes", "new_edges"):
                self.rows[name] = read[0].new_empty(num_steps, seeds, graphs, *shape).transpose(0, 1)
            else:
                self.rows[name] = read[0].new_empty(seeds, num_steps, graphs, *shape)

    def forward(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        kept = [0, 0]
        if self.is_first:
            nodes, edges = nodes.detach().contiguous(), edges.detach().contiguous()
            kept = [tensor[:, step].data_ptr() for tensor in self.read]
        made = [self._of_step(name, step) for name in FORWARD]
        addresses = [nodes.data_ptr(), edges.data_ptr(), *kept, *(tensor.data_ptr() for tensor in made)]
        arguments = [self.packed.forward_weights, self.strides, *map(ctypes.c_void_p, addresses)]
        launch("layer_forward", self.count, self.grid, arguments, nodes.device)
        return made[0], made[1]

    def backward(self, step: int, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor, Tensor]:
        kept = [self.read[1][:, step], *(self._of_step(name, step) for name in READ)]
        given = (nodes_gradient.contiguous(), edges_gradient.contiguous())
        made = torch.empty_like(given[0]), torch.empty_like(given[1])
        rows = [self._of_step(name, step) for name in BACKWARD]
        tensors = (*kept, *given, *self.packed[2:], *made, *rows, self.sums[:, step])
        arguments = Arguments(*(tensor.data_ptr() for tensor in tensors), self.strides.kept)
        launch("layer_backward", self.count, self.grid, [arguments], given[0].device)
        return made

    def _of_step(self, name: str, step: int) -> Tensor:
        return self.rows[name].select(2 if name in BY_HEAD else 1, step)


def parameter_gradients(layers: Sequence[_Layer], sums: Tensor) -> list[Learnt]:
    """Of every layer, over all steps and graphs; sums [L, S, T, G, sums]."""
    total = sums.flatten(2, 3).sum(2).to(layers[0].read[0].dtype)
    return [weight_gradients(layer.rows, *layer.read, added) for layer, added in zip(layers, total, strict=True)]


class _Begin(torch.autograd.Function):
    """Ties the parameters to all steps. It returns a number that steps take and do not look at; its backward pass,
    which autograd makes after those of all steps, finds the gradients of the parameters in what they have left."""

    @staticmethod
    def forward(ctx: Any, layers: list[_Layer], sums: Tensor, *parameters: Tensor) -> Tensor:
        ctx.layers, ctx.sums = layers, sums
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradients = parameter_gradients(ctx.layers, ctx.sums)
        ctx.layers = ctx.sums = None
        return None, None, *(gradient for layer in gradients for gradient in layer)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, trajectory: Trajectory, step: int, begun: Tensor, nodes: Tensor, edges: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.trajectory, ctx.step = trajectory, step
        return trajectory.forward(step, nodes, edges)

    @staticmethod
    def backward(ctx: Any, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        trajectory, ctx.trajectory = ctx.trajectory, None
        return None, None, None, *trajectory.backward(ctx.step, nodes_gradient, edges_gradient)
