"""An experiment of your own: a task that the trainer of all others trains, many seeds at once.

A relational transformer is given points of the plane, all alike but for the distances on its edges, and learns how far
the two farthest lie apart. Runs on a laptop in half a minute; the mean error falls to less than a third of what
predicting the mean of all distances gives.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from relational_transformer import RelationalTransformer
from relational_transformer.fleet import Fleet, Parameters, Pieces, Schedule
from relational_transformer.fleet.adam import CONSTANT, Adam
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.precision import Precision
from relational_transformer.runs import Optimiser, RunConfig, RunFolder, Start, Steps, Task, train

POINTS, BATCH = 6, 16
TEST_EXAMPLES = 200


@dataclass(frozen=True)
class PointsConfig(RunConfig):
    """A run: everything that changes its numbers."""

    seeds: tuple[int, ...]
    steps: int = 300
    learning_rate: float = 3e-3
    model: str = "rt"
    task: str = "points"
    precision: Precision = "fp32"
    compile: CompileMode = "off"
    schedule: Schedule = CONSTANT


class Diameter(nn.Module):
    """The distance between the two farthest of some points, [...], from all distances [..., N, N]."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = RelationalTransformer(
            node_input_size=1,
            edge_input_size=1,
            node_size=16,
            edge_size=8,
            num_heads=2,
            head_size=8,
            node_hidden_size=16,
            num_layers=2,
        )
        self.output = nn.Linear(16, 1)

    def forward(self, distances: Tensor) -> Tensor:
        alike = torch.ones_like(distances[..., :1])
        nodes = self.transformer(alike, distances.unsqueeze(-1)).nodes
        return self.output(nodes.amax(-2)).squeeze(-1)

    def squared_error(self, distances: Tensor) -> Tensor:
        return (self(distances) - distances.amax((-2, -1))).square().mean()

    def absolute_error(self, distances: Tensor) -> Tensor:
        return (self(distances) - distances.amax((-2, -1))).abs().mean()


class PointsSteps(Steps):
    """The training steps: what they read and change stays where it is, so that they can be captured as CUDA graphs."""

    def __init__(self, model: Diameter, fleet: Fleet, adam: Adam, steps: int, pieces: Pieces) -> None:
        super().__init__(fleet)
        self.adam = adam
        self.data = torch.zeros(steps, fleet.num_seeds, BATCH, POINTS, POINTS, device=self.device)
        self._loss = pieces.of_vector(model, "squared_error", fleet.shapes)

    def make(self, number: int) -> None:
        self.graphs.run("step", self._train)

    def _train(self) -> None:
        values = self.fleet.leaf()
        losses = self._loss(values, self.data.index_select(0, self.position).squeeze(0))
        (gradient,) = torch.autograd.grad(losses.sum(), values)
        self.adam.step(gradient)
        self.losses += losses.detach()
        self.finite &= losses.isfinite()
        self.position += 1


class PointsTask(Task[PointsConfig]):
    """What the trainer asks of the experiment."""

    config_type = PointsConfig
    higher_is_better = False
    shown_times, shown_as, unit, measure = 1.0, ".4f", "", "mean error"

    @property
    def num_steps(self) -> int:
        return self.config.steps

    @property
    def steps_of_part(self) -> int:
        return 50

    @property
    def examples_of_step(self) -> int:
        return BATCH

    @property
    def optimiser(self) -> Optimiser:
        return Optimiser(self.config.learning_rate, clip=1.0)

    def build(self) -> nn.Module:
        return Diameter()

    def start(self, start: Start) -> None:
        pieces = Pieces(start.device, compiled=start.compiled)
        self.steps = PointsSteps(start.model, start.fleet, start.adam, self.steps_of_part, pieces)
        self._errors = pieces.of(start.model, "absolute_error")
        self.fleet, self._device = start.fleet, start.device
        self._validation = self._same_for_all(distances(1_000, 0, TEST_EXAMPLES))

    def load(self, part: int, position: int) -> None:
        drawn = [distances(seed, part, self.steps_of_part * BATCH) for seed in self.config.seeds]
        of_steps = torch.stack(drawn).unflatten(1, (self.steps_of_part, BATCH)).swapaxes(0, 1)
        self.steps.data.copy_(of_steps)
        self.steps.position.fill_(position)

    def validate(self, steps: int) -> dict[str, Tensor]:
        return {"validation": self._errors(self.fleet.parameters, self._validation)}

    def test(self, best: Parameters, tested: Sequence[bool]) -> dict[str, list[float]]:
        graphs = self._same_for_all(distances(2_000, 0, TEST_EXAMPLES))
        with torch.no_grad():
            return {"test": self._errors(best, graphs).tolist()}

    def _same_for_all(self, graphs: Tensor) -> Tensor:
        return graphs.to(self._device).expand(len(self.config.seeds), *graphs.shape)


def distances(seed: int, part: int, count: int) -> Tensor:
    """All distances between points of the unit square, [count, N, N]; they depend on the seed and the part alone."""
    points = np.random.default_rng([seed, part]).random((count, POINTS, 2), dtype=np.float32)
    return torch.from_numpy(np.linalg.norm(points[:, :, None] - points[:, None], axis=-1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/points"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    task = PointsTask(PointsConfig(tuple(range(arguments.seeds)), arguments.steps))
    result = train(task, arguments.out, torch.device(arguments.device))
    for row in RunFolder(arguments.out).read_metrics():
        print(f"{row['examples']:6} examples   mean errors {' '.join(f'{error:.3f}' for error in row['validation'])}")
    truth = distances(2_000, 0, TEST_EXAMPLES).amax((-2, -1))
    guess = (truth - truth.mean()).abs().mean().item()
    scores = " ".join(f"{row['test']:.3f}" for row in result["seeds"])
    print(f"test: {scores}; predicting the mean gives {guess:.3f}")


if __name__ == "__main__":
    main()
