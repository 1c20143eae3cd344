"""Layers without edges of a fleet over all steps of a trajectory: weights laid out once, their gradients made once."""

import torch
from torch import Tensor

from ..launching import Kernel, launch
from ..over_steps import Begin, Step
from ..weight_gradients import product
from .arguments import BackwardArguments, ForwardArguments
from .kept import BACKWARD, FORWARD, READ, kept_shapes
from .parameters import NUM_SUMS, NodeLearnt, NodePacked


class NodeTrajectory:
    """The same layers at every step of a trajectory, differentiable: `nodes = trajectory(step, nodes)` for each in
    turn, one kernel forward and one backward.

    As in a `Trajectory` the kernels leave, for every step, the rows that the gradients of the weights are products of,
    and the products are made when the backward pass has come back to the beginning.

    Args:
        learnt: the parameters as `as_learnt` gives them, bfloat16 [L, S, ...]: they get the gradients.
        packed: the weights as `pack` lays them out.
        num_steps: how many steps there will be, T.
        graphs: of a seed at each step, G.
        nodes: of a graph, N.

    Every step must be called once, and the result differentiated once.
    """

    def __init__(self, learnt: NodeLearnt, packed: NodePacked, num_steps: int, graphs: int, nodes: int) -> None:
        self.layers = _Layers(packed, num_steps, graphs, nodes)
        self._begun = Begin.apply(self.layers, *learnt)

    def __call__(self, step: int, nodes: Tensor) -> Tensor:
        """New nodes [S, G, N, D] after all layers."""
        (new_nodes,) = Step.apply(self.layers, step, self._begun, nodes)
        return new_nodes


class _Layers:
    """The weights as the kernels read them, and what the steps leave for each other and for the products.

    Rows are [L, S, T, G, *shape], so that one sum goes over all steps of a seed.
    """

    def __init__(self, packed: NodePacked, num_steps: int, graphs: int, count: int) -> None:
        like = packed.backward_matrices
        layers, seeds = like.shape[:2]
        self.packed, self.grid, self.count, self.num_layers = packed, (graphs, seeds), count, layers
        self.num_steps, self.kept_graphs, self.steps_differentiated = num_steps, num_steps * graphs, 0
        self.sums = like.new_empty(layers, seeds, graphs, NUM_SUMS, dtype=torch.float32)
        self.rows = {
            name: like.new_empty(layers, seeds, num_steps, graphs, *shape) for name, shape in kept_shapes(count).items()
        }

    def forward(self, step: int, nodes: Tensor) -> tuple[Tensor]:
        nodes = nodes.detach().contiguous()
        new_nodes = torch.empty_like(nodes)
        arguments = ForwardArguments(
            matrices=self.packed.forward_matrices.data_ptr(),
            vectors=self.packed.forward_vectors.data_ptr(),
            nodes=nodes.data_ptr(),
            new_nodes=new_nodes.data_ptr(),
            layers=self.num_layers,
            kept_graphs=self.kept_graphs,
            **self._of_step(step, FORWARD),
        )
        launch(Kernel("node_layers_forward", self.count), self.grid, [arguments], nodes.device)
        return (new_nodes,)

    def backward(self, step: int, new_nodes_gradient: Tensor) -> tuple[Tensor]:
        new_nodes_gradient = new_nodes_gradient.contiguous()
        nodes_gradient = torch.empty_like(new_nodes_gradient)
        arguments = BackwardArguments(
            new_nodes_gradient=new_nodes_gradient.data_ptr(),
            weights=self.packed.backward_matrices.data_ptr(),
            vectors=self.packed.backward_vectors.data_ptr(),
            nodes_gradient=nodes_gradient.data_ptr(),
            sums=self.sums.data_ptr(),
            layers=self.num_layers,
            kept_graphs=self.kept_graphs,
            first=self.steps_differentiated == 0,
            **self._of_step(step, (*READ, *BACKWARD)),
        )
        launch(Kernel("node_layers_backward", self.count), self.grid, [arguments], nodes_gradient.device)
        self.steps_differentiated += 1
        return (nodes_gradient,)

    def parameter_gradients(self) -> NodeLearnt:
        """Over all steps and graphs. To the products a layer's seed is a seed, [L S, ...]."""
        rows = {name: of_layers.flatten(0, 1) for name, of_layers in self.rows.items()}
        matrices = (
            product(rows["qkv_gradient"], rows["kept_nodes"]),
            product(rows["output_gradient"], rows["messages"]),
            product(rows["node_in_gradient"], rows["middle_nodes"]),
            product(rows["node_out_gradient"], rows["node_hidden"]),
        )
        by_layer = [matrix.unflatten(0, self.sums.shape[:2]) for matrix in matrices]
        return NodeLearnt._make([*by_layer, self.sums.sum(2).to(self.packed.backward_matrices.dtype)])

    def _of_step(self, step: int, names: tuple[str, ...]) -> dict[str, int]:
        return {name: self.rows[name][:, :, step].data_ptr() for name in names}
