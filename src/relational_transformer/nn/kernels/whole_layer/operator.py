"""The whole layer as one operator of PyTorch, with its gradient and its vmap rule."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.seeds import differentiable, differentiable_once

from .arguments import BackwardArguments, LayerWeights, SeedStrides, address
from .kept import BACKWARD, BY_HEAD, FORWARD, READ, kept_shapes
from .launching import Kernel, launch
from .packing import orders_on, pack_backward, pack_forward
from .parameters import CHANNELS, NAMES, NODE_HIDDEN, Learnt, gradients_by_name, has_edge_update, num_sums, of_layer
from .weight_gradients import weight_gradients


def relational_layer(nodes: Tensor, edges: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """New nodes [..., N, D] and edges [..., N, N, D]; parameters by their names in a `RelationalTransformerLayer`."""
    batch = edges.shape[:-3]
    nodes = nodes.expand(*batch, *nodes.shape[-2:])
    operator = OPERATORS[has_edge_update(parameters)]
    ordered = [parameters[name].to(edges.dtype).unsqueeze(0) for name in operator.names]
    made = operator.layer(nodes.reshape(1, -1, *nodes.shape[-2:]), edges.reshape(1, -1, *edges.shape[-3:]), *ordered)
    return made[0].reshape(nodes.shape), made[1].reshape(edges.shape) if operator.update_edges else edges


class LayerOperator:
    """The operators of layers with an edge update, or of layers without, forward and backward.

    Forward: nodes [S, G, N, D], edges [S, G, N, N, D], parameters [S, *shape] -> new nodes, with an edge update new
    edges, and what the kernel keeps (`kept.py`), [S, G, *shape] or by head [S, H, G, N, size].

    Backward: the gradients of new nodes and of new edges, if any, all that went into the layer and that it made, but
    for new edges -> gradients of nodes and edges, of the weights that read them, [S, out, in], and of all others,
    [S, sums]. Without an edge update that of the edges is attention's own alone.

    Attributes:
        names: of the parameters, in the order in which the operators take them.
        layer: to be called; it has a gradient and a vmap rule, as `layer_backward` has.
    """

    def __init__(self, update_edges: bool) -> None:
        self.update_edges = update_edges
        self.names = of_layer(NAMES, update_edges)
        self.kept = tuple(name for name in FORWARD if name in kept_shapes(1, update_edges))
        self.made = ("new_nodes", "new_edges") if update_edges else ("new_nodes",)
        given = [f"{name}_gradient" for name in self.made]
        parameters = [name.replace(".", "_") for name in self.names]
        name = "relational_transformer::layer" + ("" if update_edges else "_without_edge_update")
        self.forward = torch.library.custom_op(
            name,
            self._forward,
            mutates_args=(),
            schema=_schema(["nodes", "edges", *parameters], len(self.made) + len(self.kept)),
        )
        self.forward.register_fake(self._outputs)
        self.backward = torch.library.custom_op(
            f"{name}_backward",
            self._backward,
            mutates_args=(),
            schema=_schema([*given, "nodes", "edges", "new_nodes", *self.kept, *parameters], 2 + len(Learnt._fields)),
        )
        self.backward.register_fake(self._gradients)
        self.layer = differentiable(self.forward, self._save, self._differentiate)
        self.layer_backward = differentiable_once(self.backward)

    def _forward(self, nodes: Tensor, edges: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        nodes, edges = nodes.contiguous(), edges.contiguous()
        seeds, graphs, count, _ = nodes.shape
        outputs = self._outputs(nodes, edges)
        matrices, vectors = pack_forward(self._named(parameters), orders_on(edges.device, self.update_edges))
        by_name = dict(zip((*self.made, *self.kept), outputs, strict=True))
        made = (by_name.get(name) for name in ("new_nodes", "new_edges", *FORWARD))
        arguments = [
            LayerWeights(matrices.data_ptr(), vectors.data_ptr()),
            SeedStrides(graphs, graphs, graphs),
            *map(address, (nodes, edges, None, None, *made)),  # nodes and edges are kept where they are
        ]
        launch(Kernel("layer_forward", count, self.update_edges), (graphs, seeds), arguments, edges.device)
        return outputs

    def _outputs(self, nodes: Tensor, edges: Tensor, *_: Any) -> tuple[Tensor, ...]:
        made = [tensor.new_empty(tensor.shape) for tensor in (nodes, edges)[: len(self.made)]]
        return *made, *self._rows(nodes, self.kept).values()

    def _backward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        names = [*(f"{name}_gradient" for name in self.made), "nodes", "edges", "new_nodes", *self.kept]
        given = {name: tensor.contiguous() for name, tensor in zip(names, tensors, strict=False)}
        nodes, edges = given["nodes"], given["edges"]
        seeds, graphs, count, _ = nodes.shape
        weights, vectors = pack_backward(self._named(tensors[len(names) :]), orders_on(edges.device, self.update_edges))
        rows = self._rows(nodes, [name for name in BACKWARD if name in kept_shapes(count, self.update_edges)])
        made = {"nodes_gradient": torch.empty_like(nodes), "edges_gradient": torch.empty_like(edges)}
        sums = nodes.new_empty(seeds, graphs, num_sums(self.update_edges), dtype=torch.float32)
        read = {name: given[name] for name in given if name in ("edges", *READ) or name.endswith("_gradient")}
        read |= {"weights": weights, "vectors": vectors}
        addresses = {name: tensor.data_ptr() for name, tensor in {**read, **made, **rows, "sums": sums}.items()}
        arguments = BackwardArguments(**addresses, kept_graphs=graphs, first=True, last=True)
        launch(Kernel("layer_backward", count, self.update_edges), (graphs, seeds), [arguments], edges.device)
        return *made.values(), *weight_gradients({**given, **rows}, nodes, edges, sums.sum(1).to(nodes.dtype))

    def _gradients(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        nodes, edges = tensors[len(self.made) : len(self.made) + 2]
        seeds, ends = nodes.shape[0], NODE_HIDDEN if self.update_edges else 0
        square, hidden = (CHANNELS, CHANNELS), (NODE_HIDDEN, CHANNELS)
        triple = (3 * CHANNELS, CHANNELS)
        shapes = [triple, triple, square, hidden, hidden[::-1], (ends, CHANNELS), (num_sums(self.update_edges),)]
        weights = [nodes.new_empty(seeds, *shape) for shape in shapes]
        return nodes.new_empty(nodes.shape), edges.new_empty(edges.shape), *weights

    def _save(self, ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        nodes, edges, *parameters = inputs
        kept = output[len(self.made) :]
        ctx.save_for_backward(nodes, edges, output[0], *kept, *parameters)

    def _differentiate(self, ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        found = self.layer_backward(*gradients[: len(self.made)], *ctx.saved_tensors)
        nodes, edges, *weights = found
        named = gradients_by_name(Learnt(*weights))
        return nodes, edges, *(named[name] for name in self.names)

    def _named(self, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
        return dict(zip(self.names, parameters, strict=True))

    def _rows(self, nodes: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """Room for what the kernels keep under these names."""
        seeds, graphs, count, _ = nodes.shape
        shapes = kept_shapes(count, self.update_edges)
        return {
            name: nodes.new_empty(seeds, shape[0], graphs, *shape[1:])
            if name in BY_HEAD
            else nodes.new_empty(seeds, graphs, *shape)
            for name, shape in ((name, shapes[name]) for name in names)
        }


def _schema(inputs: list[str], outputs: int) -> str:
    return f"({', '.join(f'Tensor {name}' for name in inputs)}) -> ({', '.join(['Tensor'] * outputs)})"


OPERATORS = {update_edges: LayerOperator(update_edges) for update_edges in (False, True)}
"""By whether a layer updates its edges."""
