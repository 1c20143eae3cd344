"""The edge update over a list of edges, in memory proportional to it."""

import torch
from torch import Tensor
from torch.nn import functional as F

from relational_transformer.nn import EdgeUpdate
from relational_transformer.nn.checks import check_alike, check_tensor
from relational_transformer.nn.plain import is_plain

from .checks import check_count, check_edge_index, check_rows


def sparse_edge_update(
    update: EdgeUpdate, edges: Tensor, senders: Tensor, receivers: Tensor, edge_index: Tensor, no_edge: Tensor
) -> Tensor:
    r"""What `update` makes of the edges of a list: $e'_{ij} = \phi(e_{ij}, e_{ji}, n_j, n_i)$.

    Where there is no edge from i back to j, $e_{ji}$ is `no_edge`; where there are several, it is their mean. No edge
    leads back where `senders` and `receivers` are not one list of nodes.

    Shapes: edges [E, edge_size], senders and receivers [N, node_size], edge_index [2, E] (source j, target i),
    no_edge [edge_size] -> [E, edge_size].
    """
    read = edges
    if update.node_norm is not None:  # pre-norm
        read, no_edge, normed = update.norm(edges), update.norm(no_edge), update.node_norm(receivers)
        senders, receivers = normed if senders is receivers else update.node_norm(senders), normed
    return update.update_edges(edges, _hidden(update, read, senders, receivers, edge_index, no_edge))


def _hidden(
    update: EdgeUpdate, edges: Tensor, senders: Tensor, receivers: Tensor, edge_index: Tensor, no_edge: Tensor
) -> Tensor:
    """What `message_in` makes of (e_ij, e_ji, n_j, n_i), [E, hidden]."""
    source, target = edge_index

    def reverse(values: Tensor, missing: Tensor) -> Tensor:
        if senders is not receivers:
            return missing.expand_as(values)
        return _mean_of_reverse_edges(values, edge_index, senders.shape[0], missing)

    if not is_plain(update.message_in):
        ends = [senders.index_select(0, source), receivers.index_select(0, target)]
        return update.message_in(torch.cat([edges, reverse(edges, no_edge), *ends], dim=-1))
    # Projected first: the hidden layer is smaller than edges and nodes, and it is what is gathered.
    sizes = [update.edge_size, update.edge_size, update.node_size, update.node_size]
    own_weight, reverse_weight, sender_weight, receiver_weight = update.message_in.weight.split(sizes, dim=1)
    hidden = F.linear(edges, own_weight)
    hidden = hidden + reverse(F.linear(edges, reverse_weight), F.linear(no_edge, reverse_weight))
    hidden = hidden + F.linear(senders, sender_weight, update.message_in.bias).index_select(0, source)
    return hidden + F.linear(receivers, receiver_weight).index_select(0, target)


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
    num_edges = values.shape[0]
    group, reverse, exists = _groups(edge_index, num_nodes)
    counts = values.new_zeros(num_edges).index_add(0, group, values.new_ones(num_edges))
    sums = values.new_zeros(num_edges, values.shape[1]).index_add(0, group, values)
    means = sums.index_select(0, reverse) / counts.index_select(0, reverse).clamp_min(1).unsqueeze(-1)
    return means.where(exists.unsqueeze(-1), missing)


def _groups(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of each edge the number of its group, those with the same source and target; the number of the group of edges
    back; and whether there are any. No size depends on how many groups there are, which an exporter could not know."""
    source, target = edge_index.long()  # there may be more than 2^31 pairs of nodes
    pair = source.minimum(target) * num_nodes + source.maximum(target)
    # Sorted, the edges of a pair of nodes stand together, those of one direction before those of the other.
    keys, order = (2 * pair + (source > target)).sort()
    is_first = (keys != keys.roll(1)) | (torch.arange(keys.shape[0], device=keys.device) == 0)
    number = is_first.cumsum(0) - 1
    key_of_group = torch.full_like(keys, -1).scatter(0, number, keys)
    other_way = 1 - 2 * (keys % 2)  # to the next group, or to the one before
    beside = (number + other_way).clamp(0, keys.shape[0] - 1)
    is_loop = (source == target).index_select(0, order)
    exists = (key_of_group.index_select(0, beside) == keys + other_way) | is_loop
    found = torch.stack([number, number.where(is_loop, beside), exists.long()])
    group, reverse, exists = torch.empty_like(found).scatter(1, order.expand_as(found), found)
    return group, reverse, exists.bool()
