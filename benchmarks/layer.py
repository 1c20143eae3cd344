"""What edges cost: forward and backward of one layer, as ratios to two anchors measured in the same run.

- `torch.nn.TransformerEncoderLayer` with the same nodes, heads and node feed-forward: a layer without edges.
- the paper's equations written literally, every concatenation built: a layer with edges and no thought for their cost.

Time is the fastest of several rounds (other work on the machine only ever adds to it), in which the three take turns.
Memory is the peak of what torch's allocator held during one forward and backward, above what was there before
(parameters and inputs): on CUDA from `torch.cuda.max_memory_allocated`, on the CPU from the allocations that
`torch.profiler` records. Scratch space that a BLAS library takes for itself is not in it.
"""

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from relational_transformer import RelationalTransformerLayer
from relational_transformer.runs.provenance import hardware

HEAD_SIZE = 16
NODE_HIDDEN_SIZE = 32


class Size(NamedTuple):
    """A batch of graphs; nodes and edges have `channels` each."""

    batch: int
    num_nodes: int
    channels: int


class Cost(NamedTuple):
    """Of one forward and backward."""

    seconds: float
    peak_bytes: int


SIZES = (Size(4, 16, 192), Size(32, 64, 128), Size(1, 512, 64))


class NaiveLayer(nn.Module):
    """Eq. 1 and 3-5 of the paper as they are printed, over the parameters of `layer`: the same function, with every
    concatenation, query, key and value built for every edge."""

    def __init__(self, layer: RelationalTransformerLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        layer, attention, update = self.layer, self.layer.attention, self.layer.edge_update
        assert update is not None
        pairs = edges.shape[:-1]  # [B, N, N]
        weight = torch.cat([attention.node_qkv.weight, attention.edge_qkv.weight], dim=1).chunk(3)
        bias = (attention.node_qkv.bias + attention.edge_qkv.bias).chunk(3)
        receiver = torch.cat([nodes.unsqueeze(2).expand(*pairs, -1), edges], dim=-1)  # [B, N, N, d_n + d_e]
        sender = torch.cat([nodes.unsqueeze(1).expand(*pairs, -1), edges], dim=-1)
        heads = (attention.num_heads, attention.head_size)
        query = F.linear(receiver, weight[0], bias[0]).unflatten(-1, heads)  # [B, N, N, H, D]
        key = F.linear(sender, weight[1], bias[1]).unflatten(-1, heads)
        value = F.linear(sender, weight[2], bias[2]).unflatten(-1, heads)
        scores = (query * key).sum(-1) * attention.head_size**-0.5  # [B, N, N, H]
        messages = (scores.softmax(dim=2).unsqueeze(-1) * value).sum(2).flatten(-2)  # [B, N, H·D]

        nodes = layer.node_norm(nodes + layer.node_output(messages))
        hidden = F.relu(layer.node_feed_forward_in(nodes))
        nodes = layer.node_feed_forward_norm(nodes + layer.node_feed_forward_out(hidden))

        locale = [edges, edges.transpose(1, 2), nodes.unsqueeze(1).expand(*pairs, -1)]
        locale.append(nodes.unsqueeze(2).expand(*pairs, -1))
        message = F.relu(update.message_in(torch.cat(locale, dim=-1)))
        middle = update.norm(edges + update.message_out(message))
        return nodes, update.feed_forward_norm(middle + update.feed_forward_out(F.relu(update.feed_forward_in(middle))))


def make_steps(size: Size, device: torch.device) -> dict[str, Callable[[], None]]:
    """One forward and backward of each of the three layers, after a check that ours and the naive one agree."""
    torch.manual_seed(0)
    num_heads = size.channels // HEAD_SIZE
    layer = RelationalTransformerLayer(
        node_size=size.channels,
        edge_size=size.channels,
        num_heads=num_heads,
        head_size=HEAD_SIZE,
        node_hidden_size=NODE_HIDDEN_SIZE,
    ).to(device)
    naive = NaiveLayer(layer)
    encoder = nn.TransformerEncoderLayer(
        size.channels, num_heads, dim_feedforward=NODE_HIDDEN_SIZE, dropout=0.0, batch_first=True, device=device
    )
    nodes = torch.randn(size.batch, size.num_nodes, size.channels, device=device, requires_grad=True)
    edges = torch.randn(size.batch, size.num_nodes, size.num_nodes, size.channels, device=device, requires_grad=True)
    with torch.no_grad():
        for ours, expected in zip(layer(nodes, edges), naive(nodes, edges), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-2, atol=1e-2)  # wide enough for tf32

    def step(module: nn.Module, *inputs: Tensor) -> None:
        outputs = module(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
        for tensor in (*inputs, *module.parameters()):
            tensor.grad = None

    return {
        "layer": lambda: step(layer, nodes, edges),
        "encoder": lambda: step(encoder, nodes),
        "naive": lambda: step(naive, nodes, edges),
    }


def measure(size: Size, device: torch.device, rounds: int) -> dict[str, Cost]:
    """Fastest time and peak memory of each layer at this size."""
    steps = make_steps(size, device)
    peaks = {name: peak_bytes(step, device) for name, step in steps.items()}  # these runs warm up as well
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            synchronize(device)
            start = time.perf_counter()
            step()
            synchronize(device)
            seconds[name].append(time.perf_counter() - start)
    return {name: Cost(min(seconds[name]), peaks[name]) for name in steps}


def peak_bytes(step: Callable[[], None], device: torch.device) -> int:
    """The most memory that torch's allocator held during `step`, above what it held before."""
    step()  # what is allocated once and kept (workspaces, caches) is no cost of a step
    if device.type == "cuda":
        synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        step()
        synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    allocations = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(allocations, key=lambda event: event.start_ns()):
        held += event.nbytes()  # pyright: ignore[reportAttributeAccessIssue]: missing in torch's stub
        peak = max(peak, held)
    return peak


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def row(device: torch.device, size: Size, costs: dict[str, Cost]) -> str:
    """One line of the table."""
    ours, encoder, naive = costs["layer"], costs["encoder"], costs["naive"]
    cells = [
        device.type,
        *map(str, size),
        f"{ours.seconds * 1e3:.2f}",
        f"{ours.peak_bytes / 2**20:.1f}",
        f"{ours.seconds / encoder.seconds:.1f}",
        f"{ours.peak_bytes / encoder.peak_bytes:.1f}",
        f"{naive.seconds / ours.seconds:.2f}",
        f"{naive.peak_bytes / ours.peak_bytes:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed runs of each layer at each size")
    parser.add_argument("--sizes", nargs="+", default=["x".join(map(str, size)) for size in SIZES],
                        help="batch x nodes x channels, as in 4x16x192")  # fmt: skip
    options = parser.parse_args(arguments)
    sizes = [Size(*map(int, size.split("x"))) for size in options.sizes]
    devices = [torch.device("cpu"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]

    print(f"torch {torch.__version__}, float32, forward and backward of one layer, fastest of {options.rounds}")
    for device in devices:
        cuda = f", CUDA {torch.version.cuda}" if device.type == "cuda" else ""
        print(f"{device.type}: {hardware(device)}{cuda}")
    print()
    print("| device | batch | nodes | channels | ms | MiB | time / encoder | memory / encoder "
          "| naive time / ours | naive memory / ours |")  # fmt: skip
    print("|---|" + "---:|" * 9)
    for device in devices:
        for size in sizes:
            print(row(device, size, measure(size, device, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
