"""The contract between a processor and the network around it: one typed graph state in, one out."""

from typing import ClassVar, NamedTuple, Self

from torch import Tensor, nn

from relational_transformer.nn.checks import check_batches, check_mask, check_vectors, check_weights, shown
from relational_transformer.nn.padding import present_edges, present_nodes

from .settings import Settings


class GraphState(NamedTuple):
    """Vectors of a batch of graphs: of their nodes, of their edges and of each graph as a whole.

    Shapes: nodes [..., N, size], edges [..., N, N, size], globals [..., size]. None where there are no such vectors.

    >>> import torch
    >>> state = GraphState(torch.zeros(5, 8), torch.zeros(5, 5, 8))
    >>> state.edges.shape, state.globals
    (torch.Size([5, 5, 8]), None)
    """

    nodes: Tensor
    edges: Tensor | None = None
    globals: Tensor | None = None


class Processor(nn.Module):
    """One step of computation on graphs: encoded features and the last hidden state in, the next hidden state out.

    A subclass declares what it returns and reads besides nodes:

    - `returns_edges`, `returns_globals`: its output has edge (global) vectors, which the network carries to the next
      step and decodes. Otherwise their hidden states are None and the network decodes encoded features.
    - `returns_messages`: its output has edge vectors that are not carried: decoders read them beside the encoded ones.
    - `uses_adjacency`: it reads `adjacency`; otherwise the network does not build one.
    - `masks_decoders`: the network may decode node pointers and edge masks only along the adjacency.

    >>> class Mean(Processor):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.linear = nn.Linear(2 * size, size)
    ...
    ...     @classmethod
    ...     def from_settings(cls, settings):
    ...         return cls(settings.hidden_size)
    ...
    ...     def forward(self, features, hidden, adjacency, node_mask=None):
    ...         mean = hidden.nodes.mean(-2, keepdim=True).expand_as(features.nodes)
    ...         return GraphState(self.linear(torch.cat([features.nodes, mean], dim=-1)))
    >>> import torch
    >>> features, hidden = GraphState(torch.randn(5, 8)), GraphState(torch.zeros(5, 8))
    >>> Mean.from_settings(Settings(hidden_size=8))(features, hidden, None).nodes.shape
    torch.Size([5, 8])
    """

    returns_edges: bool = False
    returns_globals: bool = False
    returns_messages: bool = False
    uses_adjacency: ClassVar[bool] = False
    masks_decoders: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The processor with the sizes that `settings` give."""
        raise NotImplementedError(f"{cls.__name__} must implement from_settings")

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        """One step.

        Args:
            features: encoded features of this step, with nodes, edges and globals.
            hidden: the output of the previous step; zeros at the first step.
            adjacency: bool [..., N, N], None where the processor does not use it.
            node_mask: bool [..., N], True where a node is present. Absent nodes must not affect others.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement forward")


def neighbours(adjacency: Tensor | None, node_mask: Tensor | None) -> Tensor | None:
    """The pairs [..., N, N] that may exchange messages: adjacent ones whose second node is present. None for all
    pairs."""
    if node_mask is None:
        return adjacency
    present = node_mask.unsqueeze(-2)  # [..., 1, N]
    return present if adjacency is None else adjacency & present


def enter(
    features: GraphState,
    hidden: GraphState,
    adjacency: Tensor | None,
    node_mask: Tensor | None,
    linear: nn.Module,
    size: int,
) -> tuple[GraphState, GraphState]:
    """Check features and hidden nodes of a step for a processor of this size that reads them with `linear`. Returns
    them with zeros for absent nodes."""
    for name, state in {"features": features, "hidden": hidden}.items():
        if not isinstance(state, GraphState):
            raise ValueError(f"{name} must be a GraphState, got {shown(state)}")
    check_vectors("features.nodes", features.nodes, size, axes=2)
    *batch, num_nodes, _ = features.nodes.shape
    vectors = {
        "features.nodes": (features.nodes, 2),
        "features.edges": (features.edges, 3),
        "features.globals": (features.globals, 1),
        "hidden.nodes": (hidden.nodes, 2),
    }
    for name, (tensor, axes) in vectors.items():
        check_vectors(name, tensor, size, axes)
        assert tensor is not None
        shape = [*batch, *[num_nodes] * (axes - 1), size]
        if list(tensor.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, as features.nodes has it, got {list(tensor.shape)}")
        check_weights(linear, **{name: tensor})
    check_mask("adjacency", adjacency, (num_nodes, num_nodes), features.nodes)
    check_mask("node_mask", node_mask, (num_nodes,), features.nodes)
    check_batches(**{"features.nodes": (features.nodes, 2)}, adjacency=(adjacency, 2), node_mask=(node_mask, 1))
    return (features, hidden) if node_mask is None else (_present(features, node_mask), _present(hidden, node_mask))


def _present(state: GraphState, node_mask: Tensor) -> GraphState:
    edges = None if state.edges is None else present_edges(state.edges, node_mask)
    return GraphState(present_nodes(state.nodes, node_mask), edges, state.globals)
