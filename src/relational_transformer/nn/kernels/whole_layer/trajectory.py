"""The layers of a fleet over all steps of a trajectory: weights laid out once, their gradients made once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .arguments import BackwardArguments, SeedStrides, address
from .kept import BACKWARD, BY_HEAD, FORWARD, READ, kept_shapes
from .launching import Kernel, launch
from .over_steps import Begin, Step
from .packing import Packed
from .parameters import CHANNELS, HEADS, Learnt, num_sums
from .weight_gradients import weight_gradients


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
        update_edges: whether the layers have an edge update. Without it a step returns the edges that it is given.

    Every step must be called once, and the result differentiated once.
    """

    def __init__(
        self,
        learnt: Sequence[Learnt],
        packed: Sequence[Packed],
        num_steps: int,
        graphs: int,
        nodes: int,
        *,
        update_edges: bool,
    ) -> None:
        self.layers = _Layers(packed, num_steps, graphs, nodes, update_edges)
        self._begun = Begin.apply(self.layers, *(tensor for layer in learnt for tensor in layer))

    def __call__(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """New nodes [S, G, N, D] and edges [S, G, N, N, D] after all layers."""
        return Step.apply(self.layers, step, self._begun, nodes, edges)


class _Layers:
    """The weights as the kernels read them, and what the steps leave for each other and for the products.

    Layer l reads `nodes[l]` and `edges[l]`, and writes those that the next one reads. But the first reads what it is
    given, [S, G, ...], and puts it there, and the last writes tensors that hold one step alone: strides that told of
    the number of steps would make others compile for every number. Edges that no layer updates are kept once, and every
    layer reads those.
    """

    def __init__(self, packed: Sequence[Packed], num_steps: int, graphs: int, count: int, update_edges: bool) -> None:
        like = packed[0].backward_matrices
        layers, seeds = len(packed), len(like)
        self.packed, self.grid, self.count, self.update_edges = packed, (graphs, seeds), count, update_edges
        self.num_steps, self.kept_graphs, self.steps_differentiated = num_steps, num_steps * graphs, 0
        steps = (seeds, num_steps, graphs)
        self.nodes = like.new_empty(layers + update_edges, *steps, count, CHANNELS)
        self.edges = like.new_empty(layers if update_edges else 1, *steps, count, count, CHANNELS)
        # For the ends of the edges that the last layer updates.
        self.last_nodes = like.new_empty(num_steps if update_edges else 0, seeds, graphs, count, CHANNELS)
        self.sums = like.new_empty(layers, seeds, graphs, num_sums(update_edges), dtype=torch.float32)
        self.rows: dict[str, Tensor] = {}
        for name, shape in kept_shapes(count, update_edges).items():
            if name in BY_HEAD:
                self.rows[name] = like.new_empty(layers, seeds, HEADS, num_steps, graphs, *shape[1:])
            else:
                self.rows[name] = like.new_empty(layers, *steps, *shape)

    def forward(self, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        given = edges
        nodes, edges = nodes.detach().contiguous(), edges.detach().contiguous()
        for layer in range(len(self.packed)):
            nodes, edges = self._forward(layer, step, nodes, edges)
        return nodes, edges if self.update_edges else given

    def backward(self, step: int, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor, Tensor]:
        nodes_gradient, edges_gradient = nodes_gradient.contiguous(), edges_gradient.contiguous()
        for layer in reversed(range(len(self.packed))):
            nodes_gradient, edges_gradient = self._backward(layer, step, nodes_gradient, edges_gradient)
        self.steps_differentiated += 1
        return nodes_gradient, edges_gradient

    def parameter_gradients(self) -> list[Tensor]:
        """The gradients of every layer, over all steps and graphs. The products treat seeds of all layers as seeds, [L
        S, ...]."""
        layers = len(self.packed)
        rows = {name: rows.flatten(0, 1) for name, rows in self.rows.items()}
        if self.update_edges:
            self.nodes[-1].copy_(self.last_nodes.transpose(0, 1))
            rows["new_nodes"] = self.nodes[1:].flatten(0, 1)
        sums = self.sums.flatten(0, 1).sum(1).to(self.nodes.dtype)
        found = weight_gradients(rows, self.nodes[:layers].flatten(0, 1), self.edges.flatten(0, 1), sums)
        by_layer = zip(*(tensor.chunk(layers) for tensor in found), strict=True)
        return [tensor for of_layer in by_layer for tensor in of_layer]

    def _forward(self, layer: int, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """New nodes, and the edges for the next layer."""
        strides = SeedStrides(self.kept_graphs, self.kept_graphs, self.kept_graphs)
        kept = None, None
        if layer == 0:
            strides.read = self.grid[0]
            kept = self.nodes[0, :, step], self.edges[0, :, step]
        if layer == len(self.packed) - 1:
            strides.made = self.grid[0]
        new_nodes, new_edges = self._made(layer, step, nodes, edges)
        rows = [self._of_step(name, layer, step) for name in FORWARD]
        addresses = map(address, (nodes, edges, *kept, new_nodes, new_edges, *rows))
        arguments = [self.packed[layer].forward_weights, strides, *addresses]
        launch(Kernel("layer_forward", self.count, self.update_edges), self.grid, arguments, nodes.device)
        return new_nodes, self.edges[0, :, step] if new_edges is None else new_edges

    def _made(self, layer: int, step: int, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor | None]:
        """Where a layer writes new nodes, and new edges if it makes any."""
        if layer < len(self.packed) - 1:
            return self.nodes[layer + 1, :, step], self.edges[layer + 1, :, step] if self.update_edges else None
        if not self.update_edges:
            return torch.empty_like(nodes, memory_format=torch.contiguous_format), None
        return self.last_nodes[step], torch.empty_like(edges, memory_format=torch.contiguous_format)

    def _backward(self, layer: int, step: int, nodes_gradient: Tensor, edges_gradient: Tensor) -> tuple[Tensor, Tensor]:
        tensors = {
            "edges": self.edges[layer if self.update_edges else 0, :, step],
            "new_nodes_gradient": nodes_gradient,
            "new_edges_gradient": edges_gradient,
            "weights": self.packed[layer].backward_matrices,
            "vectors": self.packed[layer].backward_vectors,
            "nodes_gradient": torch.empty_like(nodes_gradient),
            "edges_gradient": torch.empty_like(edges_gradient),
            "sums": self.sums[layer],
        }
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        addresses |= {name: address(self._of_step(name, layer, step)) for name in (*READ, *BACKWARD)}
        is_first, is_last = self.steps_differentiated == 0, self.steps_differentiated == self.num_steps - 1
        arguments = BackwardArguments(**addresses, kept_graphs=self.kept_graphs, first=is_first, last=is_last)
        launch(Kernel("layer_backward", self.count, self.update_edges), self.grid, [arguments], nodes_gradient.device)
        return tensors["nodes_gradient"], tensors["edges_gradient"]

    def _of_step(self, name: str, layer: int, step: int) -> Tensor | None:
        if name not in self.rows:
            return None
        return self.rows[name][layer].select(2 if name in BY_HEAD else 1, step)
