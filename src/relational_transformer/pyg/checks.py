"""Checks of node lists and edge lists."""

import math
from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.checks import check_dense, check_device, shown

MOST_NODES = 2**31 - 1
"""Pairs of nodes are numbered, too, in 64 bits."""
MOST_GRAPHS = 2**20
"""In a batch. There is room for every number up to the largest, so that a stray one would fill the memory."""


def check_count(name: str, count: Any, most: int = MOST_NODES) -> None:
    """A number of nodes."""
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= most:
        raise ValueError(f"{name} must be an integer between 0 and {most}, got {shown(count)}")


def check_rows(name: str, tensor: Any, rows: int, meaning: str, *, axes: tuple[int, ...] = (2,)) -> None:
    """A dense tensor with a row for each of the `rows` things that are called `meaning`."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor, got {shown(tensor)}")
    check_dense(name, tensor)
    if tensor.dim() not in axes or tensor.shape[0] != rows:
        raise ValueError(f"{name} must have a row for each of the {rows} {meaning}, got shape {list(tensor.shape)}")


def check_pair(name: str, values: Any) -> tuple[Any, Any]:
    """Two values, for sources and targets."""
    if len(values) != 2:
        raise ValueError(f"{name} must be one or two (sources, targets), got {shown(values)}")
    return values[0], values[1]


def check_node_lists(name: str, nodes: Any) -> tuple[Any, Any]:
    """The sources, None where all nodes are one list, and the targets."""
    if not isinstance(nodes, tuple | list):
        return None, nodes
    sources, targets = check_pair(name, nodes)
    for number, given in enumerate((sources, targets)):
        if given is None:
            raise ValueError(f"{name}[{number}] must be a tensor, got None: both sources and targets have vectors here")
    return sources, targets


def check_edge_index(
    edge_index: Any, num_nodes: int, what: str, beside: Tensor | None, num_sources: int | None = None
) -> None:
    """PyG's edge_index [2, E], between so many nodes, on the device of `what`, the tensor `beside`. With `num_sources`
    the sources are another list."""
    if not isinstance(edge_index, Tensor):
        raise ValueError(f"edge_index must be [2, E], sources above targets, got {type(edge_index).__name__}")
    if edge_index.layout != torch.strided:
        told = "of a sparse adj_t take torch_geometric.utils.to_edge_index(adj_t.t())"
        raise ValueError(f"edge_index must be dense, [2, E], got {edge_index.layout}: {told}")
    check_dense("edge_index", edge_index)
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must be [2, E], sources above targets, got shape {list(edge_index.shape)}")
    if num_sources is None:
        check_numbers("edge_index", edge_index, num_nodes)
    else:
        check_numbers("edge_index[0]", edge_index[0], num_sources)
        check_numbers("edge_index[1]", edge_index[1], num_nodes)
    if beside is not None:
        check_device("edge_index", edge_index, what, beside)


def check_batch(batch: Any, num_nodes: int, what: str, beside: Tensor) -> None:
    """PyG's batch [N], the graph of each node, or None."""
    if batch is None:
        return
    if not isinstance(batch, Tensor):
        raise ValueError(f"batch must be [{num_nodes}], a graph for each node, got {shown(batch)}")
    check_dense("batch", batch)
    if batch.dim() != 1 or batch.shape[0] != num_nodes:
        raise ValueError(f"batch must be [{num_nodes}], a graph for each node, got shape {list(batch.shape)}")
    check_numbers("batch", batch, math.inf)
    check_device("batch", batch, what, beside)


def check_numbers(name: str, numbers: Tensor, count: float) -> None:
    """Refuse what does not number things below `count`. Their range is looked at where that waits for no device, and
    breaks no compiler's graph."""
    if numbers.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} must be of type torch.int64, got {numbers.dtype}")
    if numbers.device.type != "cpu" or torch.compiler.is_compiling() or not numbers.numel():
        return
    least, most = (int(one) for one in numbers.aminmax())
    if least < 0 or most >= count:
        if count == 0:
            raise ValueError(f"{name} must be empty where there are no nodes, got {numbers.numel()} numbers")
        allowed = "0 or more" if count == math.inf else f"between 0 and {count - 1}, the last node"
        raise ValueError(f"all numbers in {name} must be {allowed}, got {least if least < 0 else most}")
    if count == math.inf and most >= MOST_GRAPHS:
        raise ValueError(f"all numbers in {name} must be less than {MOST_GRAPHS}, got {most}")
