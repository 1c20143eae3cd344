"""The network as a whole: every algorithm with every processor, padding, batching, precision, vmap and compilation."""

import gc
import resource
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.utils._pytree import tree_map

from relational_transformer.clrs.spec import ALGORITHMS
from relational_transformer.processors import PROCESSORS, Settings
from relational_transformer.reasoning import Batch, Network, build_network

SMALL = Settings(hidden_size=12, num_heads=3, num_layers=2, node_hidden_size=8, edge_hidden_sizes=(6, 5))


def make(algorithm: str, processor: str = "rt", seed: int = 0, **changes: object) -> Network:
    torch.manual_seed(seed)
    settings = replace(SMALL, processor=processor, pointers_from_edges=processor == "rt")
    return build_network(algorithm, replace(settings, **changes))


def noise_for(batch: Batch, seed: int = 0) -> Tensor:
    num_steps = next(iter(batch.hints.values())).shape[0] - 1
    return torch.rand(num_steps, len(batch.lengths), generator=torch.Generator().manual_seed(seed)) < 0.5


def predict(network: Network, batch: Batch, **options: object) -> dict[str, Tensor]:
    first_hints = {key: hint[0] for key, hint in batch.hints.items()}
    with torch.no_grad():
        return network.predict(batch.inputs, first_hints, batch.lengths, batch.node_mask, **options).outputs


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_trains_and_predicts_with_every_processor(algorithm: str, processor: str, examples) -> None:
    network = make(algorithm, processor, num_layers=1)
    drawn = examples(algorithm, batch=3, num_nodes=4, num_steps=4)
    batch = network.pack(*drawn)
    losses = network(batch, noise_for(batch))
    assert losses.by_feature.keys() == drawn.outputs.keys() | drawn.hints.keys()
    torch.testing.assert_close(torch.stack(list(losses.by_feature.values())).sum(), losses.total)
    losses.total.backward()
    for name, parameter in network.named_parameters():
        if parameter.grad is None:  # messages to edges are made for decoders alone, and here none reads them
            assert name.startswith("processor.triplets."), name
            assert "edges" not in network.decoders.readouts, name
        else:
            assert parameter.grad.isfinite().all(), name
    predicted = predict(network, batch)
    for name, truth in drawn.outputs.items():
        assert predicted[name].isfinite().all()
        assert predicted[name].shape[: truth.dim()] == truth.shape


@pytest.mark.parametrize(("pointers_from_edges", "sees_nodes"), [(True, False), (False, True)])
def test_edges_that_no_layer_updates_never_hear_of_the_nodes(pointers_from_edges, sees_nodes, examples) -> None:
    """So pointers read off such edges alone would be blind: without edge updates they are decoded as in CLRS-30."""
    network = make("bfs", "rt", update_edges=False, pointers_from_edges=pointers_from_edges)
    drawn = examples("bfs", num_steps=3)
    moved = {**drawn.inputs, "s": drawn.inputs["s"].roll(1, dims=-1)}  # a scalar of nodes: where the search begins
    outputs = [predict(network, network.pack(given, *drawn[1:]))["pi"] for given in (drawn.inputs, moved)]
    assert torch.equal(*outputs) != sees_nodes


@pytest.mark.parametrize("processor", ["rt", "mpnn", "pgn_masked"])
@pytest.mark.parametrize("algorithm", ["dfs", "matrix_chain_order", "lcs_length"])
def test_steps_beyond_the_longest_example_change_nothing(algorithm: str, processor: str, examples) -> None:
    network = make(algorithm, processor).double()
    drawn = examples(algorithm, num_steps=4)
    longer = {name: torch.cat([hint, hint[:3]]) for name, hint in drawn.hints.items()}
    short, padded = network.pack(*drawn), network.pack(drawn.inputs, longer, drawn.outputs, drawn.lengths)
    noise = noise_for(padded)
    losses = [network(batch, noise[: len(noise) - cut]).total for batch, cut in ((short, 3), (padded, 0))]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad(loss, list(network.parameters())) for loss in losses]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(
        predict(network, short).values(), predict(network, padded, num_steps=6).values(), strict=True
    ):
        torch.testing.assert_close(theirs, ours)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("algorithm", ["bridges", "kmp_matcher", "optimal_bst"])
def test_an_example_is_predicted_the_same_in_any_batch(algorithm: str, processor: str, examples) -> None:
    network = make(algorithm, processor).double()
    drawn = examples(algorithm, batch=4, num_steps=5)
    together = predict(network, network.pack(*drawn))
    for index in range(4):
        only = slice(index, index + 1)
        alone = network.pack(
            {name: value[only] for name, value in drawn.inputs.items()},
            {name: value[:, only] for name, value in drawn.hints.items()},
            {name: value[only] for name, value in drawn.outputs.items()},
            drawn.lengths[only],
        )
        for name, logits in predict(network, alone).items():
            torch.testing.assert_close(together[name][only], logits)


def _pad_nodes(features: dict[str, Tensor], num_nodes: int, more: int, leading: int) -> dict[str, Tensor]:
    """Features with `more` nodes that are not there, holding noise."""
    padded = {}
    for name, value in features.items():
        shape = [
            size + more if axis >= leading and size == num_nodes else size for axis, size in enumerate(value.shape)
        ]
        noise = torch.randint(0, 2, shape, dtype=torch.int64).to(value.dtype)
        noise[tuple(slice(size) for size in value.shape)] = value
        padded[name] = noise
    return padded


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("algorithm", ["bellman_ford", "articulation_points", "floyd_warshall", "heapsort"])
def test_nodes_that_are_not_there_change_no_prediction_and_no_loss(algorithm: str, processor: str, examples) -> None:
    network = make(algorithm, processor).double()
    drawn = examples(algorithm, num_nodes=6, num_steps=4)
    plain = network.pack(*drawn)
    inputs, outputs = (_pad_nodes(features, 6, 3, leading=1) for features in (drawn.inputs, drawn.outputs))
    for mask_one in [name for name in (*drawn.inputs, *drawn.outputs) if name in ("s",)]:
        inputs[mask_one][:, 6:] = 0
    hints = _pad_nodes(drawn.hints, 6, 3, leading=2)
    for group in network.hints:
        for name in group.names if group.type == "mask_one" else ():
            hints[name][:, :, 6:] = 0
    padded = network.pack(inputs, hints, outputs, drawn.lengths, (torch.arange(9) < 6).expand(3, 9))

    expected = predict(network, plain)
    for name, logits in predict(network, padded).items():
        cut = tuple(slice(size) for size in expected[name].shape)
        torch.testing.assert_close(logits[cut], expected[name])
    noise = noise_for(plain)
    torch.testing.assert_close(network(padded, noise).total, network(plain, noise).total)


@pytest.mark.parametrize("hint_mode", ["encoded_decoded", "decoded_only", "none"])
@pytest.mark.parametrize("processor", ["rt", "pgn_masked"])
def test_hints_may_be_left_out(hint_mode: str, processor: str, examples) -> None:
    network = make("bfs", processor, hint_mode=hint_mode)
    drawn = examples("bfs", num_steps=4)
    batch = network.pack(*drawn)
    losses = network(batch, torch.ones(3, 3, dtype=torch.bool))
    expected = {"pi"} if hint_mode == "none" else {"pi", "pi_h", "reach_h"}
    assert set(losses.by_feature) == expected
    other = network.pack(drawn.inputs, examples("bfs", num_steps=4, seed=1).hints, drawn.outputs, drawn.lengths)
    changed = network(other, torch.ones(3, 3, dtype=torch.bool))
    # The output depends on hints only where they are fed in.
    assert torch.equal(changed.by_feature["pi"], losses.by_feature["pi"]) == (hint_mode != "encoded_decoded")


def test_teacher_forcing_is_per_example_and_step(examples) -> None:
    network = make("bellman_ford").double()
    batch = network.pack(*examples("bellman_ford", batch=2, num_steps=5)._replace(lengths=torch.tensor([5, 5])))
    base = torch.zeros(4, 2, dtype=torch.bool)
    losses = set()
    for step in range(4):
        for example in range(2):
            noise = base.clone()
            noise[step, example] = True
            losses.add(round(network(batch, noise).total.item(), 10))
    # Step 0 is always taught; the six other choices all differ, from each other and from no teaching.
    assert round(network(batch, base).total.item(), 10) in losses
    assert len(losses) == 7


@pytest.mark.parametrize("algorithm", ["bellman_ford", "segments_intersect", "floyd_warshall", "graham_scan"])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_stacked_networks_give_the_losses_and_gradients_of_each(algorithm: str, processor: str, examples) -> None:
    networks = [make(algorithm, processor, seed=seed, num_layers=1).double() for seed in range(2)]
    batches = [networks[0].pack(*examples(algorithm, num_nodes=4, seed=seed)) for seed in range(2)]
    noises = torch.stack([noise_for(batch, seed) for seed, batch in enumerate(batches)])
    stacked = tree_map(lambda *parts: torch.stack(parts), *(tuple(batch[:4]) for batch in batches))  # no node mask
    parameters, buffers = stack_module_state(networks)

    def loss(parameters: dict, buffers: dict, fields: tuple, noise: Tensor) -> Tensor:
        return functional_call(networks[0], (parameters, buffers), (Batch(*fields), noise)).total

    together = vmap(loss)(parameters, buffers, stacked, noises)
    gradients = torch.autograd.grad(together.sum(), list(parameters.values()), materialize_grads=True)
    for index, (network, batch) in enumerate(zip(networks, batches, strict=True)):
        alone = network(batch, noises[index]).total
        torch.testing.assert_close(together[index], alone)
        expected = torch.autograd.grad(alone, list(network.parameters()), materialize_grads=True)
        for name, ours, theirs in zip(parameters, gradients, expected, strict=True):
            torch.testing.assert_close(ours[index], theirs, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("processor", ["rt", "mpnn", "gatv2", "pgn_masked"])
def test_runs_under_autocast_with_losses_in_single_precision(processor: str, examples) -> None:
    network = make("dijkstra", processor)
    batch = network.pack(*examples("dijkstra"))
    noise = torch.ones_like(noise_for(batch))
    expected = network(batch, noise).total
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = network(batch, noise).total
        network.activation_dtype = torch.bfloat16
        kept_in_half = network(batch, noise).total
    for half in (loss, kept_in_half):
        assert half.dtype == torch.float32
        half.backward()
        torch.testing.assert_close(half, expected, rtol=0.05, atol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo looks at all inputs
@pytest.mark.parametrize(("algorithm", "processor"), [("bellman_ford", "rt"), ("mst_kruskal", "pgn_masked")])
def test_a_compiled_step_gives_the_same_loss_and_gradients(algorithm: str, processor: str, examples) -> None:
    network = make(algorithm, processor, num_layers=1).double()
    batch = network.pack(*examples(algorithm))
    noise = noise_for(batch)
    # Graph capture is what may break; the code generator behind it is PyTorch's own and slow on a CPU.
    compiled = torch.compile(network.training_step, fullgraph=True, backend="aot_eager")
    inputs = network.encode_inputs(batch.inputs)
    carry = network.initial_carry(inputs)
    for step in network.steps(batch, noise):
        carry = compiled(inputs, carry, step)
    ours, theirs = network.losses(batch, carry).total, network(batch, noise).total
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(loss, list(network.parameters())) for loss in (ours, theirs)]
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right)


def _held_bytes() -> int:
    """Bytes of all tensors that are alive, but of those without a storage that other tests may have left behind: sparse
    tensors, and those that compilers wrap."""
    gc.collect()
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in gc.get_objects()
        if type(tensor) is Tensor and not is_functorch_wrapped_tensor(tensor) and tensor.layout == torch.strided
    }
    return sum(storages.values())


def test_evaluation_holds_no_more_after_many_steps_than_after_few(examples, monkeypatch) -> None:
    network = make("bubble_sort")
    batch = network.pack(*examples("bubble_sort", num_nodes=8, num_steps=2))
    held: list[int] = []
    advance = network.advance

    def watched(*arguments: object) -> object:
        held.append(_held_bytes() if len(held) in (5, 40) else 0)
        return advance(*arguments)

    monkeypatch.setattr(network, "advance", watched)
    predict(network, batch, num_steps=41)
    assert held[5] >= held[40] > 0  # what others have left in this process may be freed meanwhile


@pytest.mark.slow
def test_the_longest_test_trajectory_runs_in_bounded_memory(examples) -> None:
    network = make("bubble_sort", hidden_size=24)
    batch = network.pack(*examples("bubble_sort", batch=1, num_nodes=64, num_steps=2))
    predict(network, batch, num_steps=20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes
    predict(network, batch, num_steps=2017)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # One step's edge vectors are 64 x 64 x 24 x 4 bytes = 384 kilobytes; 2,017 of them would be 757 megabytes.
    assert grown < 50_000


@pytest.mark.parametrize("num_nodes", [2, 7, 16])
def test_one_network_serves_graphs_of_any_size(num_nodes: int, examples) -> None:
    network = make("floyd_warshall")
    batch = network.pack(*examples("floyd_warshall", num_nodes=num_nodes, num_steps=3))
    assert predict(network, batch)["Pi"].shape == (3, num_nodes, num_nodes, num_nodes)


def test_an_unknown_algorithm_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"there is no algorithm 'bsf'; the algorithms are .*bfs"):
        build_network("bsf", SMALL)


def test_an_unknown_hint_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="hint_mode must be one of encoded_decoded, decoded_only, none, got 'some'"):
        make("bfs", hint_mode="some")
