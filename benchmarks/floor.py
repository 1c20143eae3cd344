"""FLOP and bytes that a layer needs at least, and the least time for them on a card. Needs no GPU.

    python benchmarks/floor.py                                  # an H200, at the rates measured on one
    python benchmarks/floor.py --teraflops 600 --gigabytes 3000 # another card

All is counted in bfloat16. FLOP are those of the products, with both identities of docs/kernels.md; the backward pass
computes queries and keys of the edges again instead of reading them. Bytes are each tensor of the edges' size read or
written once (forward two, backward three), the nodes and the weights. The least time of a pass is the larger of the
two: FLOP over the card's rate of a large product, bytes over its rate of a large copy.
"""

import argparse
from dataclasses import dataclass

MESSAGE_SIZE, FEED_SIZE, NODE_HIDDEN_SIZE = 16, 8, 32
HEAD_SIZE = 16
BYTES = 2
"""Of a number in bfloat16."""

Cost = tuple[float, float]
"""FLOP and bytes."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a fleet's layer: `graphs` graphs of `nodes` nodes for each of `seeds` models. If `masked`, graphs have
    absent nodes; they count like the others."""

    seeds: int
    graphs: int
    nodes: int
    heads: int
    head_size: int
    edge_size: int
    masked: bool = False

    @property
    def all_nodes(self) -> int:
        return self.seeds * self.graphs * self.nodes

    @property
    def edges(self) -> int:
        return self.all_nodes * self.nodes

    @property
    def width(self) -> int:
        return self.heads * self.head_size

    @property
    def edge_bytes(self) -> int:
        """The size of the tensor of all edge vectors."""
        return BYTES * self.edges * self.edge_size

    def attention_cost(self, training: bool) -> Cost:
        """Queries and keys of all edges, mean edges; backward three times the products."""
        forward = self.edges * (4 * self.width * self.edge_size + 2 * self.heads * self.edge_size)
        return (4 * forward, 3 * self.edge_bytes) if training else (forward, self.edge_bytes)

    def edge_update_cost(self, training: bool) -> Cost:
        """Both small MLPs; backward reads edges and gradient and writes a gradient."""
        forward = self.edges * self.edge_size * (6 * MESSAGE_SIZE + 4 * FEED_SIZE)
        return (3 * forward, 5 * self.edge_bytes) if training else (forward, 2 * self.edge_bytes)

    def layer_cost(self, training: bool) -> Cost:
        """Both of the above, on edges that are read once, and all that is done to the nodes."""
        linears = 6 * self.width + 2 * self.width + 4 * NODE_HIDDEN_SIZE + 4 * MESSAGE_SIZE
        node = self.width * linears + 2 * self.width * self.edge_size
        flops = self.attention_cost(training)[0] + self.edge_update_cost(training)[0]
        flops += (3 if training else 1) * self.all_nodes * node
        passes = 5 if training else 2
        nodes = BYTES * self.all_nodes * self.width
        return flops, passes * (self.edge_bytes + nodes) + (passes // 2) * BYTES * self._weights

    @property
    def _weights(self) -> int:
        """The numbers in the matrices of all seeds."""
        nodes = self.width * (4 * self.width + 2 * NODE_HIDDEN_SIZE + 2 * MESSAGE_SIZE)
        edges = self.edge_size * (3 * self.width + 3 * MESSAGE_SIZE + 2 * FEED_SIZE)
        return self.seeds * (nodes + edges)

    def pointers_cost(self, training: bool, pointers: int) -> Cost:
        """A maximum, a product and a sum for each edge, node and channel; backward three such sums."""
        forward = 3 * pointers * self.edges * self.nodes * self.edge_size
        tensor = pointers * self.edge_bytes
        return (4 * forward, 3 * tensor) if training else (forward, tensor)


@dataclass(frozen=True)
class Card:
    """What a card was measured to reach: TFLOP/s of a large product in bfloat16, GB/s of a large copy."""

    teraflops: float
    gigabytes: float

    def least(self, cost: Cost) -> float:
        """Microseconds."""
        return max(self.by_flops(cost), self.by_bytes(cost))

    def by_flops(self, cost: Cost) -> float:
        return cost[0] / self.teraflops / 1e6

    def by_bytes(self, cost: Cost) -> float:
        return cost[1] / self.gigabytes / 1e3

    def least_training(self, sizes: Sizes) -> float:
        """Of a layer, forward and then backward."""
        return self.least(sizes.layer_cost(False)) + self.least(backward_cost(sizes))


H200 = Card(teraflops=790, gigabytes=4300)

PAPER = Sizes(seeds=80, graphs=4, nodes=16, heads=12, head_size=HEAD_SIZE, edge_size=192)

USERS = {
    f"{graphs}x{nodes}x{channels}": Sizes(1, graphs, nodes, channels // HEAD_SIZE, HEAD_SIZE, channels, masked=True)
    for graphs, nodes, channels in (
        (128, 24, 128),
        (64, 32, 128),
        (64, 32, 192),
        (32, 48, 128),
        (32, 64, 192),
        (8, 128, 128),
        (4, 256, 128),
    )
}
"""Graphs, nodes and channels: molecules, lobsters, Sokoban, tests, large graphs."""


def backward_cost(sizes: Sizes) -> Cost:
    """A layer's backward pass."""
    (both_flops, both_bytes), (flops, size) = sizes.layer_cost(True), sizes.layer_cost(False)
    return both_flops - flops, both_bytes - size


def table(card: Card) -> list[str]:
    """Rows in Markdown: forward, backward, and both."""
    parts = ["GFLOP", "MB", "us by FLOP", "us by bytes"]
    head = ["graphs", "nodes", "channels", f"forward: {parts[0]}", *parts[1:], f"backward: {parts[0]}", *parts[1:]]
    head.append("least us, both")
    lines = [f"| {' | '.join(head)} |", f"|{'---:|' * len(head)}"]
    for sizes in (PAPER, *USERS.values()):
        cells = [str(sizes.seeds * sizes.graphs), str(sizes.nodes), str(sizes.edge_size)]
        for cost in (sizes.layer_cost(False), backward_cost(sizes)):
            cells += [f"{cost[0] / 1e9:.1f}", f"{cost[1] / 1e6:.1f}"]
            cells += [f"{card.by_flops(cost):.1f}", f"{card.by_bytes(cost):.1f}"]
        lines.append(f"| {' | '.join([*cells, f'{card.least_training(sizes):.1f}'])} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teraflops", type=float, default=H200.teraflops)
    parser.add_argument("--gigabytes", type=float, default=H200.gigabytes)
    arguments = parser.parse_args()
    print("\n".join(table(Card(arguments.teraflops, arguments.gigabytes))))


if __name__ == "__main__":
    main()
