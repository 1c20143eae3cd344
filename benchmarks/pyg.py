"""The sparse convolution beside PyG's `TransformerConv`, and batches of graphs of like sizes beside plain ones.

The layers have the same channels, heads and edge features, and take turns on one random graph; what is printed is the
median over the rounds of the time the process spent on a processor, forward and backward, with gradients of nodes and
edges, and its ratio to `TransformerConv` of the same rounds. `TransformerConv` has no feed-forward, no LayerNorms and
no new edges: the rows say what the edge update adds.

The batches are of graphs of 5 to 60 nodes: the cost of an epoch of `RelationalGraphModel` with plain shuffled batches
and with `SizeBucketSampler`, beside graphs that are all of one size, that of the same number of pairs of nodes.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from relational_transformer.pyg import RelationalGraphModel, RelationalTransformerConv, SizeBucketSampler
from relational_transformer.runs.provenance import hardware

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PyG 2.8 calls torch.jit.script when it is imported
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import TransformerConv

Step = Callable[[], None]


def make_steps(num_nodes: int, num_edges: int, channels: int, heads: int, edge_dim: int) -> dict[str, Step]:
    """Forward and backward of each layer on one random graph."""
    torch.manual_seed(0)
    edge_index = torch.randint(num_nodes, (2, num_edges))
    x = torch.randn(num_nodes, channels, requires_grad=True)
    edge_attr = torch.randn(num_edges, edge_dim, requires_grad=True) if edge_dim else None

    def ours(**options: bool) -> RelationalTransformerConv:
        return RelationalTransformerConv(
            channels, channels, heads, edge_dim=edge_dim or None, edge_channels=edge_dim or None, **options
        )

    layers = {
        "TransformerConv": TransformerConv(channels, channels // heads, heads=heads, edge_dim=edge_dim or None),
        "ours, nodes alone": ours(return_edges=False),
        "ours, nodes and edges": ours(),
    }

    def step(layer: torch.nn.Module) -> None:
        output = layer(x, edge_index, edge_attr)
        outputs = (output,) if isinstance(output, Tensor) else output
        torch.stack([tensor.square().mean() for tensor in outputs]).sum().backward()

    return {name: lambda layer=layer: step(layer) for name, layer in layers.items()}


def make_graphs(count: int) -> list[Data]:
    """Random graphs of 5 to 60 nodes, most of them small, as the molecules of ESOL are."""
    torch.manual_seed(0)
    sizes = (5 + torch.empty(count).exponential_(1 / 9)).clamp(max=60).long().tolist()
    return [make_graph(size) for size in sizes]


def make_graph(size: int) -> Data:
    return Data(x=torch.randn(size, 16), edge_index=torch.randint(size, (2, 2 * size)).unique(dim=1))


def make_epochs(graphs: list[Data], batch_size: int) -> tuple[dict[str, Step], dict[str, float]]:
    """An epoch, forward and backward, of graphs that need no padding, by plain batches and by buckets of sizes; and the
    pairs of nodes that each computes, beside those that there are."""
    model = RelationalGraphModel(16, 1, num_layers=2)
    sizes = [graph.num_nodes or 0 for graph in graphs]
    sampler = SizeBucketSampler(sizes, batch_size)
    pairs = sum(size**2 for size in sizes)
    alike = round((pairs / len(sizes)) ** 0.5)
    loaders = {
        "graphs of one size": DataLoader([make_graph(alike) for _ in graphs], batch_size=batch_size),
        "plain batches": DataLoader(graphs, batch_size=batch_size, shuffle=True),
        "SizeBucketSampler": DataLoader(graphs, batch_sampler=sampler),
    }

    def epoch(loader: DataLoader) -> None:
        for batch in loader:
            model(batch).square().mean().backward()

    def padded(loader: DataLoader) -> float:
        return sum(batch.num_graphs * int(batch.batch.bincount().max()) ** 2 for batch in loader) / pairs

    steps = {name: lambda loader=loader: epoch(loader) for name, loader in loaders.items()}
    return steps, {name: padded(loader) for name, loader in loaders.items()}


def medians(steps: dict[str, Step], rounds: int) -> dict[str, float]:
    """Median seconds of each, which take turns; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=["64x4x16", "64x4x64", "64x4x0"],
        help="channels x heads x edge_dim; 0: edges without features",
    )
    parser.add_argument("--graphs", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {hardware(torch.device('cpu'))}, {options.rounds} rounds\n")
    print(f"{options.nodes} nodes, {options.edges} edges, forward and backward\n")
    print("| channels | heads | edge_dim | layer | ms | / TransformerConv |")
    print("|---:|---:|---:|---|---:|---:|")
    for size in options.sizes:
        channels, heads, edge_dim = map(int, size.split("x"))
        found = medians(make_steps(options.nodes, options.edges, channels, heads, edge_dim), options.rounds)
        for name, seconds in found.items():
            ratio = seconds / found["TransformerConv"]
            print(f"| {channels} | {heads} | {edge_dim} | {name} | {1e3 * seconds:.0f} | {ratio:.2f} |", flush=True)

    print(f"\nAn epoch of {options.graphs} graphs of 5 to 60 nodes, {options.batch_size} to a batch\n")
    print("| batches | ms | / graphs of one size | pairs computed / pairs there are |")
    print("|---|---:|---:|---:|")
    steps, pairs = make_epochs(make_graphs(options.graphs), options.batch_size)
    found = medians(steps, options.rounds)
    for name, seconds in found.items():
        ratio = seconds / found["graphs of one size"]
        print(f"| {name} | {1e3 * seconds:.0f} | {ratio:.2f} | {pairs[name]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
