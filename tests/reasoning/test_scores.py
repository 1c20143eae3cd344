"""Scores, worked out by hand."""

import pytest
import torch

from relational_transformer.clrs.spec import SPECS, Location, Stage, Type
from relational_transformer.reasoning import FeatureGroup, group_features
from relational_transformer.reasoning.scores import count, count_all, mean_score, score, score_all

NODE_MASK = FeatureGroup(Location.NODE, Type.MASK, None, ("x",))
MASK_ONE = FeatureGroup(Location.NODE, Type.MASK_ONE, None, ("x",))
POINTER = FeatureGroup(Location.NODE, Type.POINTER, None, ("x",))
EDGE_POINTER = FeatureGroup(Location.EDGE, Type.POINTER, None, ("x",))
EDGE_CATEGORICAL = FeatureGroup(Location.EDGE, Type.CATEGORICAL, 3, ("x",))


def packed(values: list) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(-1)


def test_f1_of_a_mask_leaves_masked_elements_out() -> None:
    logits = packed([[1.0, 1.0, -1.0, -1.0, 1.0]])
    truth = packed([[1, 0, 1, 0, -1]])
    counts = count(NODE_MASK, logits, truth)
    assert counts.flatten().tolist() == [1, 1, 1]  # the fifth, a positive, is masked
    assert score(NODE_MASK, counts).item() == 0.5


@pytest.mark.parametrize(
    ("logits", "truth", "expected"),
    [
        ([-1.0, -1.0], [0, 0], 1.0),  # nothing to find, nothing found: precision and recall are 1
        ([1.0, -1.0], [0, 0], 0.0),  # precision 0, recall 1
        ([-1.0, -1.0], [1, 0], 0.0),  # precision 1, recall 0
        ([1.0, -1.0], [0, 1], 0.0),  # both 0
        ([1.0, 1.0], [1, 0], 2 / 3),
    ],
)
def test_f1_where_something_is_empty(logits: list, truth: list, expected: float) -> None:
    assert score(NODE_MASK, count(NODE_MASK, packed([logits]), packed([truth]))).item() == pytest.approx(expected)


def test_f1_is_taken_over_all_batches_at_once() -> None:
    first = count(NODE_MASK, packed([[1.0, 1.0]]), packed([[1, 1]]))
    second = count(NODE_MASK, packed([[-1.0, 1.0]]), packed([[1, 0]]))
    # 2 true positives, 1 false, 1 missed: F1 = 2/3, not the mean of 1 and 0.
    assert score(NODE_MASK, first + second).item() == pytest.approx(2 / 3)


def test_mask_one_is_one_choice_a_graph() -> None:
    logits = packed([[0.1, 0.9, 0.0], [0.2, 0.1, 0.0]])
    truth = packed([[0, 1, 0], [0, 0, 1]])
    assert count(MASK_ONE, logits, truth).flatten().tolist() == [1, 2, 0]


def test_categorical_cells_without_a_class_are_left_out() -> None:
    logits = torch.tensor([[[[3.0, 0, 0], [0, 3.0, 0]], [[0, 0, 3.0], [3.0, 0, 0]]]]).unsqueeze(-1)
    truth = torch.tensor([[[[1, 0, 0], [-1, 0, 0]], [[0, 0, 1], [0, 1, 0]]]]).unsqueeze(-1)
    assert count(EDGE_CATEGORICAL, logits, truth).flatten().tolist() == [2, 3, 0]


def test_every_element_of_a_pointer_counts() -> None:
    logits = torch.eye(3).expand(1, 3, 3).unsqueeze(-1)  # every node points to itself
    truth = packed([[0, 0, 2]])
    assert score(POINTER, count(POINTER, logits, truth)).item() == pytest.approx(2 / 3)


def test_pointers_of_edges_are_counted_edge_by_edge() -> None:
    logits = torch.zeros(1, 2, 2, 2, 1)
    logits[0, 0, 1, 1] = 1.0  # (0, 1) points to 1, all others to 0
    truth = torch.tensor([[[0, 1], [1, 1]]]).unsqueeze(-1)
    assert count(EDGE_POINTER, logits, truth).flatten().tolist() == [2, 4, 0]


def test_absent_nodes_and_examples_do_not_count() -> None:
    logits = torch.eye(3).expand(2, 3, 3).unsqueeze(-1)
    truth = packed([[0, 1, 0], [1, 1, 1]])
    node_mask = torch.tensor([[True, True, False]] * 2)
    first_alone = torch.tensor([True, False])
    assert count(POINTER, logits, truth, node_mask, first_alone).flatten().tolist() == [2, 2, 0]


def test_an_algorithm_with_two_outputs_scores_their_mean() -> None:
    groups = group_features(SPECS["topological_sort"], Stage.OUTPUT)
    logits = {"node_pointer": torch.eye(4).expand(1, 4, 4).unsqueeze(-1), "node_mask_one": packed([[1.0, 0, 0, 0]])}
    truth = {"node_pointer": packed([[0, 1, 2, 0]]), "node_mask_one": packed([[0, 1, 0, 0]])}
    counts = count_all(groups, logits, truth)
    assert {name: value.item() for name, value in score_all(groups, counts).items()} == {"topo": 0.75, "topo_head": 0.0}
    assert mean_score(groups, counts).item() == 0.375


def test_two_outputs_of_one_kind_are_scored_apart() -> None:
    groups = group_features(SPECS["find_maximum_subarray_kadane"], Stage.OUTPUT)
    logits = {"node_mask_one": torch.tensor([[[1.0, 1.0], [0.0, 0.0]]])}
    truth = {"node_mask_one": torch.tensor([[[1, 0], [0, 1]]])}
    scores = score_all(groups, count_all(groups, logits, truth))
    assert {name: value.item() for name, value in scores.items()} == {"start": 1.0, "end": 0.0}


def test_scalars_are_scored_by_their_squared_error() -> None:
    group = FeatureGroup(Location.GRAPH, Type.SCALAR, None, ("x",))
    counts = count(group, packed([1.0, 3.0]), packed([1.0, 1.0]))
    assert score(group, counts).item() == 2.0
