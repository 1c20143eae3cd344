"""What a network sees of its own hints: decisions or probabilities, with gradients or without."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.utils._pytree import tree_map

from relational_transformer.clrs.spec import ALGORITHMS, Type
from relational_transformer.processors import Settings
from relational_transformer.reasoning import Batch, Network, build_network, gumbel
from relational_transformer.reasoning.hints import HintFeedback
from relational_transformer.reasoning.network import Carry
from tests.reasoning.modern import modern_spec

SMALL = Settings(hidden_size=12, num_heads=3, num_layers=1, node_hidden_size=8, edge_hidden_sizes=(6, 5))
FEEDBACK: tuple[HintFeedback, ...] = ("paper", "soft", "hard", "hard_on_eval")


def make(
    algorithm: str, feedback: HintFeedback = "soft", processor: str = "rt", seed: int = 0, **changes: object
) -> Network:
    torch.manual_seed(seed)
    settings = replace(SMALL, processor=processor, pointers_from_edges=processor == "rt")
    spec = modern_spec(algorithm)
    network = build_network(spec, replace(settings, **changes), hint_feedback=feedback, small_scalar_hints=True)
    return network.double()


def never(batch: Batch) -> Tensor:
    return torch.zeros(len(next(iter(batch.hints.values()))) - 1, len(batch.lengths), dtype=torch.bool)


def with_noise(network: Network, batch: Batch, seed: int = 0) -> Batch:
    shape = network.noise_shape(batch.inputs["node_scalar"].shape[1])
    if shape is None:
        return batch
    generator = torch.Generator().manual_seed(seed)
    return batch._replace(noise=gumbel(torch.rand(len(batch.lengths), *shape, generator=generator)))


def run(network: Network, batch: Batch, *, training: bool) -> Carry:
    inputs = network.encode_inputs(batch.inputs)
    carry = network.initial_carry(inputs)
    for step in network.steps(batch, never(batch)):
        if training:
            carry = network.training_step(inputs, carry, step)
        else:
            carry = network.advance(inputs, carry, step.hints, step.teacher_forced, step.keeps_output)
    return carry


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_trains_and_predicts_on_soft_hints(algorithm: str, examples) -> None:
    network = make(algorithm)
    batch = with_noise(network, network.pack(*examples(modern_spec(algorithm), num_nodes=4, num_steps=4)))
    losses = network(batch, never(batch))
    gradients = torch.autograd.grad(losses.total, list(network.parameters()), materialize_grads=True)
    assert all(gradient.isfinite().all() for gradient in gradients)
    first = {key: hint[0] for key, hint in batch.hints.items()}
    predicted = network.predict(batch.inputs, first, batch.lengths)
    assert all(logits.isfinite().all() for logits in predicted.outputs.values())


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_gradients_flow_back_through_the_hints_that_may_have_them(feedback: HintFeedback, examples) -> None:
    """Hints of step 1 are what step 2 sees: of the last loss of all, nothing else depends on them."""
    network = make("bellman_ford", feedback)
    batch = network.pack(*examples("bellman_ford", num_steps=3))
    inputs = network.encode_inputs(batch.inputs)
    first, second = network.steps(batch, never(batch))
    carry = network.training_step(inputs, network.initial_carry(inputs), first)
    hints = {key: logits.detach().requires_grad_() for key, logits in carry.hints.items()}
    carry = network.training_step(inputs, carry._replace(hints=hints), second)
    gradients = torch.autograd.grad(
        network.losses(batch, carry).total, list(hints.values()), allow_unused=True, materialize_grads=True
    )
    found = {key for key, gradient in zip(hints, gradients, strict=True) if gradient.any()}
    all_hints = {"node_scalar", "node_mask", "node_pointer"}
    expected = {"paper": {"node_scalar"}, "soft": all_hints, "hard": set(), "hard_on_eval": all_hints}
    assert found == expected[feedback]
    assert found == {group.key for group in network.hints if network.learns_through(group)}


def test_hard_on_eval_trains_as_soft_and_predicts_as_hard(examples) -> None:
    networks = {feedback: make("dfs", feedback) for feedback in FEEDBACK}
    batch = networks["soft"].pack(*examples("dfs"))

    def outputs(feedback: HintFeedback, training: bool) -> Tensor:
        return run(networks[feedback], batch, training=training).outputs["node_pointer"]

    assert torch.equal(outputs("hard_on_eval", True), outputs("soft", True))
    assert torch.equal(outputs("hard_on_eval", False), outputs("hard", False))
    assert torch.equal(outputs("paper", False), outputs("hard", False))  # they differ in gradients alone
    assert not torch.equal(outputs("soft", True), outputs("hard", True))


def test_soft_hints_of_great_certainty_are_decisions(examples) -> None:
    soft, hard = make("dfs", "soft"), make("dfs", "hard")
    batch = soft.pack(*examples("dfs"))
    inputs = soft.encode_inputs(batch.inputs)
    step = soft.steps(batch, never(batch))[1]
    carry = run(soft, batch, training=False)
    certain = {key: logits if key.endswith(Type.SCALAR) else 1e6 * logits for key, logits in carry.hints.items()}
    ours, theirs = (
        network.training_step(inputs, carry._replace(hints=certain), step).outputs for network in (soft, hard)
    )
    for key, logits in ours.items():
        torch.testing.assert_close(logits, theirs[key])


@pytest.mark.parametrize("processor", ["rt", "triplet_gmpnn", "pgn"])
@pytest.mark.parametrize("algorithm", ["insertion_sort", "floyd_warshall", "dfs"])
def test_a_fleet_has_the_losses_and_gradients_of_each_of_its_networks(algorithm: str, processor: str, examples) -> None:
    networks = [make(algorithm, processor=processor, seed=seed) for seed in range(2)]
    drawn = (examples(modern_spec(algorithm), num_nodes=4, seed=seed) for seed in range(2))
    batches = [with_noise(networks[0], networks[0].pack(*one), seed) for seed, one in enumerate(drawn)]
    has_noise = batches[0].noise is not None
    assert has_noise == (algorithm == "insertion_sort")
    fields = [(*batch[:4], *((batch.noise,) if has_noise else ())) for batch in batches]
    stacked = tree_map(lambda *parts: torch.stack(parts), *fields)
    parameters, buffers = stack_module_state(networks)

    def loss(parameters: dict, buffers: dict, fields: tuple) -> Tensor:
        batch = Batch(*fields[:4], None, *fields[4:])
        return functional_call(networks[0], (parameters, buffers), (batch, never(batch))).total

    together = vmap(loss)(parameters, buffers, stacked)
    gradients = torch.autograd.grad(together.sum(), list(parameters.values()), materialize_grads=True)
    for index, (network, batch) in enumerate(zip(networks, batches, strict=True)):
        alone = network(batch, never(batch)).total
        torch.testing.assert_close(together[index], alone, rtol=1e-12, atol=0)
        expected = torch.autograd.grad(alone, list(network.parameters()), materialize_grads=True)
        for name, ours, theirs in zip(parameters, gradients, expected, strict=True):
            torch.testing.assert_close(ours[index], theirs, msg=lambda text, name=name: f"{name}: {text}")


def pad(features: dict[str, Tensor], num_nodes: int, more: int, leading: int) -> dict[str, Tensor]:
    """Features with `more` nodes that are not there, all zero."""
    padded = {}
    for name, value in features.items():
        added = [more * (size == num_nodes and axis >= leading) for axis, size in enumerate(value.shape)]
        sizes = [size + extra for size, extra in zip(value.shape, added, strict=True)]
        padded[name] = value.new_zeros(sizes)
        padded[name][tuple(slice(size) for size in value.shape)] = value
    return padded


@pytest.mark.parametrize("processor", ["rt", "triplet_gmpnn", "pgn"])
@pytest.mark.parametrize("algorithm", ["insertion_sort", "floyd_warshall", "articulation_points"])
def test_nodes_that_are_not_there_change_no_loss(algorithm: str, processor: str, examples) -> None:
    network = make(algorithm, processor=processor)
    drawn = examples(modern_spec(algorithm), num_nodes=6)
    plain = with_noise(network, network.pack(*drawn))
    inputs, hints, outputs = (
        pad(features, 6, 3, leading) for features, leading in zip(drawn[:3], (1, 2, 1), strict=True)
    )
    padded = network.pack(inputs, hints, outputs, drawn.lengths, (torch.arange(9) < 6).expand(3, 9))
    if plain.noise is not None:
        padded = padded._replace(noise=torch.nn.functional.pad(plain.noise, (0, 0, 0, 3, 0, 3), value=7.0))
    torch.testing.assert_close(network(padded, never(padded)).total, network(plain, never(plain)).total)


@pytest.mark.parametrize("processor", ["rt", "triplet_gmpnn"])
def test_runs_in_half_precision_with_losses_in_single(processor: str, examples) -> None:
    for algorithm in ("dijkstra", "heapsort"):
        network = make(algorithm, processor=processor).float()
        batch = with_noise(network, network.pack(*examples(modern_spec(algorithm))))
        expected = network(batch, never(batch)).total
        network.activation_dtype = torch.bfloat16
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = network(batch, never(batch)).total
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, expected, rtol=0.1, atol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo looks at all inputs
@pytest.mark.parametrize(
    ("algorithm", "processor"), [("dfs", "rt"), ("quicksort", "triplet_gmpnn"), ("floyd_warshall", "triplet_gmpnn")]
)
def test_a_compiled_step_has_the_same_loss_and_gradients(algorithm: str, processor: str, examples) -> None:
    torch.compiler.reset()  # the compiler counts versions of a method over all tests of a process
    network = make(algorithm, processor=processor)
    batch = with_noise(network, network.pack(*examples(modern_spec(algorithm))))
    compiled, loss_of = (
        torch.compile(method, fullgraph=True, backend="aot_eager") for method in (network.training_step, network.loss)
    )
    inputs = network.encode_inputs(batch.inputs)
    carry = network.initial_carry(inputs)
    for step in network.steps(batch, never(batch)):
        carry = compiled(inputs, carry, step)
    losses = loss_of(batch, carry), network(batch, never(batch)).total
    torch.testing.assert_close(*losses)
    gradients = [torch.autograd.grad(loss, list(network.parameters()), materialize_grads=True) for loss in losses]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_noise_must_fit(examples) -> None:
    network = make("insertion_sort")
    batch = with_noise(network, network.pack(*examples(modern_spec("insertion_sort"))))
    assert batch.noise is not None
    assert network(batch, never(batch)).total != network(batch._replace(noise=None), never(batch)).total
    with pytest.raises(ValueError, match=r"noise must be floating-point numbers \[3, 5, 5, 1\], got .*\[3, 4, 5, 1\]"):
        network(batch._replace(noise=batch.noise[:, :4]), never(batch))
    other = make("bfs")
    batch = other.pack(*examples("bfs"))._replace(noise=batch.noise)
    with pytest.raises(ValueError, match="this network decodes none: leave it out"):
        other(batch, never(batch))


def test_an_unknown_feedback_is_refused() -> None:
    with pytest.raises(ValueError, match="hint_feedback must be one of paper, soft, hard, hard_on_eval, got 'softly'"):
        build_network("bfs", SMALL, hint_feedback="softly")  # pyright: ignore[reportArgumentType]
