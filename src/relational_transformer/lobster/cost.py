"""The cost of a run on lobster graphs."""

from functools import cache

import torch

from relational_transformer.runs.task import FORWARD_AND_BACKWARD, count, without_values

from .config import LobsterConfig
from .data import EDGE_INPUTS, NODE_INPUTS, GraphBatch
from .models.build import build_model
from .settings import ModelName, Settings

NODES_PER_SPINE_NODE = 1.24
"""A spine node has 0.2 leaves on average, and each of them has 0.2 leaves of its own."""


def flop(config: LobsterConfig) -> float:
    """Floating-point operations of a run with all its seeds: training, validations and test, without padding."""
    protocol = config.protocol
    # The cost grows with the square of the size, whose mean over [a, b) is (a² + ab + b²) / 3.
    smallest, end = protocol.smallest_size, protocol.end_size
    typical_size = ((smallest**2 + smallest * end + end**2) / 3) ** 0.5
    in_training = FORWARD_AND_BACKWARD * protocol.examples * _flop_of_graph(config.model, config.settings, typical_size)
    evaluations = protocol.examples // protocol.validation_interval + 1
    in_tests = (
        evaluations
        * protocol.evaluation_examples
        * _flop_of_graph(config.model, config.settings, float(protocol.test_size))
    )
    return len(config.seeds) * (in_training + in_tests)


@cache
def _flop_of_graph(model: ModelName, settings: Settings, size: float) -> int:
    nodes = round(size * NODES_PER_SPINE_NODE)
    network = without_values(lambda: build_model(model, settings))
    graph = GraphBatch(
        torch.zeros(1, nodes, NODE_INPUTS),
        torch.zeros(1, nodes, nodes, EDGE_INPUTS),
        torch.ones(1, nodes, dtype=torch.bool),
    )
    return count(lambda: network(graph))
