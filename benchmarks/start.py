"""What a run of RT compiles before its first step, and the seconds that it takes; no GPU is needed.

    python benchmarks/start.py bellman_ford
    python benchmarks/start.py insertion_sort --protocol modern --sizes 4 16

The pieces of a training step and of a validation are traced on a CPU, then compiled for an H200 that is not there, as
`benchmarks/launches.py` does it: *tracing* is Dynamo and autograd, *code* is Inductor, *kernels* is Triton, to the
machine code. Seconds are those of one core. A version is one set of shapes. The layers' own kernels are left out here;
with a CUDA build of torch their compilation (NVRTC) is timed last.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any
from unittest import mock

import launches
import torch
from launches import CPU, LeftOut, Piece, no_card_needed
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import _load_triton_kernel_from_source
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.runtime import triton_helpers

from relational_transformer.fleet import adam as adam_of_fleet
from relational_transformer.fleet import pieces as pieces_of_fleet
from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.compiling import with_own_code
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import set_precision
from relational_transformer.nn import kernels
from relational_transformer.runs.task import Start
from relational_transformer.training import CLRSTask, TrainConfig
from relational_transformer.training.data import load_split, make_split
from relational_transformer.training.evaluation import Evaluator
from relational_transformer.training.fresh import FreshData
from relational_transformer.training.fused_evaluation import FusedEvaluation
from relational_transformer.training.fused_step import FusedSteps
from relational_transformer.training.mixed_step import MixedSteps
from relational_transformer.training.task import TrainingSet, network_of

HINTS = 3
"""Two steps, so that one follows another: to the compiler all steps after the first are alike."""

clock = time.process_time


@dataclass
class TimedPiece(Piece):
    """A function that is compiled, and the seconds of its first calls."""

    name: str = ""
    tracing: float = 0.0


@dataclass
class Cost:
    """What it takes to make machine code of graphs."""

    code: float = 0.0
    kernels: float = 0.0
    names: list[str] = field(default_factory=list)


class Layers(LeftOut):
    """Layers that are kernels, left out, whose parameters are laid out all the same."""

    orders = kernels.KernelLayers.orders
    lay_out = kernels.KernelLayers.lay_out

    def trajectory(self, laid_out: Any, num_steps: int, graphs: int) -> Callable[..., Any]:
        none = 0 * sum(tensor.sum() for layer in laid_out.learnt for tensor in layer)  # it has a gradient
        return lambda step, nodes, edges: (nodes + none, None if edges is None else edges * 1)

    def inference(self, laid_out: Any) -> Any:
        return lambda nodes, edges: (nodes * 1, None if edges is None else edges * 1)


def traced_pieces(config: TrainConfig) -> list[TimedPiece]:
    """Everything that a run compiles."""
    pieces: list[TimedPiece] = []
    with ExitStack() as stack:
        for room in (pieces_of_fleet, adam_of_fleet):
            stack.enter_context(mock.patch.object(room, "compiled_for", partial(noted, pieces)))
        launches.replace_pointers(stack)
        models = [initialise(lambda: network_of(config), seed) for seed in config.seeds]
        for one in models:
            set_precision("bf16", one)
        fleet = Fleet(models, CPU)
        rate, epsilon, clip, weight_decay = CLRSTask(config).optimiser
        linears = CLRSTask(config).linears(models[0])
        adam = Adam(fleet, rate, epsilon=epsilon, clip=clip, weight_decay=weight_decay, linears=linears, compiled=True)
        start = Start(models[0], fleet, adam, CPU, True, None)  # pyright: ignore[reportArgumentType]
        data = (FreshData if config.protocol.is_modern else TrainingSet)(config, start)
        data.load(0, 0)
        for size in data.steps.sizes if isinstance(data.steps, MixedSteps) else (data.steps,):
            leave_out_layers(size._fused)
            size.recompute = False
            size._train(min(HINTS, max(size.buckets)))
        data.head(1)
        few = replace(config.protocol, validation_examples=1, evaluation_examples=1)
        split = load_split(models[0], make_split(config.task, "val", few), CPU)
        evaluator = Evaluator(models[0], split, len(models), "bf16", compiled=True)
        leave_out_layers(evaluator._fused)
        evaluator.scores(fleet.parameters)
    return [piece for piece in pieces if piece.calls]


def noted(pieces: list[TimedPiece], function: Callable[..., Any], device: torch.device, **_: Any) -> Callable[..., Any]:
    """`compiled_for`: compile for nothing, and note the graphs."""
    piece = TimedPiece(name=name_of(function))
    pieces.append(piece)
    backend = aot_autograd(
        fw_compiler=partial(launches.note, piece.forward),
        bw_compiler=partial(launches.note, piece.backward),
        partition_fn=launches.cut,
        decompositions=select_decomp_table(),
    )
    compiled = torch.compile(with_own_code(function), fullgraph=True, dynamic=False, backend=backend)

    def call(*arguments: Any) -> Any:
        piece.calls += 1
        before, started = len(piece.forward), clock()
        result = compiled(*arguments)
        if len(piece.forward) > before:
            piece.tracing += clock() - started
        return result

    return call


def name_of(function: Any) -> str:
    """The name of a function, or of the method that it runs for all seeds."""
    for cell in getattr(function, "__closure__", None) or ():
        method = getattr(cell.cell_contents, "method", None)
        if method is not None:
            return method if isinstance(method, str) else method.__name__
        if isinstance(cell.cell_contents, FunctionType):
            return name_of(cell.cell_contents)
    return function.__name__.strip("_")


def leave_out_layers(fused: FusedSteps | FusedEvaluation | None) -> None:
    """Where layers would be kernels on a Hopper card, run none."""
    if fused is not None:
        fused.layers = Layers(fused.layers.layers, fused.layers.num_nodes, CPU, prefix=fused.layers.prefix)


def compiled(piece: Piece) -> Cost:
    """Compile all graphs of a piece to machine code."""
    cost = Cost()
    for graphs, backward in ((piece.forward, False), (piece.backward, True)):
        for graph in graphs:
            started = clock()
            with mock.patch.object(AsyncCompile, "triton"):  # Inductor may begin to compile kernels as it goes
                code = launches.generated_code(graph, backward)
            cost.code += clock() - started
            compile_kernels(code, cost)
    return cost


def compile_kernels(code: str, cost: Cost) -> None:
    """Compile the kernels that generated code defines."""

    def kernel(_: Any, name: str, source: str, device_str: str = "cuda") -> None:
        started = clock()
        _load_triton_kernel_from_source(name, source).precompile(warm_cache_only=True)
        cost.kernels += clock() - started
        cost.names.append(name)

    definitions = code[: code.index("\nclass Runner") if "\nclass Runner" in code else code.index("def call(")]
    with (
        mock.patch.object(AsyncCompile, "triton", kernel),
        mock.patch.object(AsyncCompile, "wait"),
        mock.patch.object(triton_helpers, "set_driver_to_gpu"),
        mock.patch.object(torch._C, "_cuda_getCurrentRawStream", create=True),  # builds for a CPU have none
    ):
        exec(compile(definitions, "generated", "exec"), {"__name__": "generated"})


def time_of_layers(sizes: tuple[int, ...]) -> float:
    """Seconds to compile the layers' own kernels for training on these sizes."""
    started = clock()
    for nodes in sizes:
        for name in ("layer_forward", "layer_backward"):
            launches.compile_kernel(name, nodes)
    return clock() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--protocol", choices=["paper", "modern"], default="paper")
    parser.add_argument("--sizes", type=int, nargs="+", help="of the modern protocol; by default its own")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's compiler warns about its own internals
    config = CLRSTask.paper_config(
        arguments.task, "rt", tuple(range(arguments.seeds)), precision="bf16", protocol=arguments.protocol,
        train_examples=32,
    )  # fmt: skip
    if arguments.sizes:
        protocol = replace(config.protocol, train_lengths=tuple(arguments.sizes))
        config = replace(config, protocol=replace(protocol, validation_interval=32 * len(arguments.sizes)))
    pieces = traced_pieces(config)
    sizes = config.protocol.sizes(config.task)
    print(
        f"rt on {config.task}, {arguments.protocol}, sizes {sizes}, {arguments.seeds} seeds, torch {torch.__version__}"
    )
    print(f"{'':18}{'versions':>9}{'graphs':>8}{'kernels':>9}{'tracing':>10}{'code':>8}{'kernels':>9}")
    total = [0, 0, 0, 0.0, 0.0, 0.0]
    with no_card_needed():
        for piece in pieces:
            cost = compiled(piece)
            graphs = len(piece.forward) + len(piece.backward)
            row = [len(piece.forward), graphs, len(cost.names), piece.tracing, cost.code, cost.kernels]
            total = [so_far + more for so_far, more in zip(total, row, strict=True)]
            show(piece.name, row)
    show("in all", total)
    if torch.version.cuda is not None:
        print(f"the layers' own kernels: {time_of_layers(sizes):.1f} s")


def show(name: str, row: list[Any]) -> None:
    versions, graphs, kernels, *seconds = row
    times = "".join(f"{one:{width}.1f} s" for one, width in zip(seconds, (8, 6, 7), strict=True))
    print(f"{name:18}{versions:9}{graphs:8}{kernels:9}{times}", flush=True)


if __name__ == "__main__":
    main()
