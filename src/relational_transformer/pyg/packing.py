"""From PyG's lists of nodes and edges to dense padded graphs, and back."""

from dataclasses import dataclass

import torch
from torch import Tensor

from relational_transformer.nn.checks import check_dense, check_device, shown

from .checks import check_batch, check_count, check_edge_index, check_rows


@dataclass(frozen=True)
class Packing:
    """Where each node and edge of a PyG batch stands in dense tensors [graphs, nodes, ...].

    `batch` need not be sorted: nodes keep their order within their graph. An edge j -> i stands at [graph, i, j], where
    node i attends to node j. Graphs smaller than the largest are padded; `node_mask` says which nodes are real.

    >>> edge_index, batch = torch.tensor([[0], [2]]), torch.tensor([0, 1, 0])  # graphs {0, 2} and {1}; one edge, 0 -> 2
    >>> packing = Packing.of(edge_index, num_nodes=3, batch=batch)
    >>> packing.pack_nodes(torch.tensor([[1.0], [2.0], [3.0]])).squeeze(-1).tolist()
    [[1.0, 3.0], [2.0, 0.0]]
    >>> packing.pack_edges(torch.tensor([[5.0]]), missing=torch.tensor([-1.0])).squeeze(-1).tolist()[0]
    [[-1.0, -1.0], [5.0, -1.0]]
    """

    node_mask: Tensor
    """[graphs, nodes], True where there is a node."""
    graph: Tensor
    """The graph of each node, [N]."""
    slot: Tensor
    """The place of each node in its graph, [N]."""
    edge_index: Tensor
    """[2, E]: source, target."""

    @classmethod
    def of(
        cls, edge_index: Tensor, num_nodes: int, batch: Tensor | None = None, num_graphs: int | None = None
    ) -> "Packing":
        """The packing of a batch: `edge_index` [2, E], and `batch` [num_nodes], the graph of each node.

        `num_graphs` is for batches whose last graphs may have no nodes.
        """
        check_count("num_nodes", num_nodes)
        check_edge_index(edge_index, num_nodes, "edge_index", None)
        check_batch(batch, num_nodes, "edge_index", edge_index)
        if edge_index.is_meta:
            raise ValueError("edge_index must hold numbers, got a tensor on the meta device")
        edge_index = edge_index.long()  # pairs of nodes are numbered too, and there may be more than 2^31 of them
        batch = edge_index.new_zeros(num_nodes) if batch is None else batch.long()
        source, target = edge_index
        crossing = (batch[source] != batch[target]).nonzero()
        if len(crossing):
            number = int(crossing[0])
            raise ValueError(
                f"edges must join nodes of one graph, but edge {number} leads from node {int(source[number])} of graph "
                f"{int(batch[source[number]])} to node {int(target[number])} of graph {int(batch[target[number]])}"
            )
        if num_graphs is not None:
            check_count("num_graphs", num_graphs)
        sizes = batch.bincount(minlength=num_graphs or 0)
        if num_graphs is not None and sizes.shape[0] > num_graphs:
            raise ValueError(f"batch must number {num_graphs} graphs (num_graphs), got {sizes.shape[0]}")
        order = batch.argsort(stable=True)
        first = sizes.cumsum(0) - sizes  # the place in `order` where each graph begins
        slot = torch.empty_like(batch)
        slot[order] = torch.arange(num_nodes, device=batch.device) - first[batch[order]]
        largest = int(sizes.max()) if num_nodes else 0
        node_mask = torch.arange(largest, device=batch.device) < sizes.unsqueeze(-1)
        return cls(node_mask, batch, slot, edge_index)

    def pack_nodes(self, nodes: Tensor) -> Tensor:
        """Dense nodes [graphs, nodes, size] of a list [N, size]; zeros where there is no node."""
        check_rows("nodes", nodes, len(self.slot), "nodes")
        check_device("nodes", nodes, "the packing", self.slot)
        dense = nodes.new_zeros(*self.node_mask.shape, nodes.shape[-1])
        return dense.index_put((self.graph, self.slot), nodes)

    def pack_edges(self, edges: Tensor, missing: Tensor) -> Tensor:
        """Dense edges [graphs, nodes, nodes, size] of a list [E, size]; `missing` [size] where there is no edge."""
        check_rows("edges", edges, self.edge_index.shape[1], "edges")
        check_device("edges", edges, "the packing", self.slot)
        check_rows("missing", missing, edges.shape[-1], "channels of edges", axes=(1,))
        check_device("missing", missing, "the packing", self.slot)
        self._check_no_parallel_edges()
        num_graphs, num_nodes = self.node_mask.shape
        dense = missing.to(edges.dtype).expand(num_graphs, num_nodes, num_nodes, -1)
        return dense.index_put(self._pairs(), edges)

    def pack_pairs(self, pairs: Tensor) -> Tensor:
        """Dense edges [graphs, nodes, nodes, size] of a list [P, size] with a row for each pair (i, j) of nodes of one
        graph, graph by graph and in rows of i; zeros where there is no pair."""
        graph, i, j = self.pair_places()
        check_rows("pairs", pairs, graph.shape[0], "pairs of nodes that share a graph")
        check_device("pairs", pairs, "the packing", self.slot)
        num_graphs, num_nodes = self.node_mask.shape
        dense = pairs.new_zeros(num_graphs, num_nodes, num_nodes, pairs.shape[-1])
        return dense.index_put((graph, i, j), pairs)

    def unpack_nodes(self, dense: Tensor) -> Tensor:
        """The list [N, size] of dense nodes [graphs, nodes, size]."""
        self._check_dense("dense", dense, 1)
        return dense[self.graph, self.slot]

    def unpack_edges(self, dense: Tensor) -> Tensor:
        """The list [E, size] of dense edges [graphs, nodes, nodes, size]."""
        self._check_dense("dense", dense, 2)
        return dense[self._pairs()]

    def all_pairs(self) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """All pairs of nodes that share a graph: as an edge_index [2, P], and as indices (graph, i, j) of each."""
        graph, i, j = self.pair_places()
        number = self.slot.new_zeros(self.node_mask.shape)
        number[self.graph, self.slot] = torch.arange(len(self.slot), device=self.slot.device)
        return torch.stack([number[graph, j], number[graph, i]]), (graph, i, j)

    def pair_places(self) -> tuple[Tensor, Tensor, Tensor]:
        """Graph, i and j of all pairs of nodes that share a graph, graph by graph and in rows of i, [P] each."""
        graph, i, j = (self.node_mask.unsqueeze(-1) & self.node_mask.unsqueeze(-2)).nonzero(as_tuple=True)
        return graph, i, j

    def _pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        source, target = self.edge_index
        return self.graph[target], self.slot[target], self.slot[source]

    def _check_dense(self, name: str, dense: Tensor, over_nodes: int) -> None:
        if not isinstance(dense, Tensor):
            raise ValueError(f"{name} must be a tensor, got {shown(dense)}")
        check_dense(name, dense)
        num_graphs, num_nodes = self.node_mask.shape
        shape = [num_graphs, *[num_nodes] * over_nodes]
        if list(dense.shape[: len(shape)]) != shape:
            raise ValueError(f"{name} must be [{', '.join(map(str, shape))}, size], got shape {list(dense.shape)}")
        check_device(name, dense, "the packing", self.slot)

    def _check_no_parallel_edges(self) -> None:
        source, target = self.edge_index
        pairs, counts = (source * len(self.slot) + target).unique(return_counts=True)
        if len(pairs) < len(source):
            repeated = int(pairs[counts.argmax()])
            raise ValueError(
                f"a dense graph has one edge from a node to another, but edge_index has {int(counts.max())} from node "
                f"{repeated // len(self.slot)} to node {repeated % len(self.slot)}: merge them first "
                "(torch_geometric.utils.coalesce), or use RelationalTransformerConv in mode='sparse'"
            )
