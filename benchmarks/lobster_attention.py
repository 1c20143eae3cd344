"""How attention decides whether distances generalise to larger graphs, on models so small that a core is enough.

    python benchmarks/lobster_attention.py --models all edges log gat

trains RT with attention of all pairs, along the edges of the graph, and of all pairs with scores scaled by the
logarithm of the number of nodes, and GAT, on graphs of sizes 4 to 9. Prints the training loss and the relative loss of
every seed on other graphs of these sizes and of larger ones. No graph is one of the experiment's validation or test.
"""

import argparse

import numpy as np
import torch

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.lobster import BaselineSettings, RelationalSettings, build_model, sample, spread_sizes
from relational_transformer.lobster.data import load_split
from relational_transformer.lobster.models.relational import (
    RelationalInput,
    RelationalOutput,
    StepAlongEdges,
)
from relational_transformer.lobster.task import relative_error, squared_error
from relational_transformer.nn import RelationalTransformerLayer
from relational_transformer.nn.options import LayerOptions
from relational_transformer.regression.batches import draw, group_by_size
from relational_transformer.regression.evaluation import Evaluator
from relational_transformer.regression.model import LayeredModel, RelationalStep
from relational_transformer.regression.stack import FleetStack
from relational_transformer.regression.step import TrainingStep

CPU = torch.device("cpu")
LAYERS, BATCH, REPORT = 10, 15, 200
SMALLEST, END = 4, 10
TRAIN_GRAPHS, TRAIN_SEED = 5_000, 1
SIZES, GRAPHS, SEED_NEAR, SEED_FAR = (15, 30), 160, 101, 102
SETTINGS = RelationalSettings(
    num_layers=LAYERS, num_heads=4, head_size=8, node_hidden_size=12, edge_size=16, edge_hidden_sizes=(8, 4),
    output_size=32, learning_rate=5e-4, batch_size=BATCH,
)  # fmt: skip
BASELINE = BaselineSettings(num_layers=LAYERS, hidden_size=32, batch_size=BATCH)
MODELS = ("all", "edges", "log", "gat", "gcn")


def build(name: str) -> LayeredModel:
    if name in ("gat", "gcn"):
        return build_model(name, BASELINE)
    step = StepAlongEdges if name == "edges" else RelationalStep
    # As sharp as published in the middle of the sizes of training.
    options = LayerOptions(log_scaling_size=8 if name == "log" else None)

    def layer() -> RelationalTransformerLayer:
        return RelationalTransformerLayer(
            node_size=SETTINGS.node_size, edge_size=SETTINGS.edge_size, num_heads=SETTINGS.num_heads,
            node_hidden_size=SETTINGS.node_hidden_size, edge_hidden_sizes=SETTINGS.edge_hidden_sizes, options=options,
        )  # fmt: skip

    return LayeredModel(RelationalInput(SETTINGS), [step(layer()) for _ in range(LAYERS)], RelationalOutput(SETTINGS))


def measure(name: str, seeds: tuple[int, ...], steps: int) -> None:
    settings = BASELINE if name in ("gat", "gcn") else SETTINGS
    models = [initialise(lambda: build(name), seed) for seed in seeds]
    fleet, stack = Fleet(models, CPU), FleetStack(models[0], compiled=False)
    adam = Adam(fleet, settings.learning_rate, epsilon=settings.adam_epsilon, clip=settings.gradient_clip)
    split = load_split(sample(spread_sizes(TRAIN_GRAPHS, SMALLEST, END), TRAIN_SEED), CPU)
    engine = TrainingStep(stack, fleet, split, adam, batch_size=BATCH, precision="fp32", error=squared_error)
    near = sample(spread_sizes(GRAPHS, SMALLEST, END), SEED_NEAR)
    far = [sample(np.full(GRAPHS // 2, size), SEED_FAR) for size in SIZES]
    evaluators = [Evaluator(stack, load_split(one, CPU), len(seeds), "fp32", relative_error) for one in (near, *far)]
    for part in range(steps // REPORT):
        index = draw(seeds, part * REPORT, REPORT, BATCH, len(split))
        engine.load(group_by_size(index, split.host_num_nodes, engine.buckets))
        engine.forget()
        for number in range(REPORT):
            engine.make(number)
        columns = [engine.losses / REPORT, *(one.mean_errors(fleet.parameters) for one in evaluators)]
        for seed, numbers in zip(seeds, torch.stack(columns, dim=1).tolist(), strict=True):
            shown = " | ".join(f"{number:.3f}" for number in numbers)
            print(f"| {name} | {seed} | {(part + 1) * REPORT} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["all", "edges", "gat"], choices=MODELS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    sizes = " | ".join(f"size {size}" for size in SIZES)
    print(f"| model | seed | steps | training loss | sizes {SMALLEST} to {END - 1} | {sizes} |")
    print("|---|---:|---:|---:|---:|" + "---:|" * len(SIZES))
    for name in arguments.models:
        measure(name, tuple(arguments.seeds), arguments.steps)


if __name__ == "__main__":
    main()
