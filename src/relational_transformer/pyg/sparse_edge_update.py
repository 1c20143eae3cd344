"""The edge update over a list of edges, in memory proportional to it."""

import torch
from torch import Tensor
from torch.nn import functional as F

from relational_transformer.nn import EdgeUpdate
from relational_transformer.nn.checks import check_alike, check_tensor
from relational_transformer.nn.plain import is_plain

from .checks import check_count, check_edge_index, check_rows


def sparse_edge_update(update: EdgeUpdate, edges: Tensor, nodes: Tensor, edge_index: Tensor, no_edge: Tensor) -> Tensor:
    r"""What `update` makes of the edges of a list: $e'_{ij} = \phi(e_{ij}, e_{ji}, n_j, n_i)$.

    Where there is no edge from i back to j, $e_{ji}$ is `no_edge`; where there are several, it is their mean.

    Shapes: edges [E, edge_size], nodes [N, node_size], edge_index [2, E] (source j, target i), no_edge [edge_size] ->
    [E, edge_size].
    """
    hidden = _hidden(update, edges, nodes, edge_index, no_edge)
    change = update.message_out(hidden.relu())
    middle = update.norm(edges + F.dropout(change, update.dropout, update.training))
    change = update.feed_forward_out(update.feed_forward_in(middle).relu())
    return update.feed_forward_norm(middle + F.dropout(change, update.dropout, update.training))


def _hidden(update: EdgeUpdate, edges: Tensor, nodes: Tensor, edge_index: Tensor, no_edge: Tensor) -> Tensor:
    """What `message_in` makes of (e_ij, e_ji, n_j, n_i), [E, hidden]."""
    source, target = edge_index
    if not is_plain(update.message_in):
        reverse = _mean_of_reverse_edges(edges, edge_index, nodes.shape[0], no_edge)
        return update.message_in(torch.cat([edges, reverse, nodes[source], nodes[target]], dim=-1))
    # Projected first: the hidden layer is smaller than edges and nodes, and it is what is gathered.
    sizes = [update.edge_size, update.edge_size, update.node_size, update.node_size]
    own_weight, reverse_weight, sender_weight, receiver_weight = update.message_in.weight.split(sizes, dim=1)
    reverse = _mean_of_reverse_edges(
        F.linear(edges, reverse_weight), edge_index, nodes.shape[0], F.linear(no_edge, reverse_weight)
    )
    senders = F.linear(nodes, sender_weight, update.message_in.bias)
    receivers = F.linear(nodes, receiver_weight)
    return F.linear(edges, own_weight) + reverse + senders[source] + receivers[target]


def mean_of_reverse_edges(values: Tensor, edge_index: Tensor, num_nodes: int, missing: Tensor) -> Tensor:
    """For each edge j -> i the mean of `values` over the edges i -> j, or `missing` where there is none.

    A self loop is its own reverse. The mean makes the answer independent of the order of parallel edges.

    Shapes: values [E, size], edge_index [2, E], missing [size] -> [E, size].

    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 0, 2]])  # 0 -> 1, twice 1 -> 0, 2 -> 2
    >>> values = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    >>> mean_of_reverse_edges(values, edge_index, 3, torch.tensor([-1.0])).squeeze(1).tolist()
    [3.0, 1.0, 1.0, 8.0]
    """
    check_count("num_nodes", num_nodes)
    check_tensor("values", values)
    check_edge_index(edge_index, num_nodes, "values", values)
    check_rows("values", values, edge_index.shape[1], "edges")
    check_tensor("missing", missing)
    check_rows("missing", missing, values.shape[-1], "channels of values", axes=(1,))
    check_alike("values", values, missing=missing)
    return _mean_of_reverse_edges(values, edge_index, num_nodes, missing)


def _mean_of_reverse_edges(values: Tensor, edge_index: Tensor, num_nodes: int, missing: Tensor) -> Tensor:
    if values.shape[0] == 0:
        return values
    source, target = edge_index.long()  # there may be more than 2^31 pairs of nodes
    pairs, pair = (target * num_nodes + source).unique(return_inverse=True)  # sorted numbers of the pairs (i, j)
    counts = pair.bincount(minlength=pairs.shape[0]).unsqueeze(-1)
    means = values.new_zeros(pairs.shape[0], values.shape[1]).index_add(0, pair, values) / counts
    wanted = source * num_nodes + target
    position = torch.searchsorted(pairs, wanted).clamp(max=pairs.shape[0] - 1)
    exists = (pairs[position] == wanted).unsqueeze(-1)
    return means[position].where(exists, missing)
