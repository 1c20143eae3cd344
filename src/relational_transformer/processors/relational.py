"""The Relational Transformer as a processor: nodes and edges are both carried from step to step."""

from typing import Self

from torch import Tensor

from relational_transformer.nn import RelationalTransformer
from relational_transformer.nn.checks import shown
from relational_transformer.nn.plain import replaceable
from relational_transformer.nn.transformer import GlobalMode

from .processor import GraphState, Processor
from .settings import Settings, check_heads


class RelationalProcessor(Processor):
    """Relational Transformer (Diao & Loynd, 2023), the paper's RT.

    Each step reads [features, hidden] of nodes and edges. The global vector is concatenated to both (`cat`), is a core
    node of its own with a hidden state (`core`), or joins every attention and edge update (`att`). Every pair of nodes
    attends: the adjacency reaches the model as edge features.
    """

    returns_edges = True

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        num_heads: int,
        *,
        node_hidden_size: int,
        edge_hidden_sizes: tuple[int, int] = (16, 8),
        global_mode: GlobalMode = "cat",
        update_edges: bool = True,
    ) -> None:
        super().__init__()
        check_heads(hidden_size, num_heads)
        self.returns_globals = global_mode == "core"
        self.transformer = RelationalTransformer(
            2 * hidden_size,
            2 * hidden_size,
            2 * hidden_size if global_mode == "core" else hidden_size,
            node_size=hidden_size,
            edge_size=hidden_size,
            num_heads=num_heads,
            head_size=hidden_size // num_heads,
            node_hidden_size=node_hidden_size,
            edge_hidden_sizes=edge_hidden_sizes,
            num_layers=num_layers,
            global_mode=global_mode,
            update_edges=update_edges,
        )

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(
            settings.hidden_size,
            settings.num_layers,
            settings.num_heads,
            node_hidden_size=settings.node_hidden_size,
            edge_hidden_sizes=settings.edge_hidden_sizes,
            global_mode=settings.global_mode,
            update_edges=settings.update_edges,
        )

    @replaceable
    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        for name, state in {"features": features, "hidden": hidden}.items():
            if not isinstance(state, GraphState):
                raise ValueError(f"{name} must be a GraphState, got {shown(state)}")
        if features.edges is None or features.globals is None:
            raise ValueError("features must have nodes, edges and globals, got None among them")
        if hidden.edges is None or (hidden.globals is None) == self.returns_globals:
            raise ValueError(
                f"hidden must have nodes, edges and {'' if self.returns_globals else 'no '}globals, got other ones"
            )
        globals = (features.globals,) if hidden.globals is None else (features.globals, hidden.globals)
        output = self.transformer(
            (features.nodes, hidden.nodes), (features.edges, hidden.edges), globals, node_mask=node_mask
        )
        return GraphState(*output)

    def leave(self, nodes: Tensor, edges: Tensor) -> GraphState:
        """The next hidden state, from the output of the last layer."""
        return GraphState(*self.transformer.leave(nodes, edges))
