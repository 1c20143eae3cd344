"""The places of the published model's parameters in our network, by their published names.

The authors' implementation (JAX and Haiku) numbers the Linears of a module in the order of their creation: `linear`,
`linear_1`, ... Several of them are stacked into one parameter here. In the implementation of the modern protocol a
processor has one layer, whose number is not in the names.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from relational_transformer.nn import RelationalTransformer, RelationalTransformerLayer
from relational_transformer.processors.gat import GATLayer
from relational_transformer.processors.gatv2 import GATv2Layer
from relational_transformer.processors.pgn import MessagePassingLayer
from relational_transformer.processors.triplet_gmpnn import TripletGMPNN
from relational_transformer.reasoning.decoders import Decoders
from relational_transformer.reasoning.encoders import ColumnEncoder
from relational_transformer.reasoning.network import Network

_ALL = slice(None)
_CODECS = "net/~_construct_encoders_decoders/algo_0"
_MODERN = "net/mpnn_aggr_clrs_processor"


class Place(NamedTuple):
    """Rows of one of our parameters; `transposed` where the published one is [in, out] and ours [out, in]."""

    parameter: str
    rows: slice
    transposed: bool = False

    def take(self, tensor: Tensor) -> Tensor:
        """The part of a parameter, or of its gradient, as a view in the published shape."""
        part = tensor[self.rows]
        return part.T if self.transposed else part


def published_places(network: Network, *, modern: bool = False) -> dict[str, Place]:
    """The place of each published parameter, named `module|parameter`, in a network. `modern` names are those of the
    implementation of the modern protocol."""
    places: dict[str, Place] = {}
    for name, module in network.named_modules():
        places.update(_places(name, module, modern))
    return places


@torch.no_grad()
def load_published(network: Network, parameters: Mapping[str, Tensor], *, modern: bool = False) -> None:
    """Copy published parameters into a network. The names must match exactly."""
    places = published_places(network, modern=modern)
    if unmatched := sorted(set(places) ^ set(parameters)):
        raise ValueError(f"parameters in only one of the two networks: {', '.join(unmatched)}")
    ours = dict(network.named_parameters())
    for name, place in places.items():
        part = place.take(ours[place.parameter])
        part.copy_(parameters[name].reshape(part.shape))


def _places(name: str, module: nn.Module, modern: bool) -> Iterator[tuple[str, Place]]:
    """The places of the parameters of one module, by the published names of its kind."""
    index = name.rsplit(".", 1)[-1]
    match module:
        case RelationalTransformer():
            linears = ("node_input", "edge_input", "global_input")
            for number, linear in enumerate(linears):
                if getattr(module, linear) is not None:
                    yield from _linear(f"net/rt/{_numbered('linear', number)}", f"{name}.{linear}", _ALL)
        case RelationalTransformerLayer():
            yield from _relational_layer(f"net/rt/rt_layer{index}/rt_layer{index}", name, module)
        case MessagePassingLayer():
            published = _MODERN if modern else f"net/mpnn_aggr/mpnn_aggr_layer{index}"
            yield from _message_passing_layer(published, name, module)
        case TripletGMPNN():
            yield from _triplets_and_gate(name, module)
        case GATLayer():
            size, heads = module.norm.normalized_shape[0], module.num_heads
            published = f"net/gat_aggr/gat_aggr_layer{index}"
            yield from _stacked(published, 0, f"{name}.from_nodes", (size, size, heads, heads))
            yield from _linear(f"{published}/linear_4", f"{name}.edge_score", _ALL)
            yield from _linear(f"{published}/linear_5", f"{name}.global_score", _ALL)
            yield from _norm(f"{published}/layer_norm", f"{name}.norm")
        case GATv2Layer():
            published = f"net/gatv2_aggr/gatv2_aggr_layer{index}"
            yield from _stacked(published, 0, f"{name}.from_nodes", 4 * module.norm.normalized_shape)
            yield from _linear(f"{published}/linear_4", f"{name}.from_edges", _ALL)
            yield from _linear(f"{published}/linear_5", f"{name}.from_globals", _ALL)
            yield from _stacked(published, 6, f"{name}.score", (1,) * module.score.out_features)
            yield from _norm(f"{published}/layer_norm", f"{name}.norm")
        case ColumnEncoder():
            for feature, number, rows, bias_rows in module.linears:
                published = f"{_CODECS}_{feature}_enc_{_numbered('linear', number)}"
                yield f"{published}|w", Place(f"{name}.weight", rows)
                yield f"{published}|b", Place(f"{name}.bias", bias_rows)
        case Decoders():
            for feature, number, source, rows in module.linears:
                published = f"{_CODECS}_{feature}_dec_{_numbered('linear', number)}"
                yield from _linear(published, f"{name}.readouts.{source}", rows)


def _relational_layer(published: str, name: str, layer: RelationalTransformerLayer) -> Iterator[tuple[str, Place]]:
    attention = layer.attention
    size = attention.num_heads * attention.head_size
    for number, linear in enumerate(("node_qkv", "edge_qkv", "global_qkv")):
        if getattr(attention, linear) is not None:
            yield from _stacked(
                f"{published}/rt_attention_layer", 3 * number, f"{name}.attention.{linear}", 3 * (size,)
            )
    linears = ["node_output", "node_feed_forward_in", "node_feed_forward_out"]
    norms = ["node_norm", "node_feed_forward_norm"]
    if layer.edge_update is not None:
        edge_linears = ("message_in", "message_out", "feed_forward_in", "feed_forward_out")
        linears += [f"edge_update.{linear}" for linear in edge_linears]
        norms += ["edge_update.norm", "edge_update.feed_forward_norm"]
    for number, linear in enumerate(linears):
        yield from _linear(f"{published}/{_numbered('linear', number)}", f"{name}.{linear}", _ALL)
    for number, norm in enumerate(norms):
        yield from _norm(f"{published}/{_numbered('layer_norm', number)}", f"{name}.{norm}")


def _message_passing_layer(published: str, name: str, layer: MessagePassingLayer) -> Iterator[tuple[str, Place]]:
    size = layer.norm.normalized_shape[0]
    for number, block in ((0, 0), (1, 1), (4, 2)):  # receiver, sender, and the skip connection
        rows = slice(block * size, (block + 1) * size)
        yield from _linear(f"{published}/{_numbered('linear', number)}", f"{name}.from_nodes", rows)
    yield from _linear(f"{published}/linear_2", f"{name}.from_edges", _ALL)
    yield from _linear(f"{published}/linear_3", f"{name}.from_globals", _ALL)
    yield from _linear(f"{published}/linear_5", f"{name}.from_messages", _ALL)
    yield from _linear(f"{published}/mlp/~/linear_0", f"{name}.message_hidden", _ALL)
    yield from _linear(f"{published}/mlp/~/linear_1", f"{name}.message_out", _ALL)
    yield from _norm(f"{published}/layer_norm", f"{name}.norm")


def _triplets_and_gate(name: str, processor: TripletGMPNN) -> Iterator[tuple[str, Place]]:
    number = 6  # those before are the layer's
    if processor.triplets is not None:
        sizes = 3 * (processor.triplets.output.in_features,)
        yield from _stacked(_MODERN, 6, f"{name}.triplets.from_nodes", sizes)
        yield from _stacked(_MODERN, 9, f"{name}.triplets.from_edges", sizes)
        yield from _linear(f"{_MODERN}/linear_12", f"{name}.triplets.from_globals", _ALL)
        yield from _linear(f"{_MODERN}/linear_13", f"{name}.triplets.output", _ALL)
        number = 14
    for gate, linear in enumerate(("from_nodes", "from_messages", "output") if processor.gates is not None else ()):
        yield from _linear(f"{_MODERN}/linear_{number + gate}", f"{name}.gates.0.{linear}", _ALL)


def _stacked(published: str, first: int, name: str, sizes: tuple[int, ...]) -> Iterator[tuple[str, Place]]:
    """Linears number `first`, `first` + 1, ... of a module, stacked into our Linear `name`."""
    start = 0
    for number, size in enumerate(sizes, first):
        yield from _linear(f"{published}/{_numbered('linear', number)}", name, slice(start, start + size))
        start += size


def _linear(published: str, name: str, rows: slice) -> Iterator[tuple[str, Place]]:
    yield f"{published}|w", Place(f"{name}.weight", rows, transposed=True)
    yield f"{published}|b", Place(f"{name}.bias", rows)


def _norm(published: str, name: str) -> Iterator[tuple[str, Place]]:
    yield f"{published}|scale", Place(f"{name}.weight", _ALL)
    yield f"{published}|offset", Place(f"{name}.bias", _ALL)


def _numbered(word: str, number: int) -> str:
    return f"{word}_{number}" if number else word
