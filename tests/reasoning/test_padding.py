"""What absent nodes and ended examples hold reaches no loss and no gradient, were it NaN."""

import pytest
import torch
from torch import Tensor

from tests.reasoning.conftest import draw_examples
from tests.reasoning.modern import modern_spec
from tests.reasoning.test_feedback import make, never, with_noise

NODES, MORE = 6, 3
HOLES = [torch.nan, torch.inf]


def pad(features: dict[str, Tensor], hole: float, leading: int) -> dict[str, Tensor]:
    """Features with `MORE` nodes that are not there; their numbers are `hole`, what is no number is 0."""
    padded = {}
    for name, value in features.items():
        shape = [size + MORE * (axis >= leading and size == NODES) for axis, size in enumerate(value.shape)]
        padded[name] = value.new_full(shape, hole if value.is_floating_point() else 0)
        padded[name][tuple(map(slice, value.shape))] = value
    return padded


def assert_same(losses: list[Tensor], network: torch.nn.Module) -> None:
    torch.testing.assert_close(*losses)
    weights = list(network.parameters())
    gradients = [torch.autograd.grad(loss, weights, materialize_grads=True) for loss in losses]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("hole", HOLES)
@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize("processor", ["rt", "triplet_gmpnn", "pgn"])
@pytest.mark.parametrize("algorithm", ["insertion_sort", "floyd_warshall", "segments_intersect"])
def test_of_absent_nodes(algorithm: str, processor: str, is_forced: bool, hole: float):
    network = make(algorithm, processor=processor)
    drawn = draw_examples(modern_spec(algorithm), num_nodes=NODES)
    plain = with_noise(network, network.pack(*drawn))
    stages = (pad(features, hole, leading) for features, leading in zip(drawn[:3], (1, 2, 1), strict=True))
    padded = network.pack(*stages, drawn.lengths, (torch.arange(NODES + MORE) < NODES).expand(3, -1))
    if plain.noise is not None:
        noise = torch.nn.functional.pad(plain.noise, (0, 0, 0, MORE, 0, MORE), value=hole)
        padded = padded._replace(noise=noise)
    forced = torch.full_like(never(plain), is_forced)
    assert_same([network(batch, forced).total for batch in (padded, plain)], network)
    first = [{key: hint[0] for key, hint in batch.hints.items()} for batch in (padded, plain)]
    found = network.predict(padded.inputs, first[0], drawn.lengths, padded.node_mask).outputs
    for name, logits in network.predict(plain.inputs, first[1], drawn.lengths).outputs.items():
        torch.testing.assert_close(found[name][tuple(map(slice, logits.shape))], logits)


@pytest.mark.parametrize("hole", HOLES)
@pytest.mark.parametrize("algorithm", ["floyd_warshall", "dijkstra"])
def test_of_ended_examples(algorithm: str, hole: float):
    network = make(algorithm)
    drawn = draw_examples(modern_spec(algorithm), num_steps=5)
    lengths = torch.tensor([3, 5, 2])
    ended = torch.arange(5).unsqueeze(-1) >= lengths
    hints = {
        name: hint.masked_fill(ended.reshape(5, 3, *(1,) * (hint.dim() - 2)), hole if hint.is_floating_point() else 0)
        for name, hint in drawn.hints.items()
    }
    assert any(hint.isnan().any() or hint.isinf().any() for hint in hints.values())
    batches = [network.pack(drawn.inputs, values, drawn.outputs, lengths) for values in (hints, drawn.hints)]
    assert_same([network(batch, torch.ones(4, 3, dtype=torch.bool)).total for batch in batches], network)
