"""Speed of the lobster experiment: sampling, thirty layers, losses, backward, Adam, and a validation at size 100.

    python benchmarks/lobster.py --model rt --fleets 1:tf32 20:bf16

trains fleets, each given as its number of seeds and its precision. It prints graphs a second over all seeds, the
floating-point operations a second that this is (without padding), the hours that the whole protocol would take at this
speed, the seconds of one validation and those before the first step (compiling, capturing), and the peak memory.
"""

import argparse
import time
from dataclasses import replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import Precision, set_matrix_products
from relational_transformer.lobster import SETTINGS, LobsterProtocol, build_model
from relational_transformer.lobster.data import load_split
from relational_transformer.lobster.settings import ModelName
from relational_transformer.lobster.task import relative_error, squared_error
from relational_transformer.regression.batches import draw, group_by_size
from relational_transformer.regression.evaluation import Evaluator
from relational_transformer.regression.stack import FleetStack
from relational_transformer.regression.step import TrainingStep
from relational_transformer.runs.provenance import hardware

STEPS_OF_PART = {"cuda": 32, "cpu": 1}


def measure(model_name: ModelName, num_seeds: int, precision: Precision, arguments: argparse.Namespace) -> str:
    device = torch.device(arguments.device)
    set_matrix_products(precision)
    settings = replace(SETTINGS[model_name], **({"num_layers": arguments.layers} if arguments.layers else {}))
    protocol = LobsterProtocol(evaluation_examples=arguments.evaluation_examples)
    models = [initialise(lambda: build_model(model_name, settings), seed) for seed in range(num_seeds)]
    fleet = Fleet(models, device)
    stack = FleetStack(models[0].to(device), arguments.compile)
    split = load_split(protocol.train_graphs(), device)
    adam = Adam(
        fleet,
        settings.learning_rate,
        epsilon=settings.adam_epsilon,
        clip=settings.gradient_clip,
        compiled=arguments.compile,
    )
    engine = TrainingStep(
        stack, fleet, split, adam, batch_size=settings.batch_size, precision=precision, error=squared_error
    )
    steps = STEPS_OF_PART[device.type]

    def load(part: int) -> None:
        index = draw(tuple(range(num_seeds)), part * steps, steps, settings.batch_size, len(split))
        engine.load(group_by_size(index, split.host_num_nodes, engine.buckets))

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    load(0)
    for number in range(steps):
        engine.make(number)
    wait()
    ready = time.perf_counter() - started

    part, started = 1, time.perf_counter()
    while time.perf_counter() - started < arguments.seconds:
        load(part)
        for number in range(steps):
            engine.make(number)
        wait()
        part += 1
    speed = (part - 1) * steps * settings.batch_size * num_seeds / (time.perf_counter() - started)

    evaluator = Evaluator(stack, load_split(protocol.validation_graphs(), device), num_seeds, precision, relative_error)
    evaluator.mean_errors(fleet.parameters)
    wait()
    started = time.perf_counter()
    evaluator.mean_errors(fleet.parameters)
    wait()
    validation = time.perf_counter() - started
    memory = f"{torch.cuda.max_memory_allocated() / 2**30:.1f}" if device.type == "cuda" else "-"
    hours = protocol.examples * num_seeds / speed / 3600
    operations = 3 * speed * flop_of_graph(models[0])  # backward takes twice what forward does
    return (
        f"| {model_name} | {num_seeds} | {precision} | {speed:,.0f} | {operations / 1e12:.2f} "
        f"| {hours:,.1f} | {validation:.1f} | {ready:.0f} | {memory} | {'yes' if engine.recompute else 'no'} |"
    )


def flop_of_graph(model: torch.nn.Module) -> float:
    """Operations of a forward pass, on average over graphs of the training sizes."""
    split = load_split(replace(LobsterProtocol(), train_examples=30).train_graphs(), torch.device("cpu"))
    model = model.to("cpu")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        for number, nodes in enumerate(split.host_num_nodes.tolist()):
            model(split.gather(torch.tensor([number]), nodes)[0])
    return counter.get_total_flops() / len(split)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=SETTINGS, default=["rt"])
    parser.add_argument("--fleets", nargs="+", default=["1:tf32"], help="SEEDS:PRECISION")
    parser.add_argument("--layers", type=int, help="layers instead of the paper's 30")
    parser.add_argument("--seconds", type=float, default=20.0, help="of training that are measured")
    parser.add_argument("--evaluation-examples", type=int, default=1_000)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {hardware(torch.device(arguments.device))}\n")
    print("| model | seeds | precision | graphs/s | TFLOP/s | hours | validation s | start s | GiB | recomputes |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---|")
    for model_name in arguments.model:
        for fleet in arguments.fleets:
            seeds, _, precision = fleet.partition(":")
            print(measure(model_name, int(seeds), precision or "tf32", arguments), flush=True)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    main()
