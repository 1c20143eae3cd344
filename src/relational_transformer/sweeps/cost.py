"""What a run costs: the floating-point operations of its matrix products, and the time that such runs have taken."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from relational_transformer.clrs.dataset import MULTIPLIERS
from relational_transformer.clrs.spec import SPECS, Stage
from relational_transformer.clrs.tracing import allocate
from relational_transformer.processors.settings import Settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training.config import TrainConfig
from relational_transformer.training.run_folder import RunFolder

from .kinds import Config
from .progress import share_done
from .run import Run
from .task_sizes import TASK_SIZES

FORWARD_AND_BACKWARD = 3
"""A training step costs three forward passes: the backward pass takes two products for each one."""


def flop(config: Config) -> float | None:
    """Operations of a whole run with all its seeds: training, validations and the test; None where nobody knows.

    One forward step is counted on the network itself; the number of steps is the mean of the algorithm's trajectories.
    Padding shorter trajectories of a batch is not counted.
    """
    if not isinstance(config, TrainConfig):
        return None
    protocol, size = config.protocol, TASK_SIZES[config.task]
    step = flop_of_step(config.task, config.settings)
    step_in_test = step * (size.test_nodes / size.train_nodes) ** 2  # edges are most of it
    evaluated = max(
        protocol.evaluation_examples * MULTIPLIERS.get(config.task, 1), protocol.minimum_evaluation_examples
    )
    validations = protocol.examples // protocol.validation_interval
    in_training = (FORWARD_AND_BACKWARD * protocol.examples + evaluated * validations) * (size.train_hints - 1)
    in_test = evaluated * (size.test_hints - 1)
    return len(config.seeds) * (step * in_training + step_in_test * in_test)


@cache
def flop_of_step(task: str, settings: Settings) -> int:
    """Operations of one forward step of the algorithm on one training example, encoders and decoders included."""
    with torch.device("meta"):  # no initialisation: the numbers do not matter, their count does
        network = build_network(task, settings)
    network.to_empty(device="cpu")
    nodes = TASK_SIZES[task].train_nodes
    inputs, hints, outputs = (
        {name: torch.from_numpy(array) for name, array in allocate(SPECS[task], stage, front, nodes).items()}
        for stage, front in ((Stage.INPUT, (1,)), (Stage.HINT, (1, 1)), (Stage.OUTPUT, (1,)))
    )
    batch = network.pack(inputs, hints, outputs, torch.ones(1, dtype=torch.long))
    first_hints = {key: hint[0] for key, hint in batch.hints.items()}
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.predict(batch.inputs, first_hints, batch.lengths, num_steps=1)
    return counter.get_total_flops()


class Speeds:
    """Operations a second of runs that have ended, by model; how long others will take is judged by them."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Learns from those of the runs that have their results."""
        made: dict[str, float] = defaultdict(float)
        taken: dict[str, float] = defaultdict(float)
        for run in runs:
            result, operations = RunFolder(run.folder).read_result(), flop(run.config)
            if result is not None and operations is not None:
                made[run.config.model] += operations
                taken[run.config.model] += result["seconds"] + result["seconds_of_test"]
        self._by_model = {model: made[model] / taken[model] for model in made if taken[model] > 0}
        self._overall = sum(made.values()) / sum(taken.values()) if sum(taken.values()) > 0 else None

    def seconds_left(self, run: Run) -> float | None:
        """What is left of a run, in seconds of one slot; None where no run like it has ended yet.

        A model that has not been run is taken to be as fast as the others were, which is rough.
        """
        speed = self._by_model.get(run.config.model, self._overall)
        operations = flop(run.config)
        if speed is None or operations is None:
            return None
        return operations * (1.0 - share_done(run)) / speed
