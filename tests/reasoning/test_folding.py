"""Folded encoders: the losses and gradients of the network as it is defined."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.clrs.spec import ALGORITHMS, Spec
from relational_transformer.processors import Settings
from relational_transformer.reasoning import Batch, Network, build_network, gumbel
from relational_transformer.reasoning.features import unpack
from relational_transformer.reasoning.folded_steps import advance, answer, begin, between, conclude, go_on, leave, say
from relational_transformer.reasoning.folding import fold
from relational_transformer.reasoning.hints import HintFeedback
from tests.reasoning.modern import modern_spec

SMALL = Settings(
    hidden_size=12, num_heads=3, num_layers=1, node_hidden_size=8, edge_hidden_sizes=(6, 5), pointers_from_edges=True
)


TRANSFORMER = {"processor": "transformer", "pointers_from_edges": False}


def make(algorithm: str | Spec, hint_feedback: HintFeedback = "paper", **changes: object) -> Network:
    torch.manual_seed(0)
    network = build_network(algorithm, replace(SMALL, **changes), hint_feedback=hint_feedback).double()
    for parameter in network.parameters():  # biases too
        torch.nn.init.normal_(parameter, std=0.3)
    return network


def run_layers(network: Network, nodes: torch.Tensor, edges: torch.Tensor | None):
    """What the layers of a step make of nodes and, where there are any, edges."""
    if edges is None:
        for layer in network.processor.layers:
            nodes = layer(nodes, None)
        return nodes, None
    for layer in network.processor.transformer.layers:
        nodes, edges = layer(nodes, edges)
    return nodes, edges


def folded_loss(network: Network, batch: Batch, teacher_forced: torch.Tensor) -> torch.Tensor:
    steps = network.steps(batch, teacher_forced)
    folded, (carry, nodes, edges) = begin(network, batch.inputs, steps[0].hints)
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        nodes, edges = run_layers(network, nodes, edges)
        if following is None:
            return leave(network, folded, carry, step, batch, nodes, edges)
        carry, nodes, edges = between(network, folded, carry, step, following, nodes, edges)
    raise AssertionError("a batch has at least one step")


def loss_at_the_end(network: Network, batch: Batch, teacher_forced: torch.Tensor) -> torch.Tensor:
    """`folded_loss` as it is computed where nothing is compiled."""
    steps = network.steps(batch, teacher_forced)
    folded, (carry, nodes, edges) = begin(network, batch.inputs, steps[0].hints)
    readings, all_said = carry.readings, []
    for following in steps[1:]:
        nodes, edges = run_layers(network, nodes, edges)
        seen = following if teacher_forced.any() else None
        said, readings, nodes, edges = advance(network, folded, readings, nodes, edges, seen)
        all_said.append(said)
    all_said.append(say(network, folded, readings, *run_layers(network, nodes, edges)))
    return conclude(network, batch, steps, all_said)


def noise_for(batch: Batch) -> torch.Tensor:
    num_steps = max((len(hint) for hint in batch.hints.values()), default=4) - 1
    return torch.rand(num_steps, len(batch.lengths), generator=torch.Generator().manual_seed(0)) < 0.5


def check(network: Network, batch: Batch, *, forces: bool = True) -> None:
    forced = noise_for(batch) if forces else torch.zeros_like(noise_for(batch))
    compiled, uncompiled = folded_loss(network, batch, forced), loss_at_the_end(network, batch, forced)
    expected = network(batch, forced).total
    parameters = dict(network.named_parameters())
    *found, theirs = (
        torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        for loss in (compiled, uncompiled, expected)
    )
    for loss, ours in zip((compiled, uncompiled), found, strict=True):
        torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0.0)
        for name, one, other in zip(parameters, ours, theirs, strict=True):
            assert_same_gradient(name, parameters[name], one, other)


def assert_same_gradient(name: str, parameter: torch.Tensor, *gradients: torch.Tensor | None) -> None:
    ours, theirs = (torch.zeros_like(parameter) if one is None else one for one in gradients)
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10, msg=lambda text: f"{name}: {text}")
    assert torch.equal(ours == 0, theirs == 0) or "encoder" not in name, f"{name}: Adam looks at exact zeros"


def folded_outputs(network: Network, batch: Batch) -> dict[str, torch.Tensor]:
    """What `Network.predict` returns, made by `begin`, `go_on` and `answer`."""
    keeps_output = [(batch.lengths > step + 1) | (step == 0) for step in range(int(batch.lengths.max()) - 1)]
    folded, (carry, nodes, edges) = begin(network, batch.inputs, first_hints(batch))
    for step in range(len(keeps_output)):
        if step > 0:
            carry, nodes, edges = go_on(network, folded, carry, keeps_output[step - 1], nodes, edges)
        nodes, edges = run_layers(network, nodes, edges)
    return unpack(network.outputs, answer(network, folded, carry, keeps_output[-1], nodes, edges))


def first_hints(batch: Batch) -> dict[str, torch.Tensor]:
    return {key: hint[0] for key, hint in batch.hints.items()}


with_and_without_edges = pytest.mark.parametrize("model", [{}, TRANSFORMER], ids=["rt", "transformer"])


@with_and_without_edges
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@torch.no_grad()
def test_on_its_own_hints_every_algorithm_gives_the_outputs_of_its_definition(algorithm, model, examples):
    network = make(algorithm, **model)
    batch = network.pack(*examples(algorithm, batch=3, num_nodes=4, num_steps=4))
    batch = batch._replace(lengths=torch.tensor([4, 2, 3]))
    predicted = network.predict(batch.inputs, first_hints(batch), batch.lengths).outputs
    for name, logits in folded_outputs(network, batch).items():
        torch.testing.assert_close(logits, predicted[name], rtol=1e-9, atol=1e-10)


@with_and_without_edges
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_the_losses_and_gradients_of_its_definition(algorithm, model, examples):
    network = make(algorithm, **model)
    check(network, network.pack(*examples(algorithm, batch=2, num_nodes=4, num_steps=4)))


@with_and_without_edges
@pytest.mark.parametrize("hint_feedback", ["soft", "hard", "hard_on_eval"])
@pytest.mark.parametrize(
    "algorithm", ["dfs", "floyd_warshall", "lcs_length", "graham_scan", "heapsort", "segments_intersect", "bridges"]
)
def test_so_it_is_with_other_ways_of_feeding_hints_back(algorithm, hint_feedback, model, examples):
    network = make(modern_spec(algorithm), hint_feedback, **model)
    batch = network.pack(*examples(modern_spec(algorithm), batch=2, num_nodes=4, num_steps=4))
    shape = network.noise_shape(4)
    if shape is not None:
        noise = gumbel(torch.rand(2, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
        batch = batch._replace(noise=noise)
    check(network, batch)
    check(network, batch, forces=False)
    with torch.no_grad():
        predicted = network.predict(batch.inputs, first_hints(batch), batch.lengths).outputs
        for name, logits in folded_outputs(network, batch).items():
            torch.testing.assert_close(logits, predicted[name], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("algorithm", ["bfs", "dfs", "floyd_warshall"])
@pytest.mark.parametrize(
    "changes",
    [
        *({"global_mode": "core"}, {"hint_mode": "decoded_only"}, {"hint_mode": "none"}),
        *({**TRANSFORMER, "hint_mode": "decoded_only"}, {**TRANSFORMER, "hint_mode": "none"}),
    ],
)
def test_so_it_is_with_a_core_node_and_without_encoded_hints(algorithm, changes, examples):
    network = make(algorithm, **changes)
    check(network, network.pack(*examples(algorithm, batch=2, num_nodes=4, num_steps=3)))


@with_and_without_edges
def test_a_trajectory_of_one_step_begins_and_leaves(model, examples):
    network = make("bfs", **model)
    check(network, network.pack(*examples("bfs", batch=2, num_nodes=4, num_steps=2)))


def test_a_vector_of_the_graph_that_every_layer_reads_cannot_be_folded(examples):
    network = make("bfs", global_mode="att")
    batch = network.pack(*examples("bfs", batch=2, num_nodes=4, num_steps=2))
    with pytest.raises(ValueError, match="att"):
        fold(network, network.encode_inputs(batch.inputs).features)


def test_pointers_that_are_bound_to_their_edges_cannot_be_folded_where_there_are_any(examples):
    network = make("floyd_warshall", edge_pointers="bound")
    batch = network.pack(*examples("floyd_warshall", batch=2, num_nodes=4, num_steps=2))
    with pytest.raises(ValueError, match="edge_pointers='bound' cannot be folded"):
        fold(network, network.encode_inputs(batch.inputs).features)
    for algorithm, changes in (("bfs", {}), ("floyd_warshall", {"hint_mode": "decoded_only"})):
        network = make(algorithm, edge_pointers="bound", **changes)
        check(network, network.pack(*examples(algorithm, batch=2, num_nodes=4, num_steps=3)))
