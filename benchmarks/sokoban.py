"""Speed of Sokoban: the environment alone, and whole training (games, observation, policy, update).

    OMP_NUM_THREADS=1 python benchmarks/sokoban.py environment
    python benchmarks/sokoban.py training --models transformer rt --games 64 256 --precisions tf32 bf16

The first prints steps a second of several games at once, without and with observations; the anchor is one game at a
time. The second trains for some seconds and prints steps a second over all seeds, the time of an update, the minutes
that ten million steps of every seed would take, the time before the first update (compiling, capturing) and the peak
memory; the anchor is the original recipe's one game.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from turns import turn

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import Precision
from relational_transformer.runs.provenance import hardware
from relational_transformer.sokoban import RECIPES, Agent, Environment, Levels, Recipe, generate_levels, load_levels
from relational_transformer.sokoban.agent import Model
from relational_transformer.sokoban.chance import draw, first_levels
from relational_transformer.sokoban.game.size_classes import size_classes
from relational_transformer.sokoban.step import TrainingStep

DRAWN = 64
FULL_RUN = RECIPES["batched"].steps


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def calls_per_second(call: Callable[[int], object], seconds: float, device: torch.device) -> float:
    """How often `call(number)` runs in a second, measured for so long."""
    for number in range(3):
        call(number)
    wait(device)
    made, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        for _ in range(8):
            call(made)
            made += 1
        wait(device)
    return made / (time.perf_counter() - started)


def measure_environment(levels: Levels, num_games: int, observe: bool, seconds: float, device: torch.device) -> float:
    """Steps a second, games that end begun anew."""
    generator = torch.Generator().manual_seed(0)
    actions = torch.randint(5, (DRAWN, num_games), generator=generator).to(device)
    next_level = torch.randint(len(levels), (DRAWN, num_games), generator=generator).to(device)
    environment = Environment(levels, next_level[0])

    def step(number: int) -> None:
        if observe:
            environment.observe()
        outcome = environment.step(actions[number % DRAWN])
        environment.restart(outcome.done, next_level[number % DRAWN])

    return num_games * calls_per_second(step, seconds, device)


def environment(arguments: argparse.Namespace, levels: Levels, device: torch.device) -> None:
    anchors = [measure_environment(levels, 1, observe, arguments.seconds, device) for observe in (False, True)]
    print("games        steps/s    x one game    with observations    x one game")
    for games in arguments.games:
        speeds = [measure_environment(levels, games, observe, arguments.seconds, device) for observe in (False, True)]
        alone, seen = speeds
        print(f"{games:5}{alone:15,.0f}{alone / anchors[0]:14,.0f}{seen:21,.0f}{seen / anchors[1]:14,.0f}", flush=True)


def measure_training(
    model: Model, recipe: Recipe, precision: Precision, num_seeds: int, levels: Levels, arguments: argparse.Namespace
) -> tuple[float, float, bool]:
    """Updates a second, seconds before the first one, and whether steps were recomputed."""
    device, seeds = levels.agent.device, tuple(range(num_seeds))
    torch.set_float32_matmul_precision("highest" if precision in ("fp32", "fp64") else "high")
    agents = [initialise(lambda: Agent(model), seed) for seed in seeds]
    agents[0].to(device)
    classes = size_classes(levels.to("cpu"), recipe.num_games, recipe.size_classes)
    games = Environment(levels, first_levels(seeds, classes).flatten(), classes[-1].capacity)
    fleet = Fleet(agents, device)
    adam = Adam(
        fleet, recipe.learning_rate, epsilon=recipe.adam_epsilon, clip=recipe.gradient_clip, compiled=arguments.compile
    )
    engine = TrainingStep(
        agents[0], fleet, games, recipe, adam,
        precision=precision, compiled=arguments.compile, classes=classes if model == "rt" else None,
    )  # fmt: skip
    chance = draw(seeds, 0, DRAWN, recipe.window, classes)

    def update(number: int) -> None:
        if number % DRAWN == 0:
            engine.load(chance)
        engine.make(number % DRAWN)

    started = time.perf_counter()
    update(0)
    wait(device)
    ready = time.perf_counter() - started
    engine.load(chance)
    with turn(arguments.turns):
        made, started = 0, time.perf_counter()
        while time.perf_counter() - started < arguments.seconds:
            update(made)
            made += 1
            wait(device)
        speed = made / (time.perf_counter() - started)
    return speed, ready, engine.agent.recompute


def training(arguments: argparse.Namespace, levels: Levels, device: torch.device) -> None:
    print("model       games x window seeds precision    steps/s  x one game  ms/update  min/10M     ready      memory")
    for model in arguments.models:
        for precision in arguments.precisions:
            anchor = None
            for games in (1, *arguments.games) if arguments.anchor else arguments.games:
                recipe = replace(
                    RECIPES["batched"], num_games=games, window=arguments.window, size_classes=arguments.size_classes
                )
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                torch.compiler.reset()
                measured = measure_training(model, recipe, precision, arguments.seeds, levels, arguments)
                updates, ready, recompute = measured
                speed = updates * recipe.steps_of_update * arguments.seeds
                anchor = anchor or (speed if arguments.anchor else None)
                ratio = f"{speed / anchor:10.1f}" if anchor else " " * 10
                minutes = FULL_RUN * arguments.seeds / speed / 60
                memory = f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if device.type == "cuda" else "-"
                print(
                    f"{model:11}{games:6} x {recipe.window:<6}{arguments.seeds:6}{precision:>10}{speed:11,.0f}"
                    f"{ratio:>12}{1000 / updates:11.1f}{minutes:9.1f}{ready:8.1f} s{memory:>12}"
                    f"{'  recompute' * recompute}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["environment", "training"])
    parser.add_argument("--games", nargs="+", type=int, help="games at once, several numbers of them")
    parser.add_argument("--models", nargs="+", default=["transformer", "rt"], choices=get_args(Model))
    parser.add_argument("--precisions", nargs="+", default=["tf32"], choices=get_args(Precision))
    parser.add_argument("--window", type=int, default=RECIPES["batched"].window, help="steps between two updates")
    parser.add_argument("--size-classes", type=int, default=RECIPES["batched"].size_classes, help="the most classes")
    parser.add_argument("--seeds", type=int, default=1, help="seeds trained together")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    parser.add_argument("--anchor", action=argparse.BooleanOptionalAction, default=True, help="also train one game")
    parser.add_argument("--levels", help="a Boxoban folder; by default 1,000 generated levels")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure each")
    parser.add_argument("--turns", type=Path, help="a file: measure in turns with all other benchmarks that name it")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    arguments.games = arguments.games or ([64, 256, 1024] if arguments.what == "environment" else [64])
    device = torch.device(arguments.device)
    levels = generate_levels(1_000, seed=1) if arguments.levels is None else load_levels(arguments.levels, "test")
    print(f"{hardware(device)}, torch {torch.__version__}, {levels.open_cells} open cells at most")
    {"environment": environment, "training": training}[arguments.what](arguments, levels.to(device), device)


if __name__ == "__main__":
    main()
