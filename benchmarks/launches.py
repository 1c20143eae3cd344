"""What a training step launches on a GPU, counted in the code that torch generates for one; no GPU is needed.

    python benchmarks/launches.py graham_scan rt
    python benchmarks/launches.py insertion_sort mpnn --precision tf32

The pieces of a step are compiled for an H200 that is not there. Layers that are kernels of their own are left out, and
so is what is not compiled (gradients that autograd adds up).
"""

import argparse
import copy
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._dynamo import device_interface
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config, scheduler
from torch._inductor.compile_fx import view_to_reshape
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes import post_grad
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses import fake_tensor
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from relational_transformer.fleet import pieces as pieces_of_fleet
from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.compiling import OPTIONS, with_own_code
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import set_precision
from relational_transformer.nn import kernels
from relational_transformer.nn.kernels import pointers
from relational_transformer.nn.kernels.whole_layer import binaries, launching
from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import draw, load_split, make_split
from relational_transformer.training.fused_step import KernelLayers, LaidOut
from relational_transformer.training.step import TrainingStep

CPU, CARD = torch.device("cpu"), torch.device("cuda", 0)
H200 = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, warp_size=32, total_memory=140 << 30,
    regs_per_multiprocessor=65_536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
    shared_memory_per_block=49_152, shared_memory_per_block_optin=232_448, shared_memory_per_multiprocessor=233_472,
    L2_cache_size=50 << 20, gcnArchName="",
)  # fmt: skip


@dataclass
class Piece:
    """A function that is compiled: how often a training step calls it, and its graphs."""

    calls: int = 0
    forward: list[GraphModule] = field(default_factory=list)
    backward: list[GraphModule] = field(default_factory=list)


class LeftOut(KernelLayers):
    """Layers that are kernels, left out: nodes and edges go through them."""

    @property
    def fit(self) -> bool:
        return True

    @property
    def orders(self) -> Any:
        return ()

    def lay_out(self, by_name: Any, orders: Any) -> LaidOut:
        return LaidOut([], [])

    def trajectory(self, laid_out: Any, num_steps: int, graphs: int) -> Callable[..., Any]:
        return lambda step, nodes, edges: (nodes * 1, None if edges is None else edges * 1)

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        return 0


def pieces_of_step(task: str, model: str, precision: Any, seeds: int) -> tuple[int, list[Piece]]:
    """The hints of a training step, and all that it compiles."""
    pieces: list[Piece] = []

    def compiled_for(function: Callable[..., Any], device: torch.device, **_: Any) -> Callable[..., Any]:
        piece = Piece()
        pieces.append(piece)
        backend = aot_autograd(
            fw_compiler=partial(note, piece.forward),
            bw_compiler=partial(note, piece.backward),
            partition_fn=cut,
            decompositions=select_decomp_table(),
        )
        compiled = torch.compile(with_own_code(function), fullgraph=True, dynamic=False, backend=backend)

        def call(*arguments: Any) -> Any:
            piece.calls += 1
            return compiled(*arguments)

        return call

    settings = find_settings(model)
    models = [initialise(lambda: build_network(task, settings), seed) for seed in range(seeds)]
    for one in models:
        set_precision(precision, one)
    split = load_split(models[0], make_split(task, "train", Protocol(train_examples=32)), CPU)
    with mock.patch.object(pieces_of_fleet, "compiled_for", compiled_for), ExitStack() as stack:
        replace_pointers(stack)
        fleet = Fleet(models, CPU)
        engine = TrainingStep(
            models[0], fleet, split, Adam(fleet, settings.learning_rate), batch_size=settings.batch_size,
            precision=precision, compiled=True,
        )  # fmt: skip
        leave_out_kernels(engine)
        engine.load(draw(tuple(range(seeds)), 0, 1, settings.batch_size, len(split), split.num_steps - 1, 0.5))
        hints = max(engine.buckets)
        engine._forward(hints)
        for piece in pieces:
            piece.calls = 0  # some were called while the first trajectory was planned
        losses, values = engine._forward(hints)
        torch.autograd.grad(losses.sum(), values)
    return hints, [piece for piece in pieces if piece.calls]


def leave_out_kernels(engine: TrainingStep) -> None:
    """Where layers would be kernels on a Hopper card, cut the steps there."""
    if (fused := engine._fused) is not None:
        fused.layers = LeftOut(fused.layers.layers, engine.split.num_nodes, CPU, prefix=fused.layers.prefix)


def replace_pointers(stack: ExitStack) -> None:
    """Take the kernel of pointers, as a Hopper card does, and let it do nothing."""
    stack.enter_context(mock.patch.object(kernels, "scores_pointers", always))
    stack.enter_context(mock.patch.object(pointers, "pointer_scores_forward", no_scores))
    stack.enter_context(mock.patch.object(pointers, "pointer_scores_backward", no_gradients))


def compile_kernel(name: str, nodes: int) -> None:
    """Compile one of the layers' own kernels for a Hopper card; torch must be a build with CUDA."""
    binaries._compile(binaries.Program(launching.source_of(launching.Kernel(name, nodes, True)), name, "90"))


def always(*_: object) -> bool:
    return True


def no_scores(rows: Tensor, choices: Tensor, weight: Tensor) -> Tensor:
    """What the kernel of pointers would give, all zero."""
    return rows.new_zeros(*rows.shape[:3], choices.shape[2], rows.shape[3], dtype=torch.float32)


def no_gradients(gradient: Tensor, rows: Tensor, choices: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    return torch.zeros_like(rows), *(torch.zeros_like(one, dtype=torch.float32) for one in (choices, weight))


def note(graphs: list[GraphModule], graph: GraphModule, inputs: Sequence[Any]) -> Any:
    graphs.append(graph)
    return graph


def cut(graph: GraphModule, inputs: Any, **options: Any) -> Any:
    joint_graph_passes(graph)
    return min_cut_rematerialization_partition(graph, inputs, compiler="inductor", **options)


@contextmanager
def no_card_needed() -> Iterator[None]:
    """Torch's compiler believes that an H200 is there; Triton does so from now on."""
    card = device_interface.CudaInterface
    target = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32), get_current_device=lambda: 0)
    of_card = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: H200,
    }
    of_interface = {
        **of_card,
        "get_compute_capability": lambda device=None: 90,
        "is_triton_capable": lambda device=None: True,
        "raise_if_triton_unavailable": lambda device=None: None,
    }
    answers: dict[Any, dict[str, Any]] = {
        torch.cuda: {**of_card, "get_device_capability": lambda device=None: (9, 0), "_lazy_init": lambda: None},
        torch.version: {"cuda": "13.0"},
        card: {name: staticmethod(answer) for name, answer in of_interface.items()},
        card.Worker: {name: staticmethod(answer) for name, answer in of_card.items()},
        scheduler: {"has_triton": lambda *_: True},
        post_grad: {"reinplace_inplaceable_ops": lambda *_: None},  # it writes into tensors that are not there
        fake_tensor: {"init_gpu_context": lambda device: None},
    }
    with ExitStack() as stack:
        for owner, of_owner in answers.items():
            for name, answer in of_owner.items():
                stack.enter_context(mock.patch.object(owner, name, answer, create=True))
        stack.enter_context(mock.patch.dict(device_interface.device_interfaces, {"cuda": card, "cuda:0": card}))
        driver.set_active(target)  # pyright: ignore[reportArgumentType]
        yield


def generated_code(graph: GraphModule, backward: bool) -> str:
    """What Inductor makes of a graph that was traced on a CPU, for the card."""
    graph = copy.deepcopy(graph)
    mode = fake_tensor.FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    for node in graph.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": CARD}
    with mode:
        inputs = [_on_card(node.meta["val"]) for node in graph.graph.find_nodes(op="placeholder")]
    FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*inputs)
    view_to_reshape(graph)
    with V.set_debug_handler(DebugContext()), V.set_fake_mode(mode), config.patch(OPTIONS):
        post_grad.post_grad_passes(graph, not backward)
        lowering = GraphLowering(graph, example_inputs=inputs, shape_env=mode.shape_env, is_backward=backward)
        with V.set_graph_handler(lowering):
            lowering.run(*inputs)
            return lowering.codegen()[0].value


def _on_card(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=CARD)


def count(graphs: Sequence[GraphModule], backward: bool) -> tuple[int, int]:
    """Kernels and products."""
    code = [generated_code(graph, backward) for graph in graphs]
    calls = "".join(one[one.index("def call(") :] for one in code)
    own = len(re.findall(r"= torch\.ops\.relational_transformer\.", calls))
    return len(re.findall(r"triton_\w+\.run\(", calls)) + own, len(re.findall(r"extern_kernels\.\w+\(", calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("model")
    parser.add_argument("--precision", choices=["bf16", "tf32"], default="bf16")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's compiler warns about its own internals
    hints, pieces = pieces_of_step(arguments.task, arguments.model, arguments.precision, arguments.seeds)
    fleet = f"{arguments.model} on {arguments.task}, {arguments.seeds} seeds, {arguments.precision}"
    print(f"{fleet}, torch {torch.__version__}")
    print(f"a training step of {hints} hints; kernels + products of each piece that it compiles:")
    print(f"{'calls':>8}{'forward':>12}{'backward':>12}")
    total = 0
    with no_card_needed():
        for piece in pieces:
            forward, backward = count(piece.forward[:1], False), count(piece.backward[:1], True)
            total += piece.calls * (sum(forward) + sum(backward))
            columns = (f"{kernels} + {products}" for kernels, products in (forward, backward))
            print(f"{piece.calls:8}" + "".join(f"{column:>12}" for column in columns), flush=True)
    print(f"{total:8} launches")


if __name__ == "__main__":
    main()
