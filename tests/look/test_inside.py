"""What a page keeps of the inside of a network, against a run of the network of our own."""

import numpy as np
import pytest
import torch

from relational_transformer.clrs import sample
from relational_transformer.clrs.samples.modern import modern_form
from relational_transformer.look.page import make_page
from relational_transformer.nn import record_attention
from relational_transformer.processors import Settings
from tests.look.networks import read_page, untrained

LAYERS, HEADS, NODES = 3, 4, 6


@pytest.mark.parametrize("protocol", ["paper", "modern"])
def test_attention_of_every_layer_and_head_and_lengths_of_edge_vectors_are_those_of_the_network(protocol):
    settings = Settings(hidden_size=16, num_heads=HEADS, num_layers=LAYERS)
    run = untrained("bellman_ford", protocol=protocol, settings=settings)
    page = read_page(make_page("bellman_ford", [run], nodes=(NODES,)))
    data = sample("bellman_ford", 1, NODES, 3)
    data = data if protocol == "paper" else modern_form("bellman_ford", data)
    inputs, hints, outputs = (
        {name: torch.from_numpy(array) for name, array in stage.items()}
        for stage in (data.inputs, data.hints, data.outputs)
    )
    batch = run.network.pack(inputs, hints, outputs, torch.from_numpy(data.lengths))
    edges = []
    hook = run.network.processor.register_forward_hook(lambda *call: edges.append(call[2].edges[0]))
    with torch.no_grad(), record_attention(run.network) as recorded:
        run.network.predict(batch.inputs, {key: hint[0] for key, hint in batch.hints.items()}, batch.lengths)
    hook.remove()

    (shown,) = page.facts["scenes"][0]["runs"]
    attention, norms = page.array(shown["attention"]), page.array(shown["norms"])
    steps = int(data.lengths[0]) - 1
    assert attention.shape == (steps, LAYERS, HEADS, NODES, NODES)
    assert list(recorded) == [f"processor.transformer.layers.{layer}.attention" for layer in range(LAYERS)]
    for layer, calls in enumerate(recorded.values()):
        expected = torch.stack(calls)[:, 0].numpy()  # [T, H, N, N]
        np.testing.assert_allclose(attention[:, layer] / 255, expected, atol=0.5 / 255 + 1e-5)
    low, high = shown["norm_range"]
    lengths = torch.stack(edges).square().sum(-1).sqrt().numpy()
    assert (low, high) == pytest.approx((lengths.min(), lengths.max()))
    np.testing.assert_allclose(low + norms / 255 * (high - low), lengths, atol=(high - low) * 0.51 / 255)
