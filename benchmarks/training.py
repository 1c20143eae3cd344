"""Speed of the whole training loop: sampling, encoders, processor, decoders, losses, backward, Adam.

    python benchmarks/training.py --fleets 1:tf32 20:tf32 80:bf16

trains fleets, each given as its number of seeds and its precision, for some steps. It prints examples a second over all
seeds, the time of one hint step of a fleet (forward and backward) and of a validation, the time before the first step
(compiling, capturing) and the peak memory. `--at-once 8` trains eight such fleets, each on a stream of its own. Several
of these programs may start at the same time and measure in turns: give them the same `--turns FILE`.

The anchors are the authors' published code on the same kinds of hardware: 12.8 examples/s on an H200, 2.8 on two CPU
cores (4.5 with the whole step jitted).
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from turns import turn

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import Precision, set_precision
from relational_transformer.nn import kernels
from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.runs.provenance import hardware
from relational_transformer.training.config import Protocol
from relational_transformer.training.data import draw, load_split, make_split
from relational_transformer.training.evaluation import Evaluator
from relational_transformer.training.step import TrainingStep, linears_of_encoders

STEPS_OF_PART = 80
MODES = {"on": [True], "off": [False], "both": [False, True], "auto": ["auto"]}
NAMES = {True: "fused", False: "plain", "auto": "auto"}


def measure(task: str, model: str, num_seeds: int, precision: Precision, arguments: argparse.Namespace) -> str:
    device = torch.device(arguments.device)
    on_cuda = device.type == "cuda"
    settings = replace(find_settings(model), **({"num_layers": arguments.layers} if arguments.layers else {}))
    protocol = Protocol(train_examples=arguments.examples)
    data = make_split(task, "train", protocol)
    engines: list[TrainingStep] = []
    for number in range(arguments.at_once):
        seeds = range(number * num_seeds, (number + 1) * num_seeds)
        models = [initialise(lambda: build_network(task, settings), seed) for seed in seeds]
        network = models[0].to(device)
        set_precision(precision, network)
        fleet = Fleet(models, device)
        linears = linears_of_encoders(network)
        engine = TrainingStep(
            network,
            fleet,
            load_split(network, data, device),
            Adam(fleet, settings.learning_rate, linears=linears, compiled=arguments.compile),
            batch_size=settings.batch_size,
            precision=precision,
            compiled=arguments.compile,
        )
        engines.append(engine)
    streams: list[torch.cuda.Stream | None] = [torch.cuda.Stream() if on_cuda else None for _ in engines]

    def each() -> Iterator[tuple[int, TrainingStep]]:
        """The fleets, each on its stream."""
        for number, (engine, stream) in enumerate(zip(engines, streams, strict=True)):
            with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
                yield number, engine

    def load(part: int) -> None:
        for number, engine in each():
            seeds = tuple(range(number * num_seeds, (number + 1) * num_seeds))
            sizes = (STEPS_OF_PART, settings.batch_size, len(engine.split), engine.split.num_steps - 1)
            engine.load(draw(seeds, part, *sizes, protocol.teacher_forcing))

    def wait() -> None:
        if on_cuda:
            torch.cuda.synchronize()

    wait()
    if on_cuda:
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    load(0)
    for _, engine in each():
        lengths = sorted(set(engine.hints_of_step), key=engine.hints_of_step.count, reverse=True)
        for step in (engine.hints_of_step.index(length) for length in lengths):  # compile and capture every bucket
            engine.make(step)
        wait()
    ready = time.perf_counter() - started
    engine = engines[0]
    validation = load_split(engine.network, make_split(task, "val", protocol), device)
    evaluator = Evaluator(engine.network, validation, num_seeds, precision, compiled=arguments.compile)
    validate = recorded(evaluator, engine.fleet)

    with turn(arguments.turns):
        part, made, hint_steps, started = 1, 0, 0, time.perf_counter()
        while time.perf_counter() - started < arguments.seconds:
            load(part)
            steps = range(STEPS_OF_PART) if on_cuda else range(2)
            for step in steps:
                for _, one in each():
                    one.make(step)
            wait()
            made += len(steps) * settings.batch_size * num_seeds * len(engines)
            hint_steps += sum(max(1, engine.hints_of_step[step] - 1) for step in steps)
            part += 1
        seconds = time.perf_counter() - started
        validating = time.perf_counter()
        validate()
        wait()
        validating = time.perf_counter() - validating
        if arguments.profile:
            load(part)
            profile(each, on_cuda)
    memory = f"{torch.cuda.max_memory_allocated() / 2**30:7.1f} GiB" if on_cuda else "        "
    return (
        f"{made / seconds:12,.1f}{1e6 * seconds / hint_steps:14,.0f}{ready:9.1f} s{validating:11.3f} s   {memory}"
        f"   recompute {engine.recompute}"
    )


def recorded(evaluator: Evaluator, fleet: Fleet) -> Callable[[], object]:
    """One validation, ready to be repeated; on CUDA as a graph, as in training."""
    evaluator.scores(fleet.parameters)
    if fleet.values.device.type != "cuda":
        return lambda: evaluator.scores(fleet.parameters)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        evaluator.scores(fleet.parameters)
    return graph.replay


def profile(each: Callable[[], Iterator[tuple[int, TrainingStep]]], on_cuda: bool) -> None:
    """Print what four steps of every fleet launch; kernels that run side by side each count with their own time. On a
    CPU, print the operations that take longest by themselves."""
    hint_steps = 0
    activity = torch.profiler.ProfilerActivity.CUDA if on_cuda else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profiler:
        started = time.perf_counter()
        for number in range(4):
            for _, engine in each():
                engine.make(number)
                hint_steps += max(1, engine.hints_of_step[number] - 1)
        if on_cuda:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
    rows = profiler.key_averages()
    if on_cuda:
        busy = sum(row.device_time_total for row in rows) / 1e6 / seconds
        print(f"{sum(row.count for row in rows) / hint_steps:.0f} launches a hint step, {busy:.1f} kernels at a time")
    slowest_first = "cuda_time_total" if on_cuda else "self_cpu_time_total"
    print(rows.table(sort_by=slowest_first, row_limit=45, max_name_column_width=90))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="bellman_ford")
    parser.add_argument("--model", default="rt")
    parser.add_argument("--fleets", nargs="+", default=["1:fp32"], help="SEEDS:PRECISION, several of them")
    parser.add_argument("--kernels", choices=MODES, default="both", help="fused kernels (CUDA only)")
    parser.add_argument("--at-once", type=int, default=1, help="fleets at a time, each on a stream of its own")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--layers", type=int, help="other than the model's own number")
    parser.add_argument("--examples", type=int, default=10_000, help="size of the training set")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure each fleet")
    parser.add_argument("--turns", type=Path, help="a file: measure in turns with all others that name it")
    parser.add_argument(
        "--profile", action="store_true", help="print the kernels (on a CPU: operations) that take longest"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    print(
        f"{arguments.model} on {arguments.task}, {hardware(torch.device(arguments.device))}, torch {torch.__version__}"
    )
    print("seeds precision  kernels  examples/s  us/hint step      ready   validation        memory")
    on_cuda = arguments.device.startswith("cuda")
    for fleet in arguments.fleets:
        seeds, _, precision = fleet.partition(":")
        if precision not in get_args(Precision) or not seeds.isdigit():
            parser.error(f"a fleet is SEEDS:PRECISION with one of {', '.join(get_args(Precision))}, got {fleet!r}")
        for fused in MODES[arguments.kernels] if on_cuda else [False]:
            with kernels.use_kernels(fused) if on_cuda else contextlib.nullcontext():
                torch.compiler.reset()
                row = measure(arguments.task, arguments.model, int(seeds), precision, arguments)
            print(f"{seeds:>5} {precision:>9} {NAMES[fused]:>8}{row}", flush=True)


if __name__ == "__main__":
    main()
