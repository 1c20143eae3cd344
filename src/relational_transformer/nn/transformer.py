"""The Relational Transformer: input projections and a stack of layers, with three ways to treat a global vector."""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .checks import (
    MOST_LAYERS,
    check_batches,
    check_bias,
    check_choice,
    check_mask,
    check_parts,
    check_place,
    check_size,
    check_size_or_zero,
    check_sizes,
    check_weights,
    checked_head_size,
)
from .concat_linear import ConcatLinear, concatenated, linear_of_parts
from .layer import RelationalTransformerLayer
from .options import PUBLISHED, LayerOptions, check_options
from .padding import present_edges, present_nodes
from .plain import replaceable
from .saving.pretrained import Pretrained

GlobalMode = Literal["cat", "core", "att"]


class RelationalTransformerOutput(NamedTuple):
    """The output of the model: `nodes` [..., N, node_size], `edges` [..., N, N, edge_size], and `globals` [...,
    node_size], the core node; None without one.

    >>> model = RelationalTransformer(
    ...     7, 4, 2, node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8, global_mode="core"
    ... )
    >>> model(torch.randn(5, 7), torch.randn(5, 5, 4), torch.randn(2)).globals.shape
    torch.Size([8])
    """

    nodes: Tensor
    edges: Tensor
    globals: Tensor | None


class RelationalTransformer(Pretrained):
    """Input projections followed by `num_layers` relational transformer layers.

    Inputs of any size are projected to `node_size` and `edge_size`. A vector of the whole graph (`globals`) is used in
    one of the paper's ways:

    - ``cat``: joined to every node and every edge before the input projections;
    - ``core``: projected to one more node, number 0, whose edges start at zero; its output is returned as `globals`.
      Every node attends to it and it attends to every node, independently of `attention_mask`. So after two layers
      information passes through it between nodes that a mask (such as `causal_mask`) separates;
    - ``att``: joined to the queries, keys, values and edge updates of every layer.

    Nodes and edges may be given in parts (a tuple of tensors whose channels add up to the input size): the input
    projection acts on their concatenation without building it.

    The other arguments are those of `RelationalTransformerLayer`, `options` among them.

    Shapes: nodes [..., N, node_input_size], edges [..., N, N, edge_input_size], globals [..., global_input_size];
    masks as in `RelationalTransformerLayer`. All layers have the same `attention_bias` [..., H, N, N], which is zero
    for pairs with a core node.

    >>> model = RelationalTransformer(
    ...     7, 4, node_size=32, edge_size=16, num_heads=4, head_size=8, node_hidden_size=64, num_layers=2
    ... )
    >>> nodes, edges, _ = model(torch.randn(2, 10, 7), torch.randn(2, 10, 10, 4))
    >>> nodes.shape, edges.shape
    (torch.Size([2, 10, 32]), torch.Size([2, 10, 10, 16]))
    """

    def __init__(
        self,
        node_input_size: int,
        edge_input_size: int,
        global_input_size: int = 0,
        *,
        node_size: int,
        edge_size: int,
        num_heads: int,
        head_size: int | None = None,
        node_hidden_size: int | None = None,
        edge_hidden_sizes: tuple[int, int] = (16, 8),
        num_layers: int = 3,
        global_mode: GlobalMode = "cat",
        update_edges: bool = True,
        dropout: float = 0.0,
        options: LayerOptions = PUBLISHED,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size(
            node_input_size=node_input_size,
            edge_input_size=edge_input_size,
            node_size=node_size,
            edge_size=edge_size,
            num_heads=num_heads,
        )
        head_size = checked_head_size(head_size, node_size, num_heads)
        node_hidden_size = 2 * node_size if node_hidden_size is None else node_hidden_size
        check_size(MOST_LAYERS, num_layers=num_layers)
        check_size_or_zero(global_input_size=global_input_size)
        edge_hidden_sizes = check_sizes("edge_hidden_sizes", edge_hidden_sizes, "d_eh1, d_eh2")
        check_choice("global_mode", global_mode, get_args(GlobalMode))
        check_options(options)
        check_place(device, dtype)
        self.node_input_size = node_input_size
        self.edge_input_size = edge_input_size
        self.global_input_size = global_input_size
        self.node_size = node_size
        self.edge_size = edge_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.node_hidden_size = node_hidden_size
        self.edge_hidden_sizes = edge_hidden_sizes
        self.num_layers = num_layers
        self.global_mode: GlobalMode = global_mode
        self.update_edges = update_edges
        self.dropout = dropout
        self.options = options
        place = {"device": device, "dtype": dtype}
        concatenated = global_input_size if global_mode == "cat" else 0
        self.node_input = ConcatLinear(node_input_size + concatenated, node_size, **place)
        self.edge_input = ConcatLinear(edge_input_size + concatenated, edge_size, **place)
        self.global_input = ConcatLinear(global_input_size, node_size, **place) if self._has_core else None
        self.layers = nn.ModuleList(
            RelationalTransformerLayer(
                node_size=node_size,
                edge_size=edge_size,
                num_heads=num_heads,
                head_size=head_size,
                node_hidden_size=node_hidden_size,
                edge_hidden_sizes=edge_hidden_sizes,
                update_edges=update_edges,
                dropout=dropout,
                global_size=global_input_size if global_mode == "att" else 0,
                options=options,
                **place,
            )
            for _ in range(num_layers)
        )
        # Of layers that put norms before their updates, the sums have none yet.
        self.node_output_norm = options.make_norm(node_size, **place) if options.pre_norm else None
        self.edge_output_norm = options.make_norm(edge_size, **place) if options.pre_norm else None

    @property
    def _has_core(self) -> bool:
        return self.global_mode == "core" and self.global_input_size > 0

    def reset_parameters(self) -> None:
        for linear in (self.node_input, self.edge_input, self.global_input):
            if linear is not None:
                linear.reset_parameters()
        for layer in self.layers:
            assert isinstance(layer, RelationalTransformerLayer)
            layer.reset_parameters()
        for norm in (self.node_output_norm, self.edge_output_norm):
            if norm is not None:
                norm.reset_parameters()

    @replaceable
    def forward(
        self,
        nodes: Tensor | tuple[Tensor, ...],
        edges: Tensor | tuple[Tensor, ...],
        globals: Tensor | tuple[Tensor, ...] | None = None,
        node_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
    ) -> RelationalTransformerOutput:
        node_parts, edge_parts, global_parts = _parts(nodes), _parts(edges), _parts(globals)
        self._check(node_parts, edge_parts, global_parts, node_mask, attention_mask, attention_bias)
        num_nodes = node_parts[0].shape[-2]
        if node_mask is not None:
            node_parts = tuple(
                present_nodes(part, node_mask) if num_nodes in part.shape[-2:-1] else part for part in node_parts
            )
            edge_parts = tuple(  # tensors that broadcast over pairs belong to no single node
                present_edges(part, node_mask) if num_nodes in part.shape[-3:-1] else part for part in edge_parts
            )
        node_vectors, edge_vectors = self._enter(node_parts, edge_parts, global_parts)
        if self.global_input is not None:
            if node_mask is not None:
                node_mask = F.pad(node_mask.expand(*node_mask.shape[:-1], num_nodes), (1, 0), value=True)
            if attention_mask is not None:
                pairs = attention_mask.expand(*attention_mask.shape[:-2], num_nodes, num_nodes)
                attention_mask = F.pad(pairs, (1, 0, 1, 0), value=True)
            if attention_bias is not None:
                attention_bias = F.pad(
                    attention_bias.expand(*attention_bias.shape[:-2], num_nodes, num_nodes), (1, 0, 1, 0)
                )
        layer_globals = concatenated(global_parts) if self.global_mode == "att" and global_parts else None
        for layer in self.layers:
            node_vectors, edge_vectors = layer(
                node_vectors,
                edge_vectors,
                node_mask,
                attention_mask,
                layer_globals,
                attention_bias=attention_bias,
                checked=True,
            )
        return self.leave(node_vectors, edge_vectors)

    def _check(
        self,
        node_parts: tuple[Tensor, ...],
        edge_parts: tuple[Tensor, ...],
        global_parts: tuple[Tensor, ...],
        node_mask: Tensor | None,
        attention_mask: Tensor | None,
        attention_bias: Tensor | None,
    ) -> None:
        if (len(global_parts) > 0) != (self.global_input_size > 0):
            raise ValueError(
                f"globals must be {'given' if self.global_input_size else 'None'} "
                f"for a model with global_input_size={self.global_input_size}"
            )
        check_parts("nodes", node_parts, self.node_input_size, None)
        num_nodes = node_parts[0].shape[-2]
        check_parts("nodes", node_parts, self.node_input_size, num_nodes)
        check_parts("edges", edge_parts, self.edge_input_size, num_nodes, num_nodes)
        check_parts("globals", global_parts, self.global_input_size)
        for name, parts in {"nodes": node_parts, "edges": edge_parts, "globals": global_parts}.items():
            for part in parts:
                check_weights(self.node_input, **{name: part})
        check_mask("node_mask", node_mask, (num_nodes,), node_parts[0])
        check_mask("attention_mask", attention_mask, (num_nodes, num_nodes), node_parts[0])
        check_bias(attention_bias, self.num_heads, num_nodes, num_nodes, node_parts[0])
        check_batches(
            **_numbered("nodes", node_parts, 2),
            **_numbered("edges", edge_parts, 3),
            **_numbered("globals", global_parts, 1),
            node_mask=(node_mask, 1),
            attention_mask=(attention_mask, 2),
            attention_bias=(attention_bias, 3),
        )

    def _enter(
        self, node_parts: tuple[Tensor, ...], edge_parts: tuple[Tensor, ...], global_parts: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        """The input of the first layer: projected nodes and edges, with the core node in front if there is one."""
        if self.global_mode == "cat":
            node_parts += tuple(part.unsqueeze(-2) for part in global_parts)
            edge_parts += tuple(part.unsqueeze(-2).unsqueeze(-2) for part in global_parts)
        node_vectors = linear_of_parts(self.node_input, node_parts)
        edge_vectors = linear_of_parts(self.edge_input, edge_parts)
        core = None if self.global_input is None else linear_of_parts(self.global_input, global_parts)
        return self.with_core(node_vectors, edge_vectors, core)

    @staticmethod
    def with_core(node_vectors: Tensor, edge_vectors: Tensor, core: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Nodes and edges with the core node [..., node_size] in front, if there is one; its edges are zeros."""
        if core is None:
            return node_vectors, edge_vectors
        if core.shape[:-1] != node_vectors.shape[:-2]:  # one of them broadcasts over graphs
            batch = torch.broadcast_shapes(core.shape[:-1], node_vectors.shape[:-2])
            core, node_vectors = core.expand(*batch, -1), node_vectors.expand(*batch, -1, -1)
        node_vectors = torch.cat([core.unsqueeze(-2), node_vectors], dim=-2)
        return node_vectors, F.pad(edge_vectors, (0, 0, 1, 0, 1, 0))

    def leave(self, node_vectors: Tensor, edge_vectors: Tensor) -> RelationalTransformerOutput:
        """The output of the last layer, normalised if the layers are pre-norm, with the core node separated."""
        if self.node_output_norm is not None and self.edge_output_norm is not None:
            node_vectors, edge_vectors = self.node_output_norm(node_vectors), self.edge_output_norm(edge_vectors)
        if self.global_input is None:
            return RelationalTransformerOutput(node_vectors, edge_vectors, None)
        return RelationalTransformerOutput(
            node_vectors[..., 1:, :], edge_vectors[..., 1:, 1:, :], node_vectors[..., 0, :]
        )

    def extra_repr(self) -> str:
        parts = [f"global_mode={self.global_mode!r}", f"global_input_size={self.global_input_size}"]
        return ", ".join(parts + ([] if self.options == PUBLISHED else [f"options={self.options}"]))


def _parts(value: Tensor | tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _numbered(name: str, parts: tuple[Tensor, ...], own: int) -> dict[str, tuple[Tensor | None, int]]:
    """The parts of an input as `check_batches` takes them."""
    return {name if len(parts) == 1 else f"{name}[{number}]": (part, own) for number, part in enumerate(parts)}
