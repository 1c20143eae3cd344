"""Our networks, losses and Adam against the modern protocol's: every file of `modern/`, others' files included."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from relational_transformer.clrs.spec import Location, Type
from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet
from relational_transformer.reasoning import FeatureGroup
from relational_transformer.reasoning.features import unpack
from relational_transformer.reasoning.hints import decide, soften
from relational_transformer.reasoning.losses import hint_counts, hint_losses, output_losses
from relational_transformer.reasoning.network import Carry
from relational_transformer.reasoning.permutations import (
    decide_permutation,
    log_permutation,
    point_to_themselves,
    soft_permutation,
)
from relational_transformer.reasoning.scores import count, count_all, mean_score, score, score_all
from tests.parity.modern_reference import (
    FILES,
    OF_NETWORKS,
    OF_OPTIMISERS,
    OF_UNITS,
    Arrays,
    Reference,
    messages_tied_as_in_float32,
    narrow,
)
from tests.parity.published_places import published_places

# Computed in float64: the files are of float32, whose own rounding is what these bounds leave room for.
LOSS, LOSS_TERM, VECTORS, FED_HINTS, GRADIENTS, NO_GRADIENT = 1e-6, 3e-6, 5e-6, 5e-6, 3e-6, 1e-6
ROUNDED_MORE = {"strongly_connected_components": 10.0}
"""Its gradients and the logits of its hints are ten times as sensitive."""

every_network = pytest.mark.parametrize("file", OF_NETWORKS, ids=lambda file: file.stem)


@pytest.fixture
def reference(file: Path) -> Reference:
    return Reference(file, torch.float64)


def assert_near(ours: Tensor, theirs: Tensor, bound: float, what: str) -> None:
    """Differences are at most so much of the largest number."""
    assert ours.shape == theirs.shape, what
    error, largest = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    assert error <= bound * largest, f"{what}: off by {error:.2e}, the largest number is {largest:.2e}"


def off_diagonal(permutation: Tensor) -> Tensor:
    return permutation.masked_fill(torch.eye(permutation.shape[-1], dtype=torch.bool), 0.0)


class Trained:
    """A batch taken through the steps of training, with all that the steps have seen and said."""

    def __init__(self, reference: Reference, noise: bool = False) -> None:
        network = reference.network
        self.batch = reference.example_batch(noise)
        self.fed: list[dict[str, Tensor]] = []
        hints: list[dict[str, Tensor]] = []
        step_of_network = network.step

        def watched(inputs, hints, hidden):
            self.fed.append(unpack(network.hints, hints))
            return step_of_network(inputs, hints, hidden)

        network.step = watched
        inputs = network.encode_inputs(self.batch.inputs)
        carry = network.initial_carry(inputs)
        for step in network.steps(self.batch, reference.never_forced()):
            carry = network.training_step(inputs, carry, step)
            hints.append(unpack(network.hints, carry.hints))
        del network.step
        self.outputs = logits_of(reference, carry, self.batch.noise)
        self.hints = {name: torch.stack([hint[name] for hint in hints]) for name in hints[0]} if hints[0] else {}
        self.losses = network.losses(self.batch, carry)


def logits_of(reference: Reference, carry: Carry, noise: Tensor | None = None) -> dict[str, Tensor]:
    """Logits of outputs by name, those of permutations after Sinkhorn's iterations."""
    logits = {}
    for group in reference.network.outputs:
        raw = carry.outputs[group.key]
        if group.is_permutation:
            raw = log_permutation(raw if noise is None else raw + noise)
        logits |= unpack([group], {group.key: raw})
    return logits


def predicted(reference: Reference) -> tuple[Carry, dict[str, Tensor], list[tuple]]:
    """The carry after the last step of an evaluation, the logits of its hints, and what its processor was given and
    returned at every step."""
    network, batch, calls = reference.network, reference.example_batch(), []
    handle = network.processor.register_forward_hook(lambda _, given, returned: calls.append((given, returned)))
    with torch.no_grad():
        inputs = network.encode_inputs(batch.inputs)
        carry, hints = network.initial_carry(inputs), []
        first = {key: hint[0] for key, hint in batch.hints.items()}
        for number in range(reference.num_steps):
            is_first = torch.full_like(batch.lengths, number == 0, dtype=torch.bool)
            carry = network.advance(inputs, carry, first, is_first, (batch.lengths > number + 1) | is_first)
            hints.append(unpack(network.hints, carry.hints))
    handle.remove()
    return carry, {name: torch.stack([hint[name] for hint in hints]) for name in hints[0]}, calls


def test_every_kind_of_file_is_there() -> None:
    assert len(OF_NETWORKS) >= 23
    assert len(OF_OPTIMISERS) >= 1
    assert len(OF_UNITS) >= 1
    assert len(OF_NETWORKS) + len(OF_OPTIMISERS) + len(OF_UNITS) == len(FILES)


def check_training(reference: Reference, suffix: str) -> None:
    """Loss, its terms and its gradients."""
    trained = Trained(reference, noise=suffix != "")
    more = ROUNDED_MORE.get(reference.algorithm, 1.0)
    total = trained.losses.total
    assert total.item() == pytest.approx(reference[f"loss{suffix}"].item(), rel=LOSS)
    terms = {key.split("|")[-1]: value for key, value in reference.under(f"loss_feature{suffix}|").items()}
    assert trained.losses.by_feature.keys() == terms.keys()
    for name, term in terms.items():
        ours, theirs = trained.losses.by_feature[name].item(), term.item()
        assert abs(ours - theirs) <= LOSS_TERM * max(1.0, theirs), name

    expected = reference.under(f"grad_norm{suffix}|")
    bound = more * GRADIENTS
    norms = gradient_norms(reference, total)
    assert norms.keys() == expected.keys()
    if far_off(norms, expected, bound):
        with messages_tied_as_in_float32():
            norms = gradient_norms(reference, Trained(reference, noise=suffix != "").losses.total)
    assert not far_off(norms, expected, bound)
    whole = torch.tensor(list(norms.values())).norm().item()
    assert whole == pytest.approx(reference[f"grad_global_norm{suffix}"].item(), rel=bound)
    for name, value in reference.under(f"train_output_logits{suffix}|").items():
        ours = trained.outputs[name]
        is_permutation = value.shape == ours.shape and (ours.diagonal(dim1=-2, dim2=-1) < -1e5).all()
        pair = (off_diagonal(ours), off_diagonal(value)) if is_permutation else (ours, value)
        assert_near(*pair, more * VECTORS, name)
    for name, value in reference.under(f"train_hint_logits{suffix}|").items():
        assert_near(trained.hints[name], value, more * VECTORS, name)


def gradient_norms(reference: Reference, loss: Tensor) -> dict[str, float]:
    """The norm of the gradient of every published parameter."""
    parameters = dict(reference.network.named_parameters())
    made = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
    gradients = dict(zip(parameters, made, strict=True))
    places = published_places(reference.network, modern=True)
    return {name: place.take(gradients[place.parameter]).norm().item() for name, place in places.items()}


def far_off(norms: dict[str, float], expected: dict[str, Tensor], bound: float) -> dict[str, tuple[float, float]]:
    """Norms that are not what they should be, and what they should."""
    pairs = {name: (norm, expected[name].item()) for name, norm in norms.items()}
    return {
        name: (norm, right)
        for name, (norm, right) in pairs.items()
        if norm != pytest.approx(right, rel=bound, abs=NO_GRADIENT)
    }


@every_network
def test_losses_and_gradients_of_training(reference: Reference) -> None:
    check_training(reference, "")


@pytest.mark.parametrize(
    "file",
    [file for file in OF_NETWORKS if "gumbel_noise" in Arrays(file, torch.float64)],
    ids=lambda file: file.stem,
)
def test_losses_and_gradients_of_training_with_noise_on_permutations(reference: Reference) -> None:
    check_training(reference, "_gumbel")


@every_network
def test_hints_that_training_feeds_back(reference: Reference) -> None:
    fed = Trained(reference).fed
    for key, value in reference.under("fed_hint|").items():
        step, name = key.split("|")
        assert_near(fed[int(step)][name].to(value.dtype), value, FED_HINTS, key)


@every_network
def test_what_goes_into_the_first_step_and_comes_out_of_it(reference: Reference) -> None:
    (features, _, adjacency, _), made = predicted(reference)[2][0]
    for name in ("nodes", "edges", "globals"):
        theirs = reference[f"step0|{name.removesuffix('s').replace('global', 'graph')}_fts"]
        assert_near(getattr(features, name), theirs, VECTORS, name)
    expected = reference["step0|adj_mat"]
    assert torch.equal(torch.ones_like(expected) if adjacency is None else adjacency.to(expected.dtype), expected)
    assert_near(made.nodes, reference["step0|new_hidden"], VECTORS, "new_hidden")
    assert (made.edges is not None) == ("step0|tri_msgs" in reference)
    if made.edges is not None:
        assert_near(made.edges, reference["step0|tri_msgs"], VECTORS, "tri_msgs")


@every_network
def test_hidden_states_and_logits_on_own_hints(reference: Reference) -> None:
    carry, hints, calls = predicted(reference)
    more = ROUNDED_MORE.get(reference.algorithm, 1.0)
    hidden = reference["eval_hidden_first3"]
    assert_near(torch.stack([made.nodes for _, made in calls[: len(hidden)]]), hidden, VECTORS, "hidden")
    outputs, expected = logits_of(reference, carry), reference.under("eval_output_logits|")
    assert outputs.keys() == expected.keys()
    permutations = {name for group in reference.network.outputs if group.is_permutation for name in group.names}
    for name, value in expected.items():
        pair = (off_diagonal(outputs[name]), off_diagonal(value)) if name in permutations else (outputs[name], value)
        assert_near(*pair, more * VECTORS, name)
    expected = reference.under("eval_hint_logits|")
    assert hints.keys() == expected.keys()
    for name, value in expected.items():
        assert_near(hints[name], value, more * VECTORS, name)


@every_network
def test_predictions_and_scores(reference: Reference) -> None:
    carry = predicted(reference)[0]
    groups, batch = reference.network.outputs, reference.example_batch()
    ours = unpack(groups, {group.key: decide(group, carry.outputs[group.key]) for group in groups})
    expected = reference.under("eval_pred|")
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(ours[name].to(value.dtype), value), name
    counts = count_all(groups, carry.outputs, batch.outputs)
    scores = reference.under("score|")
    assert mean_score(groups, counts).item() == pytest.approx(scores.pop("score").item(), abs=1e-6)
    assert {name: pytest.approx(value.item(), abs=1e-6) for name, value in score_all(groups, counts).items()} == {
        name: value.item() for name, value in scores.items()
    }
    for name, value in reference.under("eval_pred_soft|").items():
        (group,) = (group for group in groups if name in group.names)
        assert_near(soft_permutation(carry.outputs[group.key]).squeeze(-1), value, FED_HINTS, name)
        is_first = ours[f"{name}_mask"].unsqueeze(-1)
        pointer = point_to_themselves(decide_permutation(carry.outputs[group.key]), is_first).squeeze(-1)
        assert torch.equal(pointer.to(value.dtype), reference[f"eval_pred_pointer|{name}"])


def units(file: Path, what: str) -> list[str]:
    """Names of the units of one kind in a file."""
    arrays = Arrays(file, torch.float64).arrays
    if what == "loss":
        return sorted(
            {"|".join(key.split("|")[:3]) for key in arrays if key.startswith("loss|") and key.count("|") == 3}
        )
    return sorted({key.split("|")[0] for key in arrays if key.startswith(what)})


def every_unit(what: str):
    found = [(file, name) for file in OF_UNITS for name in units(file, what)]
    return pytest.mark.parametrize(("file", "name"), found, ids=lambda value: getattr(value, "stem", value))


@every_unit("sinkhorn")
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_sinkhorn_its_loss_and_its_gradient(file: Path, name: str, mode: str) -> None:
    values = Arrays(file, torch.float64)
    logits = values[f"{name}|logits"].unsqueeze(-1).requires_grad_()
    noisy = logits + values[f"{name}|gumbel_noise"].unsqueeze(-1) if mode == "train" else logits
    ours = log_permutation(noisy).squeeze(-1)
    assert_near(off_diagonal(ours.detach()), off_diagonal(values[f"{name}|{mode}_out"]), VECTORS, "log_permutation")
    group = FeatureGroup(Location.NODE, Type.PERMUTATION_POINTER, None, ("pred",))
    truth = narrow("permutation_pointer", values[f"{name}|permutation"]).unsqueeze(-1)
    loss = output_losses(group, noisy, truth).sum()
    assert loss.item() == pytest.approx(values[f"{name}|{mode}_loss"].item(), rel=LOSS)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert_near(gradient.squeeze(-1), values[f"{name}|{mode}_grad"], 1e-5, "gradient")


@every_unit("sinkhorn")
def test_what_permutations_are_decided_to_be(file: Path, name: str) -> None:
    values = Arrays(file, torch.float64)
    logits = values[f"{name}|logits"].unsqueeze(-1)
    for iterations in (25, 50):
        soft = soft_permutation(logits, iterations=iterations).squeeze(-1)
        expected = values[f"{name}|post{iterations}_soft"]
        assert (soft - expected).abs().max() < FED_HINTS
        hard = torch.nn.functional.one_hot(soft.argmax(-1), soft.shape[-1])
        assert torch.equal(hard.to(expected.dtype), values[f"{name}|post{iterations}_hard"])
    is_first = values[f"{name}|pred_mask"].unsqueeze(-1) == 1
    fused = point_to_themselves(decide_permutation(logits), is_first).squeeze(-1)
    assert torch.equal(fused.double(), values[f"{name}|fused_pointer"])


@pytest.mark.parametrize("what", ["sinkhorn", "cyclic"])
@pytest.mark.parametrize("file", OF_UNITS, ids=lambda file: file.stem)
def test_a_permutation_and_its_first_node_are_the_predecessors(file: Path, what: str) -> None:
    values = Arrays(file, torch.float64)
    for name in units(file, what):
        pointers = values[f"{name}|permutation"].argmax(-1, keepdim=True)
        fused = point_to_themselves(pointers, values[f"{name}|mask"].unsqueeze(-1) == 1).squeeze(-1)
        assert torch.equal(fused.double(), values[f"{name}|predecessors"]), name


def group_and_data(values: Arrays, name: str, *keys: str) -> tuple[FeatureGroup, list[Tensor]]:
    _, location, kind = name.split("|")
    classes = values.arrays[f"{name}|output_truth"].shape[-1] if kind == "categorical" else None
    data = [values[f"{name}|{key}"].unsqueeze(-1) for key in keys]
    return FeatureGroup(Location(location), Type(kind), classes, ("feature",)), data


@every_unit("loss")
def test_every_loss_and_its_gradient(file: Path, name: str) -> None:
    values = Arrays(file, torch.float64)
    keys = ("output_truth", "output_pred", "hint_truth", "hint_pred")
    group, (truth, logits, hints, hint_logits) = group_and_data(values, name, *keys)
    loss = output_losses(group, logits.requires_grad_(), narrow(group.type, truth)).sum()
    assert loss.item() == pytest.approx(values[f"{name}|output_loss"].item(), rel=LOSS)
    assert_near(*grad_pair(loss, logits, values[f"{name}|output_grad"]), GRADIENTS, "output gradient")

    hints, hint_logits = narrow(group.type, hints), hint_logits.requires_grad_()
    steps = torch.arange(len(hint_logits)).unsqueeze(-1)
    is_target = values["loss|lengths"] > steps + 1
    totals = hint_counts(group, hints[1:], is_target)
    losses = [
        hint_losses(group, hint_logits[step], hints[step + 1], is_target[step], totals) for step in range(len(steps))
    ]
    loss = torch.stack(losses).sum()
    assert loss.item() == pytest.approx(values[f"{name}|hint_loss"].item(), rel=LOSS)
    assert_near(*grad_pair(loss, hint_logits, values[f"{name}|hint_grad"]), GRADIENTS, "hint gradient")


def grad_pair(loss: Tensor, logits: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    return torch.autograd.grad(loss, logits)[0].squeeze(-1), expected


@every_unit("loss")
def test_every_post_processing_and_score(file: Path, name: str) -> None:
    values = Arrays(file, torch.float64)
    group, (truth, logits) = group_and_data(values, name, "output_truth", "output_pred")
    soft, hard = soften(group, logits).squeeze(-1), decide(group, logits).squeeze(-1)
    assert (soft - values[f"{name}|post_soft"]).abs().max() < FED_HINTS
    assert torch.equal(hard.double(), values[f"{name}|post_hard"])
    if f"{name}|score" in values:
        ours = score(group, count(group, logits, narrow(group.type, truth)))
        assert ours.item() == pytest.approx(values[f"{name}|score"].item(), abs=1e-6)


@pytest.mark.parametrize("number_of_clip", [0, 1], ids=["every step is clipped", "none is"])
@pytest.mark.parametrize("file", OF_OPTIMISERS, ids=lambda file: file.stem)
def test_three_steps_of_adam(file: Path, number_of_clip: int) -> None:
    suffix, clip = ("", "_clip8")[number_of_clip], FILES[file]["clip"][number_of_clip]
    values = Arrays(file, torch.float64)
    network = Reference(file.parent / FILES[file]["start"], torch.float64).network
    places = published_places(network, modern=True)
    fleet = Fleet([network], torch.device("cpu"))
    adam = Adam(fleet, FILES[file]["learning_rate"], clip=clip)

    def differences(vector: Tensor, prefix: str) -> dict[str, Tensor]:
        """How far a vector like `fleet.values` is off the arrays of this prefix, by name."""
        ours, theirs = fleet.split(vector), values.under(prefix)
        taken = {name: places[name].take(ours[places[name].parameter][0]) for name in theirs}
        return {name: (taken[name].reshape(value.shape) - value).abs() for name, value in theirs.items()}

    for step in range(3):
        batch = values.batch(network, f"batch{step}|")
        forced = torch.zeros(len(batch.hints["node_pointer"]) - 1, len(batch.lengths), dtype=torch.bool)
        vector = fleet.values.detach().requires_grad_()
        parameters = {name: value[0] for name, value in fleet.split(vector).items()}
        loss = torch.func.functional_call(network, parameters, (batch, forced)).total
        (gradient,) = torch.autograd.grad(loss, vector)
        assert loss.item() == pytest.approx(values[f"losses{suffix}_f64"][step].item(), rel=LOSS)
        assert gradient.norm().item() == pytest.approx(values[f"grad_global_norms{suffix}"][step].item(), rel=1e-5)
        adam.step(gradient)
        if step == 0:
            assert max(off.max().item() for off in differences(gradient, "grad0|").values()) < NO_GRADIENT
            for name, off in differences(fleet.values, f"after1{suffix}|").items():
                is_noise = values[f"grad0|{name}"].abs() < 1e-5  # Adam makes whole steps of that, too
                assert (off[~is_noise] < 1e-6).all(), name
    for name, off in differences(fleet.values, f"after3{suffix}_f64|").items():
        assert off.max() < 1e-6, name
