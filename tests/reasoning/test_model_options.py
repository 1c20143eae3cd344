"""What holds of every optional part of a model, on every kind of feature that it reads."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.utils._pytree import tree_map

from relational_transformer.clrs.spec import Location, Spec, Type
from relational_transformer.processors import Settings
from relational_transformer.reasoning import Batch, build_network
from tests.reasoning.conftest import Examples, draw_examples
from tests.reasoning.modern import modern_spec
from tests.reasoning.test_feedback import make, never, pad, with_noise

OPTIONS: list[dict[str, Any]] = [{"edge_pointers": "bound"}]
ALGORITHMS = ["floyd_warshall", "matrix_chain_order", "optimal_bst", "insertion_sort"]

every_option = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: "-".join(map(str, option.values())))
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def first_hints(batch: Batch) -> dict[str, Tensor]:
    return {key: hint[0] for key, hint in batch.hints.items()}


def relabelled(features: dict[str, Tensor], spec: Spec, order: Tensor, leading: int) -> dict[str, Tensor]:
    """Features of the same graphs, whose node number n was number `order[n]`."""
    found = {}
    for name, value in features.items():
        feature = spec[name]
        axes = {Location.GRAPH: 0, Location.NODE: 1, Location.EDGE: 2}[feature.location]
        axes += feature.type == Type.PERMUTATION_POINTER
        for axis in range(leading, leading + axes):
            value = value.index_select(axis, order)
        found[name] = order.argsort()[value.long()].to(value.dtype) if feature.type == Type.POINTER else value
    return found


@every_option
@every_algorithm
@pytest.mark.parametrize("feedback", ["soft", "paper"])
def test_nodes_in_another_order_give_the_same_answers_in_that_order(algorithm, option, feedback):
    spec = modern_spec(algorithm)
    network = make(algorithm, feedback, **option)
    drawn = draw_examples(spec, num_nodes=5)
    order = torch.tensor([3, 0, 4, 1, 2])
    other = Examples(
        relabelled(drawn.inputs, spec, order, 1),
        relabelled(drawn.hints, spec, order, 2),
        relabelled(drawn.outputs, spec, order, 1),
        drawn.lengths,
    )
    batches = [network.pack(*one) for one in (drawn, other)]
    torch.testing.assert_close(*(network(batch, never(batch)).total for batch in batches))
    answers = [network.predict(batch.inputs, first_hints(batch), batch.lengths).outputs for batch in batches]
    for name, logits in answers[0].items():
        for axis in range(1, logits.dim()):
            logits = logits.index_select(axis, order)
        torch.testing.assert_close(answers[1][name], logits)


@every_option
@every_algorithm
@pytest.mark.parametrize("hole", [torch.nan, 0.0])
def test_nodes_that_are_not_there_change_no_loss_and_no_gradient(algorithm, option, hole):
    network = make(algorithm, **option)
    drawn = draw_examples(modern_spec(algorithm), num_nodes=6)
    plain = with_noise(network, network.pack(*drawn))
    stages = [pad(features, 6, 3, leading) for features, leading in zip(drawn[:3], (1, 2, 1), strict=True)]
    for features, padded, leading in zip(drawn[:3], stages, (1, 2, 1), strict=True):
        for name, value in features.items():
            if value.is_floating_point() and value.dim() > leading:
                empty = torch.full_like(padded[name], hole)
                empty[tuple(map(slice, value.shape))] = value
                padded[name] = empty
    padded = network.pack(*stages, drawn.lengths, (torch.arange(9) < 6).expand(3, 9))
    if plain.noise is not None:
        padded = padded._replace(noise=torch.nn.functional.pad(plain.noise, (0, 0, 0, 3, 0, 3), value=7.0))
    losses = [network(batch, never(batch)).total for batch in (padded, plain)]
    torch.testing.assert_close(*losses)
    weights = list(network.parameters())
    gradients = [torch.autograd.grad(loss, weights, materialize_grads=True) for loss in losses]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@every_option
@every_algorithm
def test_gradients_are_those_of_finite_differences(algorithm, option):
    network = make(algorithm, **option)
    batch = with_noise(network, network.pack(*draw_examples(modern_spec(algorithm), num_nodes=4)))
    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
    directions = {name: torch.randn_like(parameter) for name, parameter in parameters.items()}

    def loss(distance: float) -> Tensor:
        moved = {name: parameter + distance * directions[name] for name, parameter in parameters.items()}
        return functional_call(network, moved, (batch, never(batch))).total

    gradients = torch.autograd.grad(
        network(batch, never(batch)).total, list(network.parameters()), materialize_grads=True
    )
    slope = sum((one * other).sum() for one, other in zip(gradients, directions.values(), strict=True))
    step = 1e-6
    with torch.no_grad():
        torch.testing.assert_close((loss(step) - loss(-step)) / (2 * step), slope, rtol=1e-5, atol=1e-6)


@every_option
@every_algorithm
def test_a_fleet_has_the_losses_and_gradients_of_each_of_its_networks(algorithm, option):
    networks = [make(algorithm, seed=seed, **option) for seed in range(2)]
    drawn = (draw_examples(modern_spec(algorithm), num_nodes=4, seed=seed) for seed in range(2))
    batches = [networks[0].pack(*one) for one in drawn]
    stacked = tree_map(lambda *parts: torch.stack(parts), *(tuple(batch[:4]) for batch in batches))
    parameters, buffers = stack_module_state(networks)

    def loss(parameters: dict, buffers: dict, fields: tuple) -> Tensor:
        batch = Batch(*fields)
        return functional_call(networks[0], (parameters, buffers), (batch, never(batch))).total

    together = vmap(loss)(parameters, buffers, stacked)
    gradients = torch.autograd.grad(together.sum(), list(parameters.values()), materialize_grads=True)
    for index, (network, batch) in enumerate(zip(networks, batches, strict=True)):
        alone = network(batch, never(batch)).total
        torch.testing.assert_close(together[index], alone, rtol=1e-12, atol=0)
        expected = torch.autograd.grad(alone, list(network.parameters()), materialize_grads=True)
        for name, ours, theirs in zip(parameters, gradients, expected, strict=True):
            torch.testing.assert_close(ours[index], theirs, msg=lambda text, name=name: f"{name}: {text}")


@every_option
def test_runs_in_half_precision_with_losses_in_single(option):
    network = make("floyd_warshall", **option).float()
    batch = network.pack(*draw_examples(modern_spec("floyd_warshall")))
    expected = network(batch, never(batch)).total
    network.activation_dtype = torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = network(batch, never(batch)).total
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.1, atol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo looks at all inputs
@every_option
def test_a_compiled_step_has_the_same_loss_and_gradients(option):
    torch.compiler.reset()  # the compiler counts versions of a method over all tests of a process
    network = make("floyd_warshall", **option)
    batch = network.pack(*draw_examples(modern_spec("floyd_warshall")))
    compiled = torch.compile(network.training_step, fullgraph=True, backend="aot_eager")
    inputs = network.encode_inputs(batch.inputs)
    carry = network.initial_carry(inputs)
    for step in network.steps(batch, never(batch)):
        carry = compiled(inputs, carry, step)
    losses = network.loss(batch, carry), network(batch, never(batch)).total
    torch.testing.assert_close(*losses)
    gradients = [torch.autograd.grad(loss, list(network.parameters()), materialize_grads=True) for loss in losses]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@every_option
@pytest.mark.parametrize("hint_mode", ["decoded_only", "none"])
def test_hints_may_be_left_out(option, hint_mode):
    network = make("floyd_warshall", hint_mode=hint_mode, **option)
    batch = network.pack(*draw_examples(modern_spec("floyd_warshall")))
    losses = network(batch, torch.zeros(3, 3, dtype=torch.bool))
    gradients = torch.autograd.grad(losses.total, list(network.parameters()), allow_unused=True)
    without = [name for (name, _), one in zip(network.named_parameters(), gradients, strict=True) if one is None]
    assert without == []


def test_the_published_model_has_none_of_them():
    parameters = dict(build_network("floyd_warshall", Settings()).named_parameters())
    for option in OPTIONS:
        other = dict(build_network("floyd_warshall", Settings(**option)).named_parameters())
        assert {name: one.shape for name, one in other.items()} != {name: one.shape for name, one in parameters.items()}
