"""Packing: nothing is lost, and mistakes are named."""

import pytest
import torch

from relational_transformer.clrs.spec import ALGORITHMS, SPECS, FeatureSpec, Location, Stage, Type
from relational_transformer.reasoning import group_features, pack, unpack


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_packing_keeps_every_feature(algorithm: str, examples) -> None:
    drawn = examples(algorithm)
    for stage, features in zip((Stage.INPUT, Stage.HINT, Stage.OUTPUT), drawn[:3], strict=True):
        groups = group_features(SPECS[algorithm], stage)
        unpacked = unpack(groups, pack(groups, features))
        assert unpacked.keys() == features.keys()
        for name, value in features.items():
            assert unpacked[name].dtype == value.dtype
            assert torch.equal(unpacked[name], value)


def test_features_of_one_kind_share_a_tensor(examples) -> None:
    groups = group_features(SPECS["dfs"], Stage.HINT)
    packed = pack(groups, examples("dfs", batch=3, num_nodes=5, num_steps=4).hints)
    shapes = {key: tuple(value.shape) for key, value in packed.items()}
    assert shapes == {
        "node_pointer": (4, 3, 5, 2),
        "node_categorical_3": (4, 3, 5, 3, 1),
        "node_scalar": (4, 3, 5, 2),
        "node_mask_one": (4, 3, 5, 4),
        "graph_scalar": (4, 3, 1),
    }


def test_permutations_are_pointers() -> None:
    (group,) = group_features(SPECS["heapsort"], Stage.OUTPUT)
    assert group.key == "node_pointer"


def test_a_missing_feature_is_named(examples) -> None:
    drawn = examples("bfs")
    del drawn.hints["pi_h"]
    with pytest.raises(ValueError, match="features pi_h are missing; got reach_h"):
        pack(group_features(SPECS["bfs"], Stage.HINT), drawn.hints)


def test_a_kind_of_feature_that_no_algorithm_has_is_refused() -> None:
    spec = {"where": FeatureSpec(Stage.INPUT, Location.GRAPH, Type.POINTER)}
    with pytest.raises(ValueError, match="where is a graph pointer, which none of the 30 algorithms has"):
        group_features(spec, Stage.INPUT)
