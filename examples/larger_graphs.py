"""Graphs larger than those of training: what becomes of a relational transformer's error, and what mends it.

Small models learn the distances from one node to all others in random graphs of 20 nodes, whose edges have lengths, and
are tested on graphs of 10 to 60. A softmax over more nodes is flatter. Compared are a model that attends to every pair,
the same with scores that grow with log N, models with attention along the graph's edges in all heads or in half of
them, and models that were trained on graphs of 5 to 20 nodes. The table is in docs/larger-graphs.md.
"""

import argparse
import statistics
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer import LayerOptions, RelationalTransformer

LARGEST_TRAINED = 20
TESTED = (10, 20, 40, 60)
NUM_HEADS = 4


@dataclass(frozen=True)
class Variant:
    """A model and its training: how many heads attend along edges alone, and the sizes of the graphs it sees."""

    name: str
    heads_along_edges: int = 0
    smallest: int = LARGEST_TRAINED
    log_scaling: bool = False


VARIANTS = (
    Variant("every pair"),
    Variant("half of the heads along the edges", heads_along_edges=NUM_HEADS // 2),
    Variant("all heads along the edges", heads_along_edges=NUM_HEADS),
    Variant("every pair, trained on 5 to 20 nodes", smallest=5),
    Variant("every pair, trained on 5 to 20 nodes, log N", smallest=5, log_scaling=True),
)


def make_graphs(count: int, num_nodes: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Connected graphs of about four edges a node: nodes, edges, who is adjacent, and distances from the source."""
    parents = (torch.rand(count, num_nodes) * torch.arange(num_nodes)).long()  # of a node, one of those before it
    adjacent = F.one_hot(parents, num_nodes).bool() | (torch.rand(count, num_nodes, num_nodes) < 2 / (num_nodes - 1))
    adjacent, lengths = adjacent.tril(-1), torch.rand(count, num_nodes, num_nodes).tril(-1)
    adjacent, lengths = adjacent | adjacent.transpose(1, 2), lengths + lengths.transpose(1, 2)
    itself = torch.eye(num_nodes, dtype=torch.bool)
    distances = lengths.masked_fill(~adjacent, torch.inf).masked_fill(itself, 0.0)
    for middle in range(num_nodes):  # Floyd and Warshall
        distances = distances.minimum(distances[:, :, middle, None] + distances[:, None, middle])
    source = torch.randint(num_nodes, (count,))
    nodes = F.one_hot(source, num_nodes).float().unsqueeze(-1)  # [count, N, 1]
    edges = torch.stack([adjacent, adjacent * lengths], dim=-1)  # [count, N, N, 2]
    return nodes, edges, adjacent | itself, distances[torch.arange(count), source]


class Model(nn.Module):
    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.heads_along_edges = variant.heads_along_edges
        self.transformer = RelationalTransformer(
            1, 2, node_size=32, edge_size=16, num_heads=NUM_HEADS, edge_hidden_sizes=(32, 16), num_layers=4,
            options=LayerOptions(log_scaling_size=LARGEST_TRAINED if variant.log_scaling else None),
        )  # fmt: skip
        self.readout = nn.Linear(32, 1)

    def forward(self, nodes: Tensor, edges: Tensor, adjacent: Tensor) -> Tensor:
        bias = None
        if self.heads_along_edges:
            along = torch.arange(NUM_HEADS)[:, None, None] < self.heads_along_edges  # [H, 1, 1]
            hidden = along & ~adjacent.unsqueeze(1)  # [count, H, N, N]
            bias = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
        return self.readout(self.transformer(nodes, edges, attention_bias=bias).nodes).squeeze(-1)


def train(variant: Variant, seed: int, steps: int) -> Model:
    torch.manual_seed(seed)
    model = Model(variant)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.02, total_iters=steps)
    for _ in range(steps):
        num_nodes = int(torch.randint(variant.smallest, LARGEST_TRAINED + 1, ()))
        *graphs, distances = make_graphs(32, num_nodes)
        loss = (model(*graphs) - distances).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


@torch.no_grad()
def errors(model: nn.Module, count: int) -> list[float]:
    """Mean absolute errors on `count` new graphs of each size."""
    found = []
    for num_nodes in TESTED:
        torch.manual_seed(num_nodes)
        *graphs, distances = make_graphs(count, num_nodes)
        found.append((model(*graphs) - distances).abs().mean().item())
    return found


def run(variant: Variant, seed: int, steps: int, tested: int) -> dict[str, list[float]]:
    """Errors by name; trained on one size, a model with log N is the same one, and is only tested otherwise."""
    model = train(variant, seed, steps)
    found = {variant.name: errors(model, tested)}
    if variant == VARIANTS[0]:
        scaled = Model(replace(variant, log_scaling=True))
        scaled.load_state_dict(model.state_dict())
        found[f"{variant.name}, log N when tested"] = errors(scaled, tested)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="a model each")
    parser.add_argument("--steps", type=int, default=500, help="training steps of 32 graphs")
    parser.add_argument("--test-graphs", type=int, default=128, help="of each size")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # too small for several
    found: dict[str, list[list[float]]] = {}
    for variant in VARIANTS:
        for seed in arguments.seeds:
            for name, by_size in run(variant, seed, arguments.steps, arguments.test_graphs).items():
                found.setdefault(name, []).append(by_size)
                print(f"seed {seed}, {name}: {' '.join(f'{error:.3f}' for error in by_size)}", flush=True)
    print(f"\n| mean absolute error | {' | '.join(f'{size} nodes' for size in TESTED)} |\n|---|{'---:|' * len(TESTED)}")
    for name, by_seed in found.items():
        columns = zip(*by_seed, strict=True)
        cells = [f"{statistics.mean(column):.3f} ({min(column):.3f} to {max(column):.3f})" for column in columns]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
