"""Distributed Grid Descent against random search and TPE on noisy grids whose optimum is known.

Every study has a landscape of its own: a quadratic bowl over the grid's positions, with random curvatures, random
couplings between hyperparameters and a random optimum, and Gaussian noise on every run. After each trial a method
recommends the configuration with the best mean so far. Its regret is how much worse that configuration really is than
the optimum, where 1 is a random configuration and 0 the optimum.

    python benchmarks/tuning.py [--studies 50] [--trials 200] [--plot docs/tuning-benchmark.png]
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from relational_transformer.tuning import GRIDS, Grid, GridDescentSampler
from relational_transformer.tuning.grid import Position, position_of


@dataclass(frozen=True)
class Scenario:
    name: str
    grid: Grid
    noise: float
    """Standard deviation of a run; 1 is what an optimal configuration gains over a random one."""


@dataclass(frozen=True)
class Method:
    name: str
    sampler: Callable[[Grid, int], BaseSampler]
    ordinal: bool
    """Asks for positions as integers, so that a sampler for numbers knows their order."""


TOY = {"a": list(range(7)), "b": list(range(6)), "c": list(range(5)), "d": list(range(6))}
SCENARIOS = (
    Scenario("1,260 cells, noise 0.1", TOY, 0.1),
    Scenario("1,260 cells, noise 0.25", TOY, 0.25),
    Scenario("RT's 24,460,800 cells, noise 0.1", GRIDS["rt"], 0.1),
)
METHODS = (
    Method("random", lambda grid, seed: RandomSampler(seed), ordinal=True),
    Method("TPE", lambda grid, seed: TPESampler(seed=seed), ordinal=True),
    Method("grid descent", lambda grid, seed: GridDescentSampler(grid, seed=seed), ordinal=False),
)


class Landscape:
    """A bowl over positions: -(x - x*)' A (x - x*), scaled so that a random configuration has value -1 on average."""

    def __init__(self, grid: Grid, seed: int) -> None:
        generator = np.random.default_rng([seed, 1, 0, 1])  # a stream that no sampler draws from
        sizes = np.array([len(values) for values in grid.values()])
        self.widths = np.maximum(sizes - 1, 1)
        self.optimum = generator.integers(sizes)
        curvatures = np.exp(generator.normal(0, 1, len(sizes)))
        coupling = np.eye(len(sizes)) + 0.3 * generator.normal(0, 1, (len(sizes), len(sizes))) / math.sqrt(len(sizes))
        self.matrix = coupling.T @ np.diag(curvatures) @ coupling
        self.scale = 1.0
        somewhere = generator.integers(sizes, size=(2000, len(sizes)))
        self.scale = -1.0 / float(np.mean([self.value(tuple(position)) for position in somewhere]))

    def value(self, position: Position) -> float:
        offset = (np.array(position) - self.optimum) / self.widths
        return -self.scale * float(offset @ self.matrix @ offset)


def run_study(scenario: Scenario, method: Method, seed: int, trials: int) -> list[float]:
    """The regret of what is recommended after each trial."""
    landscape = Landscape(scenario.grid, seed)
    generator = np.random.default_rng([seed, 1, 0, 2])
    study = optuna.create_study(direction="maximize", sampler=method.sampler(scenario.grid, seed))
    runs: dict[Position, list[float]] = {}
    regrets = []
    for _ in range(trials):
        trial = study.ask()
        position = ask_position(trial, scenario.grid, method.ordinal)
        score = landscape.value(position) + scenario.noise * generator.normal()
        study.tell(trial, score)
        runs.setdefault(position, []).append(score)
        recommended = max(runs, key=lambda place: sum(runs[place]) / len(runs[place]))
        regrets.append(-landscape.value(recommended))
    return regrets


def ask_position(trial: optuna.Trial, grid: Grid, ordinal: bool) -> Position:
    if ordinal:
        return tuple(trial.suggest_int(name, 0, len(values) - 1) for name, values in grid.items())
    configuration = {name: trial.suggest_categorical(name, values) for name, values in grid.items()}
    position = position_of(grid, configuration)
    assert position is not None
    return position


def measure(scenario: Scenario, studies: int, trials: int) -> dict[str, np.ndarray]:
    """Regrets [studies, trials] of every method, on the same landscapes."""
    curves = {}
    for method in METHODS:
        started = time.perf_counter()
        curves[method.name] = np.array([run_study(scenario, method, seed, trials) for seed in range(studies)])
        milliseconds = 1000 * (time.perf_counter() - started) / curves[method.name].size
        print_row(method.name, curves[method.name], milliseconds)
    return curves


def print_row(name: str, regrets: np.ndarray, milliseconds: float) -> None:
    cells = []
    for trial in (regrets.shape[1] // 4, regrets.shape[1] // 2, regrets.shape[1]):
        at = regrets[:, trial - 1]
        cells.append(f"{at.mean():6.3f} ± {at.std(ddof=1) / math.sqrt(len(at)):.3f}")
    print(f"  {name:14} {'   '.join(cells)}   {milliseconds:10.2f}")


def plot(results: list[tuple[Scenario, dict[str, np.ndarray]]], path: str, studies: int) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(12, 3.6), sharey=True, layout="constrained")
    for axis, (scenario, curves) in zip(axes, results, strict=True):
        for (name, regrets), colour in zip(curves.items(), ("#999999", "#d08020", "#2060c0"), strict=True):
            mean, error = regrets.mean(0), regrets.std(0, ddof=1) / math.sqrt(len(regrets))
            trials = np.arange(1, len(mean) + 1)
            axis.plot(trials, mean, label=name, color=colour)
            axis.fill_between(trials, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
        axis.set(title=scenario.name, xlabel="trials", ylim=(0, 0.8))
        axis.margins(x=0)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("regret of the recommendation")
    axes[0].legend(frameon=False)
    figure.suptitle(f"Mean of {studies} studies ± standard error", fontsize=10)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=50)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--plot", help="where to write the picture")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    results = []
    for scenario in SCENARIOS:
        quarter, half, end = arguments.trials // 4, arguments.trials // 2, arguments.trials
        print(f"{scenario.name}: regret (0 optimum, 1 random), mean of {arguments.studies} studies ± standard error")
        print(f"  {'':14} {f'{quarter} trials':>14}   {f'{half} trials':>14}   {f'{end} trials':>14}   ms a trial")
        results.append((scenario, measure(scenario, arguments.studies, arguments.trials)))
    if arguments.plot:
        plot(results, arguments.plot, arguments.studies)


if __name__ == "__main__":
    main()
