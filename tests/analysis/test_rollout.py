"""What a network says at every step, beside what is true."""

import numpy as np
import pytest
import torch

from relational_transformer.analysis.rollout import predict_steps
from relational_transformer.clrs import ALGORITHMS, sample
from relational_transformer.clrs.spec import Stage, Type, spec_of
from relational_transformer.reasoning.build import build_network
from relational_transformer.training.data import load_split
from tests.analysis.truth_teller import truth_teller
from tests.training.small import SETTINGS

PROTOCOLS = ("paper", "modern")


def length_of(algorithm: str) -> int:
    return 17 if algorithm in ("kmp_matcher", "naive_string_matcher") else 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_predictions_have_the_form_of_the_data_and_begin_with_the_given_hint(algorithm: str, protocol):
    spec = spec_of(algorithm, protocol=protocol)
    torch.manual_seed(0)
    is_modern = protocol == "modern"
    network = build_network(
        spec, SETTINGS, hint_feedback="soft" if is_modern else "paper", small_scalar_hints=is_modern
    )
    data = sample(algorithm, 3, length_of(algorithm), 0, protocol=protocol)
    said = predict_steps(network, data)
    assert {*said.hints} == {name for name, feature in spec.items() if feature.stage == Stage.HINT}
    for name, hint in said.hints.items():
        kind = spec[name].type
        assert hint.predicted.dtype == hint.truth.dtype
        assert hint.predicted.shape == data.hints[name].shape
        np.testing.assert_array_equal(hint.truth, data.hints[name])
        np.testing.assert_array_equal(hint.predicted[0], data.hints[name][0])
        chosen_by_ones = kind in (Type.MASK_ONE, Type.CATEGORICAL)
        assert hint.counted.shape == hint.truth.shape[: hint.truth.ndim - chosen_by_ones]
        runs = np.arange(data.num_steps)[:, None] < data.lengths
        runs[0] = False
        assert not (hint.counted & ~runs.reshape(*runs.shape, *(1,) * (hint.counted.ndim - 2))).any()
        if kind == Type.SCALAR:
            assert hint.probabilities is None
            continue
        assert hint.probabilities is not None
        later, decided = hint.probabilities[1:], hint.predicted[1:]
        if kind == Type.MASK:
            assert (later[decided == 1] >= 0.5).all()
            assert (later[decided == 0] <= 0.5).all()
        else:
            chosen = decided if kind == Type.POINTER else decided.argmax(-1)
            of_chosen = np.take_along_axis(later, chosen[..., None].astype(int), -1).squeeze(-1)
            np.testing.assert_array_equal(of_chosen, later.max(-1))  # several may be equal
            np.testing.assert_allclose(later.sum(-1), 1.0, atol=1e-5)
    assert {name: array.shape for name, array in said.outputs.items()} == {
        name: array.shape for name, array in data.outputs.items()
    }


def test_cells_without_a_meaning_do_not_count():
    data = sample("lcs_length", 3, 6, 0)
    hint = predict_steps(truth_teller("lcs_length"), data).hints["b_h"]
    has_meaning = (data.hints["b_h"] == 1).any(-1)
    has_meaning[0] = False
    np.testing.assert_array_equal(hint.counted, has_meaning)
    assert has_meaning.any()
    assert not has_meaning[1:].all()


def test_hints_and_outputs_are_those_of_predict():
    data = sample("bellman_ford", 4, 6, 0)
    network = build_network("bellman_ford", SETTINGS)
    said = predict_steps(network, data)
    batch = load_split(network, data, torch.device("cpu")).examples
    first = {key: hint[0] for key, hint in batch.hints.items()}
    with torch.no_grad():
        predicted = network.predict(batch.inputs, first, batch.lengths, keep_hints=True)
    assert predicted.hints is not None
    np.testing.assert_array_equal(said.hints["pi_h"].predicted[1:], predicted.hints["pi_h"].argmax(-1))
    np.testing.assert_array_equal(said.hints["d"].predicted[1:], predicted.hints["d"])
    np.testing.assert_array_equal(said.outputs["pi"], predicted.outputs["pi"].argmax(-1))


def test_true_hints_are_seen_where_they_are_asked_for():
    data = sample("bellman_ford", 4, 6, 0)
    network = build_network("bellman_ford", SETTINGS)
    own, forced = (predict_steps(network, data, true_hints=given).hints["d"].predicted for given in (False, True))
    np.testing.assert_array_equal(own[:2], forced[:2])  # the first step sees the true ones anyway
    assert (own[2] != forced[2]).any()
    network.hint_feedback = "soft"
    soft = predict_steps(network, data, true_hints=True).hints["d"].predicted
    np.testing.assert_allclose(soft, forced, atol=1e-6)  # what is true is no softer
