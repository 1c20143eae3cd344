"""Relational attention, the edge update and the whole layer on a GPU: plain, compiled and fused, against the card's own
ceilings.

    python benchmarks/kernels.py                      # the paper's sizes, 20 and 80 seeds
    python benchmarks/kernels.py --cases all          # evaluation, large graphs, lobster and Sokoban as well
    python benchmarks/kernels.py --cases users --functions layer         # 24 to 256 nodes, some absent, with the floor
    python benchmarks/kernels.py --cases paper-3 --functions pointers    # scores of pointers from edges

The fused path is compiled as well: its kernels are operators that the compiler leaves alone, and it fuses what is
around them. Every path is captured in a CUDA graph and replayed; times are medians in microseconds. FLOP and bytes are
the least that the function needs (`floor.py`), whatever a path really does; memory is the peak beyond the inputs, in
sizes of the edge tensor. (Scores of pointers have no matrix products: they are far from the ceiling, which is one of
products.) The last lines are a table of the layer: all paths and the floor side by side.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from floor import FEED_SIZE, MESSAGE_SIZE, NODE_HIDDEN_SIZE, PAPER, USERS, Card, Cost, Sizes
from torch import Tensor
from torch.func import functional_call, stack_module_state
from turns import turn

from relational_transformer import RelationalTransformerLayer
from relational_transformer.nn import kernels
from relational_transformer.nn.attention import relational_attention
from relational_transformer.nn.edge_update import edge_update

FUNCTIONS = ["attention", "edge_update", "layer"]
POINTERS = 2
"""Pointers from every edge to a node, as matrix chain order has: a hint and an output."""
PATHS = ["plain", "compiled", "fused"]


@dataclass(frozen=True)
class Case(Sizes):
    """Functions of these sizes, and random inputs on the device."""

    def layer(self) -> tuple[Callable[..., Tensor], list[Tensor]]:
        layers = [self._make_layer() for _ in range(self.seeds)]
        parameters, _ = stack_module_state(layers)  # pyright: ignore[reportArgumentType]

        present = torch.randint(self.nodes // 2, self.nodes + 1, (self.graphs, 1), device="cuda")
        mask = torch.arange(self.nodes, device="cuda") < present if self.masked else None

        def run(nodes: Tensor, edges: Tensor, *values: Tensor) -> Tensor:
            return functional_call(layers[0], dict(zip(parameters, values, strict=True)), (nodes, edges, mask)).edges

        nodes = normal(self.seeds, self.graphs, self.nodes, self.width)
        edges = normal(self.seeds, self.graphs, self.nodes, self.nodes, self.edge_size)
        return torch.vmap(run), [nodes, edges, *(tensor.detach() for tensor in parameters.values())]

    def _make_layer(self) -> RelationalTransformerLayer:
        layer = RelationalTransformerLayer(
            node_size=self.width,
            edge_size=self.edge_size,
            num_heads=self.heads,
            head_size=self.head_size,
            node_hidden_size=NODE_HIDDEN_SIZE,
        )
        return layer.cuda().bfloat16()

    def attention(self) -> tuple[Callable[..., Tensor], list[Tensor]]:
        def attend(query: Tensor, key: Tensor, value: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
            weight = weight if kernels.enabled(edges) else weight.to(edges.dtype)
            return relational_attention(query, key, value, edges, weight, num_heads=self.heads).messages

        nodes = normal(self.seeds, self.graphs, self.nodes, 3 * self.width).chunk(3, dim=-1)
        edges = normal(self.seeds, self.graphs, self.nodes, self.nodes, self.edge_size)
        weight = parameter(self.seeds, 3 * self.width, self.edge_size)
        return torch.vmap(attend), [*nodes, edges, weight]

    def edge_update(self) -> tuple[Callable[..., Tensor], list[Tensor]]:
        def update(edges: Tensor, *others: Tensor) -> Tensor:
            if not kernels.enabled(edges):
                others = tuple(tensor.to(edges.dtype) for tensor in others)
            return edge_update(edges, *others)  # type: ignore[arg-type]

        ends = [normal(self.seeds, self.graphs, self.nodes, MESSAGE_SIZE) for _ in range(2)]
        edge, message, feed = self.edge_size, MESSAGE_SIZE, FEED_SIZE
        shapes = [(message, edge), (message, edge), (edge, message), (edge,), (edge,), (edge,)]
        shapes += [(feed, edge), (feed,), (edge, feed), (edge,), (edge,), (edge,)]
        parameters = [parameter(self.seeds, *shape) for shape in shapes]
        edges = normal(self.seeds, self.graphs, self.nodes, self.nodes, edge)
        return torch.vmap(update), [edges, *ends, *parameters]

    def pointers(self) -> tuple[Callable[..., Tensor], list[Tensor]]:
        def score(rows: Tensor, choices: Tensor, weight: Tensor) -> Tensor:
            if kernels.scores_pointers(rows, self.nodes):
                return kernels.pointer_scores(rows, choices, weight)
            return (torch.maximum(rows.unsqueeze(2), choices.unsqueeze(1)) * weight).sum(-1)

        shape = (POINTERS, self.edge_size)
        rows, choices = (normal(self.seeds, self.graphs, count, *shape) for count in (self.nodes**2, self.nodes))
        return torch.vmap(score), [rows, choices, parameter(self.seeds, *shape)]


CASES = {
    "paper-3": Case(seeds=3, graphs=4, nodes=16, heads=12, head_size=16, edge_size=192),
    "paper-20": Case(seeds=20, graphs=4, nodes=16, heads=12, head_size=16, edge_size=192),
    "paper-80": Case(**vars(PAPER)),
    "evaluation": Case(seeds=1, graphs=32, nodes=64, heads=12, head_size=16, edge_size=192),
    "large": Case(seeds=1, graphs=4, nodes=256, heads=8, head_size=16, edge_size=128),
    "lobster": Case(seeds=1, graphs=16, nodes=150, heads=8, head_size=28, edge_size=128),
    "sokoban": Case(seeds=1, graphs=64, nodes=57, heads=8, head_size=32, edge_size=128),
}
OF_USERS = {name: Case(**vars(sizes)) for name, sizes in USERS.items()}
CASES |= OF_USERS
GROUPS = {"all": list(CASES), "users": list(OF_USERS)}


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda").bfloat16()


def parameter(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda") / shape[-1] ** 0.5


def microseconds(step: Callable[[], object], repeats: int = 10) -> float:
    """Median time of one step, ten of them in a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            step()
    times = []
    for _ in range(12):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end) / repeats)
    return sorted(times[2:])[5]


def ceilings() -> Card:
    """Of this card, measured here."""
    left, right = normal(8192, 8192), normal(8192, 8192)
    teraflops = 2 * 8192**3 / microseconds(lambda: left @ right, 3) / 1e6
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    gigabytes = 2 * source.numel() * 4 / microseconds(lambda: target.copy_(source), 3) / 1e3
    return Card(teraflops, gigabytes)


def prepare(case: Case, name: str, path: str, training: bool) -> Callable[[], object]:
    """One step of a function on a path, compiled and run once."""
    fused = path == "fused"
    with kernels.use_kernels(fused):
        function, inputs = getattr(case, name)()
        if path != "plain":
            function = torch.compile(function, fullgraph=True, dynamic=False)
        if training:
            step = partial(train, function, inputs, torch.randn_like(function(*inputs)))
        else:
            step = partial(torch.no_grad()(function), *inputs)

    def on_path() -> object:
        with kernels.use_kernels(fused):
            return step()

    on_path()
    torch.cuda.synchronize()
    return on_path


def peak_memory(step: Callable[[], object]) -> int:
    """Bytes beyond what is there before the step."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def print_kernels(step: Callable[[], object]) -> None:
    """What a step launches, and how long each kernel takes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    for row in sorted(profiler.key_averages(), key=lambda row: -row.device_time_total):
        print(f"  {row.device_time_total:9.1f} us in {row.count:3} x {row.key[:100]}")


def train(function: Callable[..., Tensor], inputs: list[Tensor], gradient: Tensor) -> tuple[Tensor, ...]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]  # new ones: old leaves remember their stream
    return torch.autograd.grad(function(*leaves), leaves, gradient)


Key = tuple[str, str, bool]
"""A case, a function, and whether it is differentiated."""


def cost_of(key: Key) -> Cost:
    name, function, training = key
    if function == "pointers":
        return CASES[name].pointers_cost(training, POINTERS)
    return getattr(CASES[name], f"{function}_cost")(training)


def report(rows: list[tuple[Key, str, Callable[[], object]]], profile: bool) -> None:
    """Measure all, and print a line for each."""
    card = ceilings()
    print(f"{torch.cuda.get_device_name()}: {card.teraflops:.0f} TFLOP/s in bfloat16, {card.gigabytes:.0f} GB/s")
    print(f"{'':32}{'path':>10}{'us':>9}{'TFLOP/s':>9}{'GB/s':>7}{'of ceiling':>11}{'memory':>8}{'speed-up':>9}")
    found: dict[Key, dict[str, Measured]] = {}
    for key, path, step in rows:
        flops, size = cost_of(key)
        memory = peak_memory(step) / CASES[key[0]].edge_bytes
        if profile:
            print_kernels(step)
        time = microseconds(step)
        of_key = found.setdefault(key, {})
        of_key[path] = Measured(time, memory)
        ratio = f"{of_key['compiled'].time / time:8.2f}x" if "compiled" in of_key else ""
        label = f"{key[0]} {key[1]} {'training' if key[2] else 'forward'}"
        print(
            f"{label:32}{path:>10}{time:9.1f}{flops / time / 1e6:9.1f}{size / time / 1e3:7.0f}"
            f"{card.least((flops, size)) / time:11.1%}{memory:8.2f}{ratio:>9}",
            flush=True,
        )
    print("\n".join(side_by_side(found, card)))


@dataclass(frozen=True)
class Measured:
    """Microseconds, and the peak memory in sizes of the edge tensor."""

    time: float
    memory: float


def side_by_side(found: dict[Key, dict[str, Measured]], card: Card) -> list[str]:
    """Rows of Markdown for the layer: times of all paths and the least time, then the peak memory of all paths."""
    head = ["graphs", "nodes", "channels", "pass", *(f"{path}, us" for path in PATHS), "floor, us"]
    head += ["compiled / fused", *(f"{path}, edge tensors" for path in PATHS)]
    lines = [f"| {' | '.join(head)} |", f"|{'---:|' * len(head)}"]
    for (name, function, training), paths in found.items():
        if function != "layer":
            continue
        case = CASES[name]
        floor = card.least_training(case) if training else card.least(case.layer_cost(False))
        cells = [str(case.seeds * case.graphs), str(case.nodes), str(case.edge_size)]
        cells.append("training" if training else "forward")
        cells += [f"{paths[path].time:.1f}" if path in paths else "" for path in PATHS] + [f"{floor:.1f}"]
        both = "compiled" in paths and "fused" in paths
        cells.append(f"{paths['compiled'].time / paths['fused'].time:.2f}" if both else "")
        cells += [f"{paths[path].memory:.2f}" if path in paths else "" for path in PATHS]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["paper-20", "paper-80"], choices=[*CASES, *GROUPS])
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS, choices=[*FUNCTIONS, "pointers"])
    parser.add_argument("--paths", nargs="+", default=PATHS, choices=PATHS)
    parser.add_argument("--turns", type=Path, help="a file: measure in turns with all others that name it")
    parser.add_argument("--profile", action="store_true", help="print the kernels of every path")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/kernels.py needs a CUDA device; there is none here.")
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = 64  # all are compiled before the first is measured
    names = dict.fromkeys(case for name in arguments.cases for case in GROUPS.get(name, [name]))
    rows = [
        ((name, function, training), path, prepare(CASES[name], function, path, training))
        for name in names
        for function in arguments.functions
        for training in (False, True)
        for path in arguments.paths
    ]
    with turn(arguments.turns):
        report(rows, arguments.profile)


if __name__ == "__main__":
    main()
