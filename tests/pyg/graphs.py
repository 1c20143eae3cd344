"""Small random PyG batches, and what the dense layer makes of them graph by graph."""

from dataclasses import dataclass

import torch
from torch import Tensor

from relational_transformer.pyg import RelationalTransformerConv
from tests.nn.graphs import randomise


@dataclass
class Graphs:
    """Lists of nodes and edges of several graphs; `batch` in any order."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor

    def __iter__(self):
        return iter((self.x, self.edge_index, self.edge_attr, self.batch))


def make_conv(**changes) -> RelationalTransformerConv:
    sizes = {"in_channels": 6, "out_channels": 6, "heads": 2, "edge_dim": 5, "edge_channels": 5, **changes}
    conv = RelationalTransformerConv(**sizes, edge_hidden_channels=(4, 3))
    randomise(conv)
    return conv


def make_graphs(sizes: tuple[int, ...], density: float = 0.4) -> Graphs:
    """Graphs of these sizes, each ordered pair of nodes (self loops too) an edge with probability `density`.

    Neither the nodes of a graph nor its edges stand together.
    """
    batch = torch.cat([torch.full((size,), graph) for graph, size in enumerate(sizes)])
    batch = batch[torch.randperm(len(batch))]
    allowed = (batch.unsqueeze(0) == batch.unsqueeze(1)) & (torch.rand(len(batch), len(batch)) < density)
    edge_index = allowed.nonzero().T
    edge_index = edge_index[:, torch.randperm(edge_index.shape[1])]
    return Graphs(torch.randn(len(batch), 6), edge_index, torch.randn(edge_index.shape[1], 5), batch)


def run_dense(conv: RelationalTransformerConv, graphs: Graphs) -> tuple[Tensor, Tensor]:
    """The dense layer on each graph alone: e_ij is the edge j -> i, or `no_edge`."""
    x, edge_attr = torch.empty_like(graphs.x), torch.empty_like(graphs.edge_attr)
    for graph in graphs.batch.unique().tolist():
        members = (graphs.batch == graph).nonzero().flatten().tolist()
        edges = conv.no_edge.detach().repeat(len(members), len(members), 1)
        adjacency = torch.zeros(len(members), len(members), dtype=torch.bool)
        places = []
        for number, (j, i) in enumerate(graphs.edge_index.T.tolist()):
            if i in members:
                place = members.index(i), members.index(j)
                edges[place] = graphs.edge_attr[number]
                adjacency[place] = True
                places.append((number, place))
        mask = adjacency if conv.mode == "sparse" else None
        new_nodes, new_edges = conv.layer(graphs.x[members], edges, attention_mask=mask)
        x[members] = new_nodes
        for number, place in places:
            edge_attr[number] = new_edges[place]
    return x, edge_attr
