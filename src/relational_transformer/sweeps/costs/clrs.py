"""The cost of a run on a CLRS-30 task."""

from functools import cache

import torch

from relational_transformer.clrs.dataset import MULTIPLIERS
from relational_transformer.clrs.spec import SPECS, Stage
from relational_transformer.clrs.tracing import allocate
from relational_transformer.processors.settings import Settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training.config import TrainConfig

from .counting import FORWARD_AND_BACKWARD, count, without_values
from .task_sizes import TASK_SIZES


def flop(config: TrainConfig) -> float:
    """Operations of a run with all its seeds: training, validations and the test.

    One forward step is counted on the network itself; the number of steps is the mean of the algorithm's trajectories.
    Padding shorter trajectories of a batch is not counted.
    """
    protocol, size = config.protocol, TASK_SIZES[config.task]
    step = flop_of_step(config.task, config.settings)
    step_in_test = step * (size.test_nodes / size.train_nodes) ** 2  # edges are most of it
    usual = protocol.evaluation_examples * MULTIPLIERS.get(config.task, 1)
    evaluated = max(usual, protocol.minimum_evaluation_examples)
    validations = protocol.examples // protocol.validation_interval
    in_training = (FORWARD_AND_BACKWARD * protocol.examples + evaluated * validations) * (size.train_hints - 1)
    in_test = evaluated * (size.test_hints - 1)
    return len(config.seeds) * (step * in_training + step_in_test * in_test)


@cache
def flop_of_step(task: str, settings: Settings) -> int:
    """Operations of one forward step of the algorithm on one training example, encoders and decoders included."""
    network = without_values(lambda: build_network(task, settings))
    nodes = TASK_SIZES[task].train_nodes
    inputs, hints, outputs = (
        {name: torch.from_numpy(array) for name, array in allocate(SPECS[task], stage, front, nodes).items()}
        for stage, front in ((Stage.INPUT, (1,)), (Stage.HINT, (1, 1)), (Stage.OUTPUT, (1,)))
    )
    batch = network.pack(inputs, hints, outputs, torch.ones(1, dtype=torch.long))
    first_hints = {key: hint[0] for key, hint in batch.hints.items()}
    return count(lambda: network.predict(batch.inputs, first_hints, batch.lengths, num_steps=1))
