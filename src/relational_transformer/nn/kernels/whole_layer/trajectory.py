"""The layers of a fleet over all steps of a trajectory: weights laid out once, their gradients made once."""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .launching import launch
from .operator import Arguments, product, value_gradient
from .parameters import CHANNELS, HEADS, HIDDEN_ROW, NODE_HIDDEN, NORMAL_ROW, NUM_SUMS, Learnt, Packed

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
        "context": (HEADS, nodes, CHANNELS),  # of all graphs of a seed together: [H, G, N, D]
        **dict.fromkeys(("node_qkv", "qkv_gradient"), (nodes, 3 * CHANNELS)),
        "query_key_gradient": (nodes * nodes, 2 * CHANNELS),
    }


def kept_bytes(layers: int, num_steps: int, seeds: int, graphs: int, nodes: int) -> int:
    """What a trajectory keeps for its backward pass: the rows of every layer, and what the first one reads."""
    numbers = sum(torch.Size(shape).numel() for shape in kept_shapes(nodes).values())
    read = (nodes + nodes**2) * CHANNELS
    return num_steps * seeds * graphs * (layers * (2 * numbers + 4 * NUM_SUMS) + 2 * read)


class Trajectory:
    """The same layers at every step of a trajectory, differentiable: `trajectory(step, nodes, edges)` for each in turn.

    A layer is one kernel forward and one backward (`operator.py`), and that is all that a step launches here. What the
    kernels read of the weights is laid out when the trajectory begins. The backward kernels leave, for every step, the
    rows that the gradients of the weights are products of; the products of all steps are made together, when the
    backward pass has come back to the beginning.

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
        self.num_steps, self.graphs, self.nodes = num_steps, graphs, nodes
        self.seeds = len(learnt[0].sums)
        self.layers = [_Layer(self, weights) for weights in packed]
        self._begun = _Begin.apply(self.layers, *(tensor for layer in learnt for tensor in layer))

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
    """One layer: its weights as the kernels read them, and what its steps leave for each other, [T, S, G, ...]."""

    def __init__(self, trajectory: Trajectory, packed: Packed) -> None:
        self.grid = (trajectory.graphs, trajectory.seeds)
        self.count = count = trajectory.nodes
        self.packed = packed
        like = packed.backward_matrices
        self.device = like.device
        self.read: list[tuple[Tensor, Tensor] | None] = [None] * trajectory.num_steps
        steps = (trajectory.num_steps, trajectory.seeds, trajectory.graphs)
        self.rows = {name: like.new_empty(*steps, *shape) for name, shape in kept_shapes(count).items()}
        self.sums = like.new_empty(*steps, NUM_SUMS, dtype=torch.float32)

    def forward(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        nodes, edges = nodes.detach().contiguous(), edges.detach().contiguous()
        self.read[step] = nodes, edges
        made = [self.rows[name][step] for name in FORWARD]
        addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (nodes, edges, *made)]
        launch("layer_forward", self.count, self.grid, [self.packed.forward_weights, *addresses], self.device)
        return made[0], made[1]

    def backward(self, step: int, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor, Tensor]:
        read = self.read[step]
        assert read is not None
        kept = [self.rows[name][step] for name in READ]
        given = (nodes_gradient.contiguous(), edges_gradient.contiguous())
        made = torch.empty_like(given[0]), torch.empty_like(given[1])
        rows = [self.rows[name][step] for name in BACKWARD]
        tensors = (read[1], *kept, *given, *self.packed[2:], *made, *rows, self.sums[step])
        arguments = Arguments(*(tensor.data_ptr() for tensor in tensors))
        launch("layer_backward", self.count, self.grid, [arguments], self.device)
        return made

    def parameter_gradients(self) -> Learnt:
        """Gradients over all steps and graphs."""
        nodes, edges = (torch.stack(tensors) for tensors in zip(*(read for read in self.read if read), strict=True))
        rows = self.rows
        context = rows["context"].view(*nodes.shape[:2], HEADS, *nodes.shape[2:])  # [T, S, H, G, N, D]
        values = value_gradient(rows["message_gradient"], context).sum(0)
        query_key = _products(rows["query_key_gradient"], edges.flatten(3, 4))
        return Learnt(
            node_qkv=_products(rows["qkv_gradient"], nodes),
            edge_qkv=torch.cat([query_key, values], dim=1),
            output=_products(rows["output_gradient"], rows["messages"]),
            node_in=_products(rows["node_in_gradient"], rows["middle_nodes"]),
            node_out=_products(rows["node_out_gradient"], rows["node_hidden"]),
            ends=_products(rows["send_receive_gradient"], rows["new_nodes"]),
            sums=self.sums.sum((0, 2)).to(nodes.dtype),
        )


def _products(gradient: Tensor, read: Tensor) -> Tensor:
    """Σ gradient^T · read over the rows of all steps and graphs: [T, S, G, R, out or in] -> [S, out, in]."""
    return product(gradient.flatten(0, 1), read.flatten(0, 1)).unflatten(0, gradient.shape[:2]).sum(0)


class _Begin(torch.autograd.Function):
    """Ties the parameters to all steps. It returns a number that steps take and do not look at; its backward pass,
    which autograd makes after those of all steps, finds the gradients of the parameters in what they have left."""

    @staticmethod
    def forward(ctx: Any, layers: list[_Layer], *parameters: Tensor) -> Tensor:
        ctx.layers = layers
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        layers, ctx.layers = ctx.layers, None
        return None, *(gradient for layer in layers for gradient in layer.parameter_gradients())


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
