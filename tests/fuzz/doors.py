"""The public doors of the library, with right arguments for each and what may be put in their place."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from relational_transformer import (
    RelationalAttention,
    RelationalTransformer,
    RelationalTransformerLayer,
    causal_mask,
    clrs,
    nn,
    relational_attention,
)
from relational_transformer.molecules import (
    MoleculeRegressor,
    Molecules,
    distance_basis,
    find_target,
    split_indices,
)
from relational_transformer.processors import PROCESSORS, GraphState, Settings, build_processor, find_settings
from relational_transformer.pyg import (
    Packing,
    RelationalTransformerConv,
    mean_of_reverse_edges,
    sparse_relational_attention,
)
from relational_transformer.reasoning import build_network, group_features, pack, unpack

from .wrong_values import (
    anything_instead,
    choice_instead,
    flag_instead,
    number_instead,
    parts_instead,
    size_instead,
    sizes_instead,
    tensor_instead,
)

Instead = Callable[[Any, random.Random], Any]


class Door(NamedTuple):
    """A callable, its right arguments by name, and for each argument what makes a wrong one.

    A refusal must name one of the arguments, or one of the words that stand for them in a sentence (`also`).
    """

    name: str
    call: Callable[..., Any]
    right: Mapping[str, Any]
    instead: Mapping[str, Instead]
    also: tuple[str, ...] = ()


LAYER = {"node_size": 6, "edge_size": 5, "num_heads": 2, "head_size": 3, "node_hidden_size": 7}
SIZES = dict.fromkeys(LAYER, size_instead)


def doors(folder: Path) -> list[Door]:
    """All of them. `folder` is where some may write."""
    torch.manual_seed(0)
    return [*_functions(), *_modules(), *_constructors(), *_pyg(), *_molecules(), *_processors(), *_data(folder)]


def _named(*names: str, instead: Instead = tensor_instead) -> dict[str, Instead]:
    return dict.fromkeys(names, instead)


def _functions() -> Iterator[Door]:
    query, key, value = torch.randn(3, 2, 4, 6).unbind()
    attention = {"query": query, "key": key, "value": value, "edges": torch.randn(2, 4, 4, 5)}
    attention |= {"edge_weight": torch.randn(18, 5), "num_heads": 2, "attention_mask": causal_mask(4)}
    more = {"num_heads": size_instead, "need_weights": flag_instead}
    yield Door(
        "relational_attention",
        relational_attention,
        attention | {"need_weights": True},
        _named(*list(attention)[:5], "attention_mask") | more,
    )
    yield Door(
        "causal_mask", causal_mask, {"size": 4, "device": "cpu"}, {"size": size_instead, "device": choice_instead}
    )
    shapes = {
        "message_edge_weight": (4, 5), "message_reverse_weight": (4, 5), "message_out_weight": (5, 4),
        "message_out_bias": (5,), "norm_weight": (5,), "norm_bias": (5,), "feed_forward_in_weight": (3, 5),
        "feed_forward_in_bias": (3,), "feed_forward_out_weight": (5, 3), "feed_forward_out_bias": (5,),
        "feed_forward_norm_weight": (5,), "feed_forward_norm_bias": (5,),
    }  # fmt: skip
    tensors = {"edges": torch.randn(2, 4, 4, 5), "receivers": torch.randn(2, 4, 4), "senders": torch.randn(2, 4, 4)}
    tensors |= {name: torch.randn(shape) for name, shape in shapes.items()}
    tensors |= {"node_mask": torch.tensor([True, True, True, False])}
    numbers = _named("eps", "dropout", instead=number_instead)
    yield Door("edge_update", nn.edge_update, tensors | {"eps": 1e-5, "dropout": 0.0}, _named(*tensors) | numbers)
    linear = nn.ConcatLinear(7, 2)
    yield Door(
        "ConcatLinear.forward",
        lambda first, second: linear(first, second),
        {"first": torch.randn(4, 3), "second": torch.randn(4)},
        _named("first", "second"),
        also=("parts",),
    )
    yield Door(
        "record_attention", _record, {"model": RelationalAttention(**_only(LAYER, 4))}, {"model": anything_instead}
    )


def _record(model: Any) -> None:
    with nn.record_attention(model):
        pass


def _only(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    return dict(list(sizes.items())[:count])


def _modules() -> Iterator[Door]:
    nodes, edges, globals = torch.randn(2, 4, 6), torch.randn(2, 4, 4, 5), torch.randn(2, 3)
    graph = {"nodes": nodes, "edges": edges}
    masks = {"node_mask": torch.rand(2, 4) < 0.7, "attention_mask": torch.rand(2, 4, 4) < 0.7}
    whole = graph | masks | {"globals": globals}
    attention = RelationalAttention(**_only(LAYER, 4), global_size=3)
    yield Door(
        "RelationalAttention.forward", attention, whole | {"context": torch.randn(2, 4, 6), "need_weights": False},
        _named(*whole, "context") | {"need_weights": flag_instead},
    )  # fmt: skip
    yield Door("EdgeUpdate.forward", nn.EdgeUpdate(node_size=6, edge_size=5), graph, _named(*graph))
    yield Door(
        "RelationalTransformerLayer.forward", RelationalTransformerLayer(**LAYER, global_size=3), whole, _named(*whole)
    )
    for mode in ("cat", "core", "att"):
        model = RelationalTransformer(6, 5, 3, **LAYER, num_layers=2, global_mode=mode)
        parts = _named("nodes", "edges", "globals", instead=parts_instead)
        yield Door(f"RelationalTransformer.forward ({mode})", model, whole, _named(*masks) | parts)


def _constructors() -> Iterator[Door]:
    hidden = {"edge_hidden_sizes": (4, 3)}
    others = {"dropout": 0.1, "update_edges": True}
    wrong = {"edge_hidden_sizes": sizes_instead, "dropout": number_instead, "update_edges": flag_instead}
    wrong |= {"global_size": size_instead}
    yield Door("RelationalTransformerLayer", RelationalTransformerLayer, LAYER | hidden | others, SIZES | wrong)
    yield Door(
        "RelationalAttention", RelationalAttention, _only(LAYER, 4), _only(SIZES, 4) | {"global_size": size_instead}
    )
    yield Door(
        "EdgeUpdate", nn.EdgeUpdate, _only(LAYER, 2) | {"hidden_sizes": (4, 3), "dropout": 0.0},
        _only(SIZES, 2) | {"hidden_sizes": sizes_instead, "dropout": number_instead, "global_size": size_instead},
    )  # fmt: skip
    inputs = {"node_input_size": 4, "edge_input_size": 3, "global_input_size": 2, "num_layers": 2}
    yield Door(
        "RelationalTransformer",
        RelationalTransformer,
        LAYER | hidden | others | inputs | {"global_mode": "cat"},
        SIZES | _only(wrong, 3) | dict.fromkeys(inputs, size_instead) | {"global_mode": choice_instead},
    )
    yield Door(
        "ConcatLinear", nn.ConcatLinear, {"in_features": 3, "out_features": 2, "bias": True},
        _named("in_features", "out_features", instead=size_instead) | {"bias": flag_instead},
    )  # fmt: skip


def _pyg() -> Iterator[Door]:
    channels = {"in_channels": 4, "out_channels": 6, "heads": 2, "edge_dim": 3, "edge_channels": 5}
    channels |= {"head_channels": 3, "hidden_channels": 7}
    others = {"edge_hidden_channels": (4, 3), "mode": "sparse", "update_edges": True, "dropout": 0.0}
    wrong = {"edge_hidden_channels": sizes_instead, "mode": choice_instead}
    wrong |= {"update_edges": flag_instead, "dropout": number_instead}
    yield Door(
        "RelationalTransformerConv", RelationalTransformerConv, channels | others,
        dict.fromkeys(channels, size_instead) | wrong,
    )  # fmt: skip
    edge_index, batch = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 4]]), torch.tensor([0, 0, 1, 1, 1])
    graph = {"x": torch.randn(5, 4), "edge_index": edge_index, "edge_attr": torch.randn(4, 3), "batch": batch}
    for mode in ("sparse", "complete"):
        yield Door(
            f"RelationalTransformerConv.forward ({mode})", RelationalTransformerConv(**channels, mode=mode),
            graph | {"return_attention_weights": True}, _named(*graph) | {"return_attention_weights": flag_instead},
        )  # fmt: skip
    yield Door(
        "Packing.of", Packing.of, {"edge_index": edge_index, "num_nodes": 5, "batch": batch},
        _named("edge_index", "batch") | {"num_nodes": size_instead},
    )  # fmt: skip
    packing = Packing.of(edge_index, 5, batch)
    yield Door("Packing.pack_nodes", packing.pack_nodes, {"nodes": torch.randn(5, 4)}, _named("nodes"))
    edges = {"edges": torch.randn(4, 3), "missing": torch.randn(3)}
    yield Door("Packing.pack_edges", packing.pack_edges, edges, _named(*edges))
    yield Door("Packing.unpack_nodes", packing.unpack_nodes, {"dense": torch.randn(2, 3, 4)}, _named("dense"))
    yield Door("Packing.unpack_edges", packing.unpack_edges, {"dense": torch.randn(2, 3, 3, 4)}, _named("dense"))
    query, key, value = torch.randn(3, 5, 6).unbind()
    tensors = {"query": query, "key": key, "value": value, "edge_index": edge_index, "edges": torch.randn(4, 3)}
    tensors |= {"edge_weight": torch.randn(18, 3)}
    yield Door(
        "sparse_relational_attention", sparse_relational_attention, tensors | {"num_heads": 2},
        _named(*tensors) | {"num_heads": size_instead},
    )  # fmt: skip
    reverse = {"values": torch.randn(4, 3), "edge_index": edge_index, "missing": torch.randn(3)}
    yield Door(
        "mean_of_reverse_edges", mean_of_reverse_edges, reverse | {"num_nodes": 5},
        _named(*reverse) | {"num_nodes": size_instead},
    )  # fmt: skip


def _molecules() -> Iterator[Door]:
    sizes = {"atom_size": 5, "bond_size": 2, **LAYER, "num_layers": 2, "distance_size": 4}
    more = {"longest_distance": 3.0, "readout": "sum", "edge_hidden_sizes": (4, 3)}
    wrong = {"longest_distance": number_instead, "readout": choice_instead, "edge_hidden_sizes": sizes_instead}
    yield Door("MoleculeRegressor", MoleculeRegressor, sizes | more, dict.fromkeys(sizes, size_instead) | wrong)
    model = MoleculeRegressor(**sizes, **more)
    tensors = {"atoms": torch.randn(2, 4, 5), "bonds": torch.randn(2, 4, 4, 2), "positions": torch.randn(2, 4, 3)}
    tensors |= {"node_mask": torch.rand(2, 4) < 0.8}
    yield Door("MoleculeRegressor.forward", lambda **parts: model(Molecules(**parts)), tensors, _named(*tensors))
    yield Door("MoleculeRegressor.forward (anything)", model, {"molecules": 3}, {"molecules": anything_instead})
    yield Door("MoleculeRegressor.set_scale", model.set_scale, {"targets": torch.randn(5)}, _named("targets"))
    counted = {"targets": torch.randn(6), "counts": torch.randint(9, (6, 5))}
    yield Door("MoleculeRegressor.set_scale (of atoms)", model.set_scale, counted, _named(*counted))
    yield Door(
        "distance_basis", distance_basis, {"distances": torch.rand(3), "size": 4, "longest": 2.0},
        {"distances": tensor_instead, "size": size_instead, "longest": number_instead},
    )  # fmt: skip
    yield Door("find_target", find_target, {"name": "gap"}, {"name": choice_instead}, also=("called",))
    yield Door("split_indices", split_indices, {"count": 50, "seed": 0}, _named("count", "seed", instead=size_instead))


def _processors() -> Iterator[Door]:
    small = Settings(hidden_size=8, num_heads=2, num_layers=1, node_hidden_size=4)
    sizes = _named("num_layers", "hidden_size", "batch_size", "num_heads", "node_hidden_size", instead=size_instead)
    wrong = sizes | _named("learning_rate", "gradient_clip", instead=number_instead)
    wrong |= _named("processor", "global_mode", "hint_mode", instead=choice_instead)
    wrong |= _named("update_edges", "pointers_from_edges", instead=flag_instead) | {"edge_hidden_sizes": sizes_instead}
    yield Door("Settings", Settings, {name: getattr(small, name) for name in wrong}, wrong)
    yield Door("build_processor", build_processor, {"settings": small}, {"settings": anything_instead})
    yield Door("find_settings", find_settings, {"name": "rt"}, {"name": choice_instead}, also=("called",))
    vectors = {"features_nodes": torch.randn(2, 4, 8), "features_edges": torch.randn(2, 4, 4, 8)}
    vectors |= {"features_globals": torch.randn(2, 8), "hidden_nodes": torch.randn(2, 4, 8)}
    masks = {"adjacency": torch.rand(2, 4, 4) < 0.5, "node_mask": torch.rand(2, 4) < 0.7}
    for name in PROCESSORS:
        processor = build_processor(replace(small, processor=name))
        yield Door(
            f"{name}.forward", _step(processor), vectors | masks, _named(*vectors, *masks),
            also=("features", "hidden", "nodes", "edges", "globals"),
        )  # fmt: skip


def _step(processor: Any) -> Callable[..., Any]:
    hidden_edges = torch.randn(2, 4, 4, 8) if processor.returns_edges else None

    def step(
        features_nodes: Any,
        features_edges: Any,
        features_globals: Any,
        hidden_nodes: Any,
        adjacency: Any,
        node_mask: Any,
    ) -> GraphState:
        features = GraphState(features_nodes, features_edges, features_globals)
        return processor(features, GraphState(hidden_nodes, hidden_edges), adjacency, node_mask)

    return step


def _data(folder: Path) -> Iterator[Door]:
    counts = _named("num_samples", "length", "seed", instead=size_instead)
    names = _named("name", "version", instead=choice_instead)
    right = {"name": "bfs", "num_samples": 2, "length": 5, "seed": 0, "version": "1.0"}
    yield Door("clrs.sample", clrs.sample, right, counts | names, also=("algorithm",))
    split = {"name": "bfs", "split": "val", "num_samples": 2, "version": "1.0", "cache": folder}
    wrong = names | {"split": choice_instead, "num_samples": size_instead, "cache": _folder_instead}
    yield Door("clrs.canonical", clrs.canonical, split, wrong, also=("algorithm",))
    small = Settings(hidden_size=8, num_heads=2, num_layers=1, node_hidden_size=4)
    yield Door(
        "build_network", build_network, {"algorithm": "bfs", "settings": small},
        {"algorithm": choice_instead, "settings": anything_instead},
    )  # fmt: skip
    spec = clrs.SPECS["bfs"]
    yield Door(
        "group_features", group_features, {"spec": spec, "stage": clrs.Stage.HINT},
        {"spec": anything_instead, "stage": choice_instead},
    )  # fmt: skip
    groups = group_features(spec, clrs.Stage.OUTPUT)
    yield Door(
        "pack", lambda groups, pi: pack(groups, {"pi": pi}), {"groups": groups, "pi": torch.zeros(2, 5)},
        {"groups": anything_instead, "pi": tensor_instead},
    )  # fmt: skip
    packed = {"node_pointer": torch.zeros(2, 5, 5, 1)}
    yield Door(
        "unpack", unpack, {"groups": groups, "packed": packed}, _named("groups", "packed", instead=anything_instead)
    )
    yield from _network(small)


def _network(settings: Settings) -> Iterator[Door]:
    network, data = build_network("bfs", settings), clrs.sample("bfs", 2, 5, 0)
    stages = [
        {name: torch.from_numpy(array) for name, array in stage.items()}
        for stage in (data.inputs, data.hints, data.outputs)
    ]
    batch = network.pack(*stages, torch.from_numpy(data.lengths))
    forced = torch.ones(len(batch.hints["node_mask"]) - 1, 2, dtype=torch.bool)
    yield Door(
        "Network.forward", lambda inputs, lengths, teacher_forced: network(
            batch._replace(inputs=batch.inputs | {"node_scalar": inputs}, lengths=lengths), teacher_forced
        ),
        {"inputs": batch.inputs["node_scalar"], "lengths": batch.lengths, "teacher_forced": forced},
        _named("inputs", "lengths", "teacher_forced"),
        also=("outputs", "hints"),
    )  # fmt: skip
    hints: dict[str, Tensor] = {key: hint[0] for key, hint in batch.hints.items()}
    yield Door(
        "Network.predict", network.predict,
        {"inputs": batch.inputs, "first_hints": hints, "lengths": batch.lengths, "num_steps": 2, "keep_hints": True},
        _named("inputs", "first_hints", instead=anything_instead)
        | {"lengths": tensor_instead, "num_steps": _few_steps, "keep_hints": flag_instead},
    )  # fmt: skip


def _few_steps(right: Any, chance: random.Random) -> Any:
    value = size_instead(right, chance)
    return 3 if isinstance(value, int) and value > 10 else value  # a network may run for as many steps as one likes


def _folder_instead(right: Path, chance: random.Random) -> Any:
    return chance.choice((3, 2.5, b"x", [right], {"a": 1}, "a\0b", True, right, str(right)))
