"""The Relational Transformer on lobster graphs: thirty of the library's layers."""

from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn import RelationalTransformerLayer
from relational_transformer.nn.initialization import reset_linear
from relational_transformer.regression.model import LayeredModel, RelationalStep, State, max_pool, precise_linear

from ..data import EDGE_INPUTS, NODE_INPUTS, GraphBatch, neighbours
from ..settings import RelationalSettings


def relational_model(settings: RelationalSettings) -> LayeredModel:
    """RT with the sizes of `settings`. Every pair of nodes has an edge vector, which encodes the graph.

    >>> sum(parameter.numel() for parameter in relational_model(RelationalSettings()).layers[0].parameters())
    324276
    """
    step = RelationalStep if settings.attention == "all" else StepAlongEdges
    layers: list[nn.Module] = [step(relational_layer(settings)) for _ in range(settings.num_layers)]
    return LayeredModel(RelationalInput(settings), layers, RelationalOutput(settings))


class RelationalInput(nn.Module):
    """A Linear for the one-hot nodes and one for the lengths of edges. The paper does not say how edges are encoded."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        self.node_input = nn.Linear(NODE_INPUTS, settings.node_size)
        self.edge_input = nn.Linear(EDGE_INPUTS, settings.edge_size)
        reset_linear(self.node_input)
        reset_linear(self.edge_input)

    def forward(self, graphs: GraphBatch) -> State:
        dtype = self.node_input.weight.dtype
        return self.node_input(graphs.nodes.to(dtype)), self.edge_input(graphs.edges.to(dtype))


class StepAlongEdges(RelationalStep):
    """A layer in which nodes attend along the edges of the graph and to themselves. Edge vectors of all pairs are
    updated."""

    def forward(self, graphs: GraphBatch, state: State) -> State:  # pyright: ignore[reportIncompatibleMethodOverride]
        nodes, edges = state
        mask = neighbours(graphs)
        return tuple(self.layer(nodes, edges, node_mask=graphs.node_mask, attention_mask=mask, checked=True))


def relational_layer(settings: RelationalSettings) -> RelationalTransformerLayer:
    """One layer of RT."""
    return RelationalTransformerLayer(
        node_size=settings.node_size,
        edge_size=settings.edge_size,
        num_heads=settings.num_heads,
        head_size=settings.head_size,
        node_hidden_size=settings.node_hidden_size,
        edge_hidden_sizes=settings.edge_hidden_sizes,
    )


class RelationalOutput(nn.Module):
    """The nodes' maximum, a hidden layer, one number (the natural reading of the paper's "output layer size")."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        self.hidden = nn.Linear(settings.node_size, settings.output_size)
        self.output = nn.Linear(settings.output_size, 1)
        reset_linear(self.hidden)
        reset_linear(self.output)

    def forward(self, graphs: GraphBatch, state: State) -> Tensor:
        pooled = max_pool(state[0], graphs.node_mask)
        return precise_linear(self.output, F.relu(precise_linear(self.hidden, pooled))).squeeze(-1)
