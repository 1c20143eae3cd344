"""The public doors of the library, with right arguments for each and what may be put in their place."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relational_transformer import (
    LayerOptions,
    RelationalAttention,
    RelationalTransformer,
    RelationalTransformerLayer,
    causal_mask,
    clrs,
    nn,
    relational_attention,
)
from relational_transformer.look.page import make_page
from relational_transformer.processors import PROCESSORS, GraphState, Settings, build_processor, find_settings
from relational_transformer.reasoning import build_network, group_features, pack, unpack

from .door import LAYER, SIZES, Door, Instead, named, only
from .doors_of_graphs import doors_of_graphs
from .wrong_values import (
    anything_instead,
    choice_instead,
    device_instead,
    dtype_instead,
    flag_instead,
    number_instead,
    parts_instead,
    size_instead,
    sizes_instead,
    tensor_instead,
)


def doors(folder: Path) -> list[Door]:
    """All of them. `folder` is where some may write."""
    torch.manual_seed(0)
    return [
        *_functions(), *_modules(), *_constructors(), *_saved(folder), *doors_of_graphs(), *_processors(),
        *_data(folder), *_look(),
    ]  # fmt: skip


def _functions() -> Iterator[Door]:
    query, key, value = torch.randn(3, 2, 4, 6).unbind()
    attention = {"query": query, "key": key, "value": value, "edges": torch.randn(2, 4, 4, 5)}
    attention |= {"edge_weight": torch.randn(18, 5), "num_heads": 2, "attention_mask": causal_mask(4)}
    attention |= {"attention_bias": torch.randn(2, 4, 4), "log_scaling_size": 8, "dropout": 0.0}
    more = named("num_heads", "log_scaling_size", instead=size_instead)
    more |= {"need_weights": flag_instead, "dropout": number_instead}
    yield Door(
        "relational_attention",
        relational_attention,
        attention | {"need_weights": True},
        named(*list(attention)[:5], "attention_mask", "attention_bias") | more,
    )
    yield Door(
        "causal_mask", causal_mask, {"size": 4, "device": "cpu"}, {"size": size_instead, "device": device_instead}
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
    numbers = named("eps", "dropout", instead=number_instead)
    yield Door("edge_update", nn.edge_update, tensors | {"eps": 1e-5, "dropout": 0.0}, named(*tensors) | numbers)
    linear = nn.ConcatLinear(7, 2)
    yield Door(
        "ConcatLinear.forward",
        lambda first, second: linear(first, second),
        {"first": torch.randn(4, 3), "second": torch.randn(4)},
        named("first", "second"),
        also=("parts",),
    )
    yield Door(
        "record_attention", _record, {"model": RelationalAttention(**only(LAYER, 4))}, {"model": anything_instead}
    )


def _record(model: Any) -> None:
    with nn.record_attention(model):
        pass


def _modules() -> Iterator[Door]:
    nodes, edges, globals = torch.randn(2, 4, 6), torch.randn(2, 4, 4, 5), torch.randn(2, 3)
    graph = {"nodes": nodes, "edges": edges}
    masks = {"node_mask": torch.rand(2, 4) < 0.7, "attention_mask": torch.rand(2, 4, 4) < 0.7}
    whole = graph | masks | {"globals": globals, "attention_bias": torch.randn(2, 2, 4, 4)}
    attention = RelationalAttention(**only(LAYER, 4), global_size=3)
    yield Door(
        "RelationalAttention.forward", attention, whole | {"context": torch.randn(2, 4, 6), "need_weights": False},
        named(*whole, "context") | {"need_weights": flag_instead},
    )  # fmt: skip
    yield Door("EdgeUpdate.forward", nn.EdgeUpdate(node_size=6, edge_size=5), graph, named(*graph))
    yield Door(
        "RelationalTransformerLayer.forward", RelationalTransformerLayer(**LAYER, global_size=3), whole, named(*whole)
    )
    options = LayerOptions(True, "rms", "swiglu", log_scaling_size=8, gradient_checkpointing=True)
    layer = RelationalTransformerLayer(**LAYER, global_size=3, options=options)
    yield Door("RelationalTransformerLayer.forward (options)", layer, whole, named(*whole))
    for mode in ("cat", "core", "att"):
        model = RelationalTransformer(6, 5, 3, **LAYER, num_layers=2, global_mode=mode)
        parts = named("nodes", "edges", "globals", instead=parts_instead)
        yield Door(f"RelationalTransformer.forward ({mode})", model, whole, named(*masks, "attention_bias") | parts)


def _constructors() -> Iterator[Door]:
    hidden = {"edge_hidden_sizes": (4, 3)}
    others = {"dropout": 0.1, "update_edges": True}
    wrong = {"edge_hidden_sizes": sizes_instead, "dropout": number_instead, "update_edges": flag_instead}
    wrong |= {"global_size": size_instead}
    places: dict[str, Instead] = {"device": device_instead, "dtype": dtype_instead}
    options = {"options": anything_instead} | places
    sizes = LAYER | hidden | others
    yield Door("RelationalTransformerLayer", RelationalTransformerLayer, sizes, SIZES | wrong | options)
    yield Door(
        "RelationalAttention", RelationalAttention, only(LAYER, 4),
        only(SIZES, 4) | {"global_size": size_instead, "dropout": number_instead, "log_scaling_size": size_instead}
        | places,
    )  # fmt: skip
    yield Door(
        "EdgeUpdate", nn.EdgeUpdate, only(LAYER, 2) | {"hidden_sizes": (4, 3), "dropout": 0.0},
        only(SIZES, 2) | {"hidden_sizes": sizes_instead, "dropout": number_instead, "global_size": size_instead}
        | options,
    )  # fmt: skip
    inputs = {"node_input_size": 4, "edge_input_size": 3, "global_input_size": 2, "num_layers": 2}
    yield Door(
        "RelationalTransformer",
        RelationalTransformer,
        sizes | inputs | {"global_mode": "cat"},
        SIZES | only(wrong, 3) | dict.fromkeys(inputs, size_instead) | {"global_mode": choice_instead} | options,
    )
    yield Door(
        "ConcatLinear", nn.ConcatLinear, {"in_features": 3, "out_features": 2, "bias": True},
        named("in_features", "out_features", instead=size_instead) | {"bias": flag_instead} | places,
    )  # fmt: skip
    yield Door(
        "LayerOptions", _layer_of, {"pre_norm": True, "norm": "rms", "activation": "swiglu"},
        named("pre_norm", "gradient_checkpointing", instead=flag_instead)
        | named("norm", "activation", instead=choice_instead)
        | {"attention_dropout": number_instead, "log_scaling_size": size_instead},
    )  # fmt: skip


def _layer_of(**options: Any) -> Any:
    layer = RelationalTransformerLayer(**LAYER, options=LayerOptions(**options))
    return layer(torch.ones(4, 6), torch.ones(4, 4, 5))


def _saved(folder: Path) -> Iterator[Door]:
    place = folder / "saved"
    RelationalTransformerLayer(**LAYER).save_pretrained(place)
    yield Door(
        "from_pretrained", RelationalTransformerLayer.from_pretrained, {"folder_or_name": place},
        {
            "folder_or_name": _folder_instead, "device": device_instead, "dtype": dtype_instead,
            "dropout": number_instead, "num_heads": size_instead, "head_size": size_instead,
            "options": anything_instead, "edge_hidden_sizes": sizes_instead, "no_such": anything_instead,
        },
        also=("heads", str(place)),
    )  # fmt: skip
    yield Door(
        "save_pretrained", RelationalTransformerLayer(**LAYER).save_pretrained, {"folder": folder / "other"},
        {"folder": _folder_instead},
    )  # fmt: skip


def _processors() -> Iterator[Door]:
    small = Settings(hidden_size=8, num_heads=2, num_layers=1, node_hidden_size=4)
    sizes = named("num_layers", "hidden_size", "batch_size", "num_heads", "node_hidden_size", instead=size_instead)
    wrong = sizes | named("learning_rate", "gradient_clip", instead=number_instead)
    wrong |= named("processor", "global_mode", "hint_mode", instead=choice_instead)
    wrong |= named("update_edges", "pointers_from_edges", instead=flag_instead) | {"edge_hidden_sizes": sizes_instead}
    yield Door("Settings", Settings, {name: getattr(small, name) for name in wrong}, wrong)
    yield Door("build_processor", build_processor, {"settings": small}, {"settings": anything_instead})
    yield Door("find_settings", find_settings, {"name": "rt"}, {"name": choice_instead}, also=("model",))
    vectors = {"features_nodes": torch.randn(2, 4, 8), "features_edges": torch.randn(2, 4, 4, 8)}
    vectors |= {"features_globals": torch.randn(2, 8), "hidden_nodes": torch.randn(2, 4, 8)}
    masks = {"adjacency": torch.rand(2, 4, 4) < 0.5, "node_mask": torch.rand(2, 4) < 0.7}
    for name in PROCESSORS:
        processor = build_processor(replace(small, processor=name))
        yield Door(
            f"{name}.forward", _step(processor), vectors | masks, named(*vectors, *masks),
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
    counts = named("num_samples", "length", "seed", instead=size_instead)
    names = named("name", "version", instead=choice_instead)
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
        "unpack", unpack, {"groups": groups, "packed": packed}, named("groups", "packed", instead=anything_instead)
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
        named("inputs", "lengths", "teacher_forced"),
        also=("outputs", "hints"),
    )  # fmt: skip
    hints: dict[str, Tensor] = {key: hint[0] for key, hint in batch.hints.items()}
    yield Door(
        "Network.predict", network.predict,
        {"inputs": batch.inputs, "first_hints": hints, "lengths": batch.lengths, "num_steps": 2, "keep_hints": True},
        named("inputs", "first_hints", instead=anything_instead)
        | {"lengths": tensor_instead, "num_steps": _few_steps, "keep_hints": flag_instead},
    )  # fmt: skip


def _few_steps(right: Any, chance: random.Random) -> Any:
    value = size_instead(right, chance)
    return 3 if isinstance(value, int) and value > 10 else value  # a network may run for as many steps as one likes


def _folder_instead(right: Path, chance: random.Random) -> Any:
    return chance.choice((3, 2.5, b"x", [right], {"a": 1}, "a\0b", True, right, str(right)))


def _look() -> Iterator[Door]:
    """Of sizes, those that are refused, or that take no minutes."""
    right = {"task": "bfs", "nodes": (5,), "seed": 3, "protocol": "paper", "layers": None}
    wrong = {"task": choice_instead, "nodes": _numbers_instead, "seed": size_instead, "protocol": choice_instead}
    yield Door(
        "make_page", make_page, right, wrong | {"layers": _numbers_instead},
        also=("size", "algorithm", "length"),
    )  # fmt: skip


def _numbers_instead(right: Any, chance: random.Random) -> Any:
    number = size_instead(None, chance)
    return chance.choice(((number,), [number, 5], (5, number), ()))
