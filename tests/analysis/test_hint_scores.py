"""Scores of hints by step, on networks that say the truth but for what is made wrong."""

import math

import numpy as np
import pytest
import torch

from relational_transformer.analysis.hint_scores import RANGES, HintScores, ranges_of, score_steps, spread
from relational_transformer.analysis.rollout import roll_out
from relational_transformer.clrs import ALGORITHMS, sample
from relational_transformer.clrs.spec import Type
from relational_transformer.reasoning.build import build_network
from relational_transformer.reasoning.scores import count_all, score_all
from relational_transformer.training import evaluation
from relational_transformer.training.data import load_split
from tests.analysis.test_rollout import PROTOCOLS, length_of
from tests.analysis.truth_teller import add, choose_another, say_the_opposite, truth_teller
from tests.training.small import SETTINGS

CPU = torch.device("cpu")


def by_name(found: HintScores) -> dict:
    return {hint.name: hint for hint in found.hints}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_truth_scores_a_hundred_percent(algorithm: str, protocol):
    data = sample(algorithm, 3, length_of(algorithm), 0, protocol=protocol)
    found = score_steps([truth_teller(algorithm, protocol=protocol)], data, CPU)
    assert (found.nodes, found.examples, found.all_right, found.output) == (data.num_nodes, 3, 1.0, 1.0)
    assert found.running == tuple((data.lengths > step).sum() for step in range(1, data.num_steps))
    for hint in found.hints:
        best = 0.0 if hint.type == Type.SCALAR else 1.0
        assert {*hint.by_step, *hint.by_step_given_truth, hint.given_truth} == {best}
        assert {value for value in hint.by_range.values() if value is not None} == {best}
        assert (hint.wrong_given_truth, hint.first, hint.first_step) == (0.0, 0.0, None)


@pytest.mark.parametrize(
    ("algorithm", "name", "step", "wrong"),
    [
        ("bellman_ford", "pi_h", 2, choose_another),
        ("bellman_ford", "msk", 1, say_the_opposite),
        ("bellman_ford", "d", 2, add(100.0)),
        ("insertion_sort", "i", 2, choose_another),
        ("dfs", "color", 5, choose_another),
        ("dfs", "time", 4, add(100.0)),
        ("heapsort", "phase", 2, choose_another),
        ("floyd_warshall", "Pi_h", 2, choose_another),
        ("lcs_length", "c", 2, add(100.0)),
        ("strongly_connected_components", "phase", 1, say_the_opposite),
    ],
)
def test_a_hint_made_wrong_is_reported_at_its_step_and_no_other(algorithm: str, name: str, step: int, wrong):
    data = sample(algorithm, 4, 5, 0)
    found = score_steps([truth_teller(algorithm, {(name, step): wrong})], data, CPU)
    hints = by_name(found)
    for other in hints.values():
        perfect = 0.0 if other.type == Type.SCALAR else 1.0
        bad = {number for number, value in enumerate(other.by_step, start=1) if value != perfect}
        assert bad == ({step} if other.name == name else set())
        assert other.first == (0.25 if other.name == name else 0.0)
        assert other.first_step == (step if other.name == name else None)
    assert found.all_right == (1.0 if hints[name].type == Type.SCALAR else 0.75)
    assert hints[name].wrong_given_truth == 1 / sum(found.running)
    if hints[name].type == Type.SCALAR:
        assert hints[name].by_step[step - 1] == pytest.approx(100.0 / found.running[step - 1])


def test_the_hint_that_is_wrong_before_the_others_is_the_first():
    data = sample("insertion_sort", 4, 5, 0)
    wrong = {("i", 2): choose_another, ("j", 3): choose_another, ("pred_h", 3): choose_another}
    hints = by_name(score_steps([truth_teller("insertion_sort", wrong)], data, CPU))
    assert {name: (hint.first, hint.first_step) for name, hint in hints.items()} == {
        "i": (0.25, 2.0),
        "j": (0.0, 3.0),
        "pred_h": (0.0, 3.0),
    }


def test_a_scalar_that_is_wrong_before_hides_no_other_hint():
    data = sample("bellman_ford", 4, 5, 0)
    wrong = {("d", 1): add(9.0), ("pi_h", 2): choose_another}
    hints = by_name(score_steps([truth_teller("bellman_ford", wrong)], data, CPU))
    assert {name: hint.first for name, hint in hints.items()} == {"d": 0.25, "pi_h": 0.25, "msk": 0.0}
    wrong = {("d", 2): add(9.0), ("pi_h", 1): choose_another}
    hints = by_name(score_steps([truth_teller("bellman_ford", wrong)], data, CPU))
    assert {name: hint.first for name, hint in hints.items()} == {"d": 0.0, "pi_h": 0.25, "msk": 0.0}


def test_a_scalar_may_be_off_by_a_quarter_of_its_spread():
    data = sample("bellman_ford", 4, 5, 0)
    size = spread(data, "d")
    true = np.concatenate([data.hints["d"][1:length, number].ravel() for number, length in enumerate(data.lengths)])
    assert size == pytest.approx(true.std())
    for share, first in ((0.24, 0.0), (0.26, 0.25), (math.nan, 0.25)):
        teller = truth_teller("bellman_ford", {("d", 1): add(share * size)})
        assert by_name(score_steps([teller], data, CPU))["d"].first == first


def test_a_scalar_that_never_changes_is_measured_by_its_size():
    data = sample("quickselect", 3, 8, 0)
    data.hints["target"][:] = -0.5
    assert spread(data, "target") == 0.5
    data.hints["target"][:] = 0.0
    assert spread(data, "target") == 1.0


def test_examples_of_several_networks_are_counted_together():
    data = sample("bfs", 4, 5, 0)
    found = score_steps([truth_teller("bfs"), truth_teller("bfs", {("pi_h", 1): choose_another})], data, CPU)
    assert by_name(found)["pi_h"].first == 1 / 8
    assert found.all_right == 7 / 8
    assert found.running[0] == 2 * (data.lengths > 1).sum()


@pytest.mark.parametrize("algorithm", ["bellman_ford", "lcs_length", "strongly_connected_components"])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, algorithm: str):
    data = sample(algorithm, 5, 6, 0)
    network = build_network(algorithm, SETTINGS).double()
    whole = score_steps([network], data, CPU)
    monkeypatch.setitem(evaluation.CHANNELS_AT_ONCE, "cpu", 2 * 6**2 * SETTINGS.hidden_size)
    parts = score_steps([network], data, CPU)
    assert (parts.running, parts.all_right, parts.output) == (whole.running, whole.all_right, whole.output)
    for ours, other in zip(parts.hints, whole.hints, strict=True):
        assert ours.by_step == pytest.approx(other.by_step, rel=1e-9)
        assert ours.given_truth == pytest.approx(other.given_truth, rel=1e-9)
        assert (ours.first, ours.first_step) == (other.first, other.first_step)


def test_scores_by_step_are_those_of_the_predictions_of_that_step():
    data = sample("bellman_ford", 5, 6, 0)
    network = build_network("bellman_ford", SETTINGS)
    found = score_steps([network], data, CPU)
    batch = load_split(network, data, CPU).examples
    steps = list(roll_out(network, batch))
    for number, step in enumerate(steps):
        truth = {key: hint[number + 1] for key, hint in batch.hints.items()}
        counts = count_all(network.hints, step.logits, truth, example_mask=batch.lengths > number + 1)
        for name, score in score_all(network.hints, counts).items():
            if name in ("pi_h", "msk"):
                assert by_name(found)[name].by_step[number] == pytest.approx(float(score))


def test_every_step_lies_in_one_range_and_the_ends_in_one_more():
    lengths = torch.tensor([1, 4, 10, 37])
    for number in range(1, 38):
        counted = ranges_of(number, lengths).sum(-1)
        runs = lengths >= number
        ends = int(number == 1) + (lengths == number).int()
        assert (counted[runs] == (1 + ends)[runs]).all()
    assert [RANGES[place] for place in ranges_of(4, torch.tensor([10])).nonzero()[:, 1]] == ["to 50%"]


def test_a_model_without_hints_is_refused():
    network = build_network("bfs", SETTINGS.__class__(**{**vars(SETTINGS), "hint_mode": "none"}))
    with pytest.raises(ValueError, match="no hints to score"):
        score_steps([network], sample("bfs", 2, 5, 0), CPU)
