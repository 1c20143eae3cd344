"""Public doors for graphs: PyTorch Geometric's conventions, and molecules."""

import random
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from relational_transformer.molecules import MoleculeRegressor, Molecules, distance_basis, find_target
from relational_transformer.pyg import (
    AddPairEncodings,
    Packing,
    RelationalGraphModel,
    RelationalTransformerConv,
    SizeBucketSampler,
    mean_of_reverse_edges,
    sparse_relational_attention,
)

from .door import LAYER, Door, named
from .wrong_values import (
    anything_instead,
    choice_instead,
    flag_instead,
    number_instead,
    size_instead,
    sizes_instead,
    tensor_instead,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PyG calls torch.jit.script when it is imported
    from torch_geometric.data import Data


def doors_of_graphs() -> Iterator[Door]:
    """All of them."""
    yield from _pyg()
    yield from _graph_models()
    yield from _molecules()


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
            graph | {"return_attention_weights": True}, named(*graph) | {"return_attention_weights": flag_instead},
        )  # fmt: skip
    yield Door(
        "Packing.of", Packing.of, {"edge_index": edge_index, "num_nodes": 5, "batch": batch},
        named("edge_index", "batch") | {"num_nodes": size_instead},
    )  # fmt: skip
    packing = Packing.of(edge_index, 5, batch)
    yield Door("Packing.pack_nodes", packing.pack_nodes, {"nodes": torch.randn(5, 4)}, named("nodes"))
    edges = {"edges": torch.randn(4, 3), "missing": torch.randn(3)}
    yield Door("Packing.pack_edges", packing.pack_edges, edges, named(*edges))
    yield Door("Packing.unpack_nodes", packing.unpack_nodes, {"dense": torch.randn(2, 3, 4)}, named("dense"))
    yield Door("Packing.unpack_edges", packing.unpack_edges, {"dense": torch.randn(2, 3, 3, 4)}, named("dense"))
    query, key, value = torch.randn(3, 5, 6).unbind()
    tensors = {"query": query, "key": key, "value": value, "edge_index": edge_index, "edges": torch.randn(4, 3)}
    tensors |= {"edge_weight": torch.randn(18, 3)}
    yield Door(
        "sparse_relational_attention", sparse_relational_attention, tensors | {"num_heads": 2},
        named(*tensors) | {"num_heads": size_instead},
    )  # fmt: skip
    reverse = {"values": torch.randn(4, 3), "edge_index": edge_index, "missing": torch.randn(3)}
    yield Door(
        "mean_of_reverse_edges", mean_of_reverse_edges, reverse | {"num_nodes": 5},
        named(*reverse) | {"num_nodes": size_instead},
    )  # fmt: skip


def _molecules() -> Iterator[Door]:
    sizes = {"atom_size": 5, "bond_size": 2, **LAYER, "num_layers": 2, "distance_size": 4}
    more = {"longest_distance": 3.0, "readout": "sum", "edge_hidden_sizes": (4, 3)}
    wrong = {"longest_distance": number_instead, "readout": choice_instead, "edge_hidden_sizes": sizes_instead}
    yield Door("MoleculeRegressor", MoleculeRegressor, sizes | more, dict.fromkeys(sizes, size_instead) | wrong)
    model = MoleculeRegressor(**sizes, **more)
    tensors = {"atoms": torch.randn(2, 4, 5), "bonds": torch.randn(2, 4, 4, 2), "positions": torch.randn(2, 4, 3)}
    tensors |= {"node_mask": torch.rand(2, 4) < 0.8}
    yield Door("MoleculeRegressor.forward", lambda **parts: model(Molecules(**parts)), tensors, named(*tensors))
    yield Door("MoleculeRegressor.forward (anything)", model, {"molecules": 3}, {"molecules": anything_instead})
    yield Door("MoleculeRegressor.set_scale", model.set_scale, {"targets": torch.randn(5)}, named("targets"))
    counted = {"targets": torch.randn(6), "counts": torch.randint(9, (6, 5))}
    yield Door("MoleculeRegressor.set_scale (of atoms)", model.set_scale, counted, named(*counted))
    yield Door(
        "distance_basis", distance_basis, {"distances": torch.rand(3), "size": 4, "longest": 2.0},
        {"distances": tensor_instead, "size": size_instead, "longest": number_instead},
    )  # fmt: skip
    yield Door("find_target", find_target, {"name": "gap"}, {"name": choice_instead}, also=("called",))


def _graph_models() -> Iterator[Door]:
    sizes = {"in_channels": 4, "out_channels": 2, "edge_dim": 3, "pair_dim": 2, "node_size": 6, "edge_size": 5}
    sizes |= {"num_heads": 2, "head_size": 3, "node_hidden_size": 7, "num_layers": 1}
    more = {"pooling": "mean", "edge_hidden_sizes": (4, 3), "dropout": 0.0}
    wrong = {"pooling": choice_instead, "edge_hidden_sizes": sizes_instead, "dropout": number_instead}
    columns = named("in_channels", "edge_dim", instead=_columns_instead)
    yield Door(
        "RelationalGraphModel",
        RelationalGraphModel,
        sizes | more,
        named(*sizes, instead=size_instead) | wrong | columns,
    )
    graph = {"x": torch.randn(5, 4), "edge_index": torch.tensor([[0, 1, 2, 3], [1, 0, 3, 4]])}
    graph |= {"edge_attr": torch.randn(4, 3), "pair_attr": torch.randn(13, 2), "batch": torch.tensor([0, 0, 1, 1, 1])}
    for pooling in ("mean", "none"):
        model = RelationalGraphModel(**sizes | {"pooling": pooling})
        yield Door(
            f"RelationalGraphModel.forward ({pooling})", lambda model=model, **parts: model(Data(**parts)), graph,
            named(*graph), also=("num_nodes", "num_graphs"),
        )  # fmt: skip
    yield Door("RelationalGraphModel.forward (anything)", model, {"batch": 3}, {"batch": anything_instead})
    categories = RelationalGraphModel((5, 3), 1, (4,), num_layers=1, node_size=8, num_heads=2)
    kinds = {"x": torch.ones(5, 2, dtype=torch.long), "edge_index": graph["edge_index"]}
    kinds |= {"edge_attr": torch.ones(4, 1, dtype=torch.long)}
    yield Door(
        "RelationalGraphModel.forward (categories)", lambda **parts: categories(Data(**parts)), kinds, named(*kinds)
    )
    channels = {"shortest_paths": 3, "random_walk": 2, "laplacian": 1}
    yield Door(
        "AddPairEncodings", AddPairEncodings, channels, named(*channels, instead=size_instead), also=("channels",)
    )
    encode = AddPairEncodings(**channels)
    undirected = {"edge_index": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), "num_nodes": 4}
    yield Door(
        "AddPairEncodings.forward", lambda **parts: encode(Data(**parts)).pair_attr, undirected,
        {"edge_index": tensor_instead, "num_nodes": size_instead},
    )  # fmt: skip
    yield Door("AddPairEncodings.forward (anything)", encode, {"data": 3}, {"data": anything_instead})
    counts = {"batch_size": 2, "seed": 0, "bucket_size": 50}
    yield Door(
        "SizeBucketSampler", lambda **given: list(SizeBucketSampler(**given)), {"sizes": [5, 60, 6, 58]} | counts,
        {"sizes": tensor_instead_of_list} | named(*counts, instead=size_instead)
        | named("shuffle", "drop_last", instead=flag_instead),
    )  # fmt: skip


def _columns_instead(right: Any, chance: random.Random) -> Any:
    """Something in the place of channels, or of the categories of columns."""
    return chance.choice((size_instead(right, chance), sizes_instead(right, chance), (5, 3), (10**8, 3), (2, None)))


def tensor_instead_of_list(right: list[int], chance: random.Random) -> Any:
    return tensor_instead(torch.tensor(right), chance)
