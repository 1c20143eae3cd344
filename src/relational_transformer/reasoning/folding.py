r"""Encoders folded into the linear maps that read them, for a relational processor or a transformer without edges.

What a step sees is encoded, $x = x_\text{inputs} + \sum_k c_k E_k$ with few columns $c_k$ of hints, and then read by
linear maps alone: the processor's input projections and the decoders' readouts. So the part $M x_\text{inputs}$ and the
rows $M E_k$ of every such map $M$ are made once a trajectory, and $x$ itself is never built.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from relational_transformer.nn import ConcatLinear
from relational_transformer.processors import GraphState
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.processors.transformer import Transformer

from .decoders import FEW, precise, read_out
from .encoders import ColumnEncoder
from .network import Network

ALIGNMENT = 64
"""Tensors in a vector begin at multiples of this many numbers, as fast matrix products need."""

Parts = dict[str, Tensor]
r"""What all steps share, by name. A *map* is an input projection of the processor (`node_input`, `edge_input`,
`global_input`) or the readout of `nodes`, `edges` or `globals`; C are its channels, K the columns of the hints.

| name | |
|---|---|
| `made.MAP` | what the inputs add to the result of a map, biases included, [B, (N, (N,)) C] |
| `rows.LOCATION.MAP` | what each column adds to it, [K, C] |
| `hidden.MAP` | how an input projection reads the hidden state, [size, size] |
| `states.MAP` | how a readout reads the new state and, in the rows below, the hidden one, [2 · C, size] |
| `pooled.nodes`, `pooled.rows` | encoded nodes [B, N, size] and rows [K, size]: a maximum over nodes needs them |
| `pooled.weight`, `pooled.bias` | the readout of that maximum, [C, size] and [C]; `states.pooled` as above |
| `score.weight`, `score.bias` | what pointers of edges are scored by |
"""


class Folded(NamedTuple):
    """All parts in as few tensors as possible, because the gradient of each tensor is summed over the steps.

    Attributes:
        edges: the parts that have vectors of edges, by name: `made.edge_input` where layers read edges, and
            `made.edges` for pointers that are scored by vectors of edges.
        vector: the other parts in the dtype of the parameters, [numbers].
        precise: those in float32 or better, [numbers].
    """

    edges: Parts
    vector: Tensor
    precise: Tensor


Shared = Folded | Parts
"""What all steps share. Compiled code sums few gradients over the steps, because each is a launch of its own. Elsewhere
taking the parts out of a vector would be more launches than that saves."""


def can_fold(network: Network) -> bool:
    """Whether what a step sees is encoded and read by linear maps alone. Bound pointers are not: a product of two hints
    would have to be built."""
    return network.bound_pointers is None


def maps_of(network: Network) -> dict[str, dict[str, int]]:
    """By location: the maps that read its encoded features, with the first column that they read."""
    size = network.hidden_size
    maps: dict[str, dict[str, int]] = {"nodes": {"node_input": 0}, "edges": {}, "globals": {}}
    if not isinstance(network.processor, Transformer):
        maps["edges"]["edge_input"] = 0
    if has_core(network):
        maps["globals"]["global_input"] = 0
    else:
        maps["globals"] |= {name: 2 * size for location in ("nodes", "edges") for name in maps[location]}
    for location, of_location in maps.items():
        if location in network.decoders.readouts:
            of_location[location] = 0
    return maps


def has_core(network: Network) -> bool:
    if isinstance(network.processor, Transformer):
        return False
    assert isinstance(network.processor, RelationalProcessor)
    mode = network.processor.transformer.global_mode
    if mode == "att":
        raise ValueError("global_mode='att' cannot be folded: every layer reads the vector of the graph")
    return mode == "core"


def linear_of(network: Network, name: str) -> ConcatLinear:
    """The Linear of a map."""
    processor = network.processor
    if isinstance(processor, RelationalProcessor):
        processor = processor.transformer
    linear = getattr(processor, name) if name.endswith("_input") else network.decoders.readouts[name]
    assert isinstance(linear, ConcatLinear)
    return linear


def hint_encoder(network: Network, location: str) -> ColumnEncoder | None:
    return None if network.hint_encoder is None else getattr(network.hint_encoder, location)


def at_map(tensor: Tensor, location: str, name: str) -> Tensor:
    """A tensor of graphs [B, ...], with axes added to broadcast to the map of another location."""
    axes = {"node_input": 1, "edge_input": 2}.get(name, 0) if location == "globals" else 0
    for _ in range(axes):
        tensor = tensor.unsqueeze(1)
    return tensor


def fold(network: Network, features: GraphState) -> Shared:
    """The parts that all steps share, computed from encoded inputs."""
    if not can_fold(network):
        raise ValueError("edge_pointers='bound' cannot be folded: what an edge points to is a product of features")
    size, readouts, dtype = network.hidden_size, network.decoders.readouts, precise(features.nodes)
    parts: Parts = {}
    for location, maps in maps_of(network).items():
        encoder, seen = hint_encoder(network, location), getattr(features, location)
        if encoder is not None:
            seen = (seen + encoder.bias.to(dtype).sum(0)).to(seen.dtype)
        for name, start in maps.items():
            linear = linear_of(network, name)
            matrix = linear.weight[:, start : start + size]
            if f"made.{name}" in parts:
                parts[f"made.{name}"] = parts[f"made.{name}"] + F.linear(at_map(seen, location, name), matrix)
            else:
                parts[f"made.{name}"] = read_out((seen,), matrix, linear.bias)
            if name.endswith("_input") and start == 0:
                parts[f"hidden.{name}"] = linear.weight[:, size : 2 * size]
            elif name in readouts and linear.in_features > size:
                parts[f"states.{name}"] = _of_states(linear)
            if encoder is not None:
                parts[f"rows.{location}.{name}"] = encoder.weight.to(dtype) @ matrix.to(dtype).T
        if location == "nodes" and "pooled" in readouts:
            pooled = linear_of(network, "pooled")
            parts |= {"pooled.nodes": seen, "pooled.weight": pooled.weight[:, :size], "pooled.bias": pooled.bias}
            parts["states.pooled"] = _of_states(pooled)
            if encoder is not None:
                parts["pooled.rows"] = encoder.weight
    if "score" in readouts:
        parts |= {"score.weight": linear_of(network, "score").weight, "score.bias": linear_of(network, "score").bias}
    parts = _in_dtypes(network, parts, *features.nodes.shape[:2])
    return _pack(network, parts, *features.nodes.shape[:2]) if torch.compiler.is_compiling() else parts


def _of_states(readout: ConcatLinear) -> Tensor:
    _, hidden, new = readout.weight.chunk(3, dim=1)
    return torch.cat([new, hidden])


def unfold(network: Network, folded: Shared, batch: int, num_nodes: int) -> Parts:
    """The parts by name, for `batch` graphs of `num_nodes` nodes."""
    if not isinstance(folded, Folded):
        return folded
    parts = dict(folded.edges)
    shapes = _shapes(network, batch, num_nodes)
    for is_precise, vector in ((False, folded.vector), (True, folded.precise)):
        wanted = {
            name: shape
            for name, shape in shapes.items()
            if name not in folded.edges and _is_precise(network, name, shape) == is_precise
        }
        blocks = vector.split([_aligned(shape) for shape in wanted.values()])
        for (name, shape), block in zip(wanted.items(), blocks, strict=True):
            parts[name] = block[: math.prod(shape)].view(shape)
    return parts


def _in_dtypes(network: Network, parts: Parts, batch: int, num_nodes: int) -> Parts:
    """The parts that steps read, each in float32 or better or in the dtype of the parameters."""
    dtype = parts["made.node_input"].dtype
    exact = precise(parts["made.node_input"])
    shapes = _shapes(network, batch, num_nodes)
    return {name: parts[name].to(exact if _is_precise(network, name, shapes[name]) else dtype) for name in shapes}


def _pack(network: Network, parts: Parts, batch: int, num_nodes: int) -> Folded:
    like = parts["made.node_input"]
    edges: Parts = {}
    blocks: dict[bool, list[Tensor]] = {False: [], True: []}
    for name, shape in _shapes(network, batch, num_nodes).items():
        if name in ("made.edge_input", "made.edges") and shape[-1] >= network.hidden_size:
            edges[name] = parts[name]
            continue
        block = F.pad(parts[name].reshape(-1), (0, _aligned(shape) - math.prod(shape)))
        blocks[_is_precise(network, name, shape)].append(block)
    vector, exact = (torch.cat(of_kind) if of_kind else like.new_zeros(0) for of_kind in blocks.values())
    return Folded(edges, vector, exact.to(precise(like)))


def _shapes(network: Network, batch: int, num_nodes: int) -> dict[str, tuple[int, ...]]:
    """The shape of every part."""
    size, readouts = network.hidden_size, network.decoders.readouts
    axes = {"nodes": (batch, num_nodes), "edges": (batch, num_nodes, num_nodes), "globals": (batch,)}
    shapes: dict[str, tuple[int, ...]] = {}
    for location, maps in maps_of(network).items():
        encoder = hint_encoder(network, location)
        for name, start in maps.items():
            linear = linear_of(network, name)
            if encoder is not None:
                shapes[f"rows.{location}.{name}"] = (len(encoder.weight), linear.out_features)
            if start:
                continue  # this map is another location's
            shapes[f"made.{name}"] = (*axes[location], linear.out_features)
            if name.endswith("_input"):
                shapes[f"hidden.{name}"] = (size, size)
            elif linear.in_features > size:
                shapes[f"states.{name}"] = (2 * linear.out_features, size)
        if location == "nodes" and "pooled" in readouts:
            channels = linear_of(network, "pooled").out_features
            shapes |= {"pooled.nodes": (*axes["nodes"], size), "states.pooled": (2 * channels, size)}
            shapes |= {"pooled.weight": (channels, size), "pooled.bias": (channels,)}
            if encoder is not None:
                shapes["pooled.rows"] = (len(encoder.weight), size)
    if "score" in readouts:
        count = linear_of(network, "score").out_features
        shapes |= {"score.weight": (count, size), "score.bias": (count,)}
    return shapes


def _is_precise(network: Network, name: str, shape: tuple[int, ...]) -> bool:
    """Whether a part is kept in float32 or better: small parts that are summed are, operands of matrix products are
    not."""
    kind, _, map_name = name.partition(".")
    match kind:
        case "made":
            return not map_name.endswith("_input") and shape[-1] < network.hidden_size
        case "states":
            return shape[0] <= 2 * FEW
        case "pooled":
            return map_name == "rows"
        case _:
            return kind == "rows"


def _aligned(shape: tuple[int, ...]) -> int:
    return -(-math.prod(shape) // ALIGNMENT) * ALIGNMENT
