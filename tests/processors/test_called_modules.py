"""In every processor a Linear or LayerNorm with a hook is called."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from relational_transformer.nn.plain import is_plain, is_plain_inside
from relational_transformer.processors import PROCESSORS, GraphState, build_processor, find_settings
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.processors.transformer import Transformer

SIZE, NODES = 8, 5


class Named(RelationalProcessor):
    """A subclass that computes what its base does."""


class Doubled(RelationalProcessor):
    def forward(self, features, hidden, adjacency, node_mask=None):
        state = super().forward(features, hidden, adjacency, node_mask)
        return state._replace(nodes=2 * state.nodes)


@pytest.mark.parametrize("name", PROCESSORS)
def test_every_module_is_called_and_values_stay(name: str):
    torch.manual_seed(0)
    processor = build_processor(replace(find_settings(name), hidden_size=SIZE, num_heads=2, num_layers=2)).double()
    for parameter in processor.parameters():
        nn.init.normal_(parameter)
    features = GraphState(torch.randn(2, NODES, SIZE), torch.randn(2, NODES, NODES, SIZE), torch.randn(2, SIZE))
    hidden = GraphState(torch.randn(2, NODES, SIZE), torch.randn(2, NODES, NODES, SIZE) if name == "rt" else None)
    features, hidden = (
        GraphState(*(part if part is None else part.double() for part in s)) for s in (features, hidden)
    )
    adjacency = (torch.rand(2, NODES, NODES) < 0.5) | torch.eye(NODES, dtype=torch.bool)
    expected = processor(features, hidden, adjacency).nodes
    leaves = {name: part for name, part in processor.named_modules() if isinstance(part, nn.Linear | nn.LayerNorm)}
    called = set()
    for part_name, part in leaves.items():
        part.register_forward_hook(lambda *_, name=part_name: called.add(name))
    torch.testing.assert_close(processor(features, hidden, adjacency).nodes, expected, rtol=1e-9, atol=1e-9)
    assert called == leaves.keys()


def test_kernels_may_stand_in_for_a_subclass_unless_it_has_a_forward_of_its_own():
    settings = replace(find_settings("rt"), hidden_size=SIZE, num_heads=2)
    for kind in (RelationalProcessor, Transformer, Named):
        processor = kind.from_settings(settings)
        assert is_plain(processor)
        assert is_plain_inside(processor)
    assert not is_plain(Doubled.from_settings(settings))
