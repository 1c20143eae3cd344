"""A processor of your own: thirty lines, and it learns breadth-first search.

Trains a new processor on CLRS-30's BFS with graphs of 8 nodes, and tests it on new graphs of 8 and of 16. Runs on a
laptop in half a minute; expect more than 95% of its pointers to be right on both.
"""

import argparse
from typing import Self

import torch
from torch import Tensor, nn

from relational_transformer.clrs import sample
from relational_transformer.processors import PROCESSORS, GraphState, Processor, Settings
from relational_transformer.reasoning import Batch, Network, build_network, pack
from relational_transformer.reasoning.scores import count_all, mean_score


class Gossip(Processor):
    """Every node hears the loudest of its neighbours, through the edge between them."""

    uses_adjacency = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.speak = nn.Linear(2 * size, size)
        self.through = nn.Linear(size, size)
        self.update = nn.Sequential(nn.Linear(3 * size, size), nn.ReLU(), nn.Linear(size, size), nn.LayerNorm(size))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.hidden_size)

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        assert features.edges is not None
        assert adjacency is not None
        nodes = torch.cat([features.nodes, hidden.nodes], dim=-1)  # [B, N, 2·size]
        said = self.speak(nodes).unsqueeze(-3) + self.through(features.edges)  # [B, i, j, size]: what i hears from j
        silent = ~adjacency if node_mask is None else ~(adjacency & node_mask.unsqueeze(-2))
        heard = said.relu().masked_fill(silent.unsqueeze(-1), 0.0).amax(-2)  # [B, i, size]
        return GraphState(self.update(torch.cat([nodes, heard], dim=-1)))


PROCESSORS["gossip"] = f"{__name__}.Gossip"


def draw(network: Network, count: int, num_nodes: int, seed: int) -> Batch:
    data = sample("bfs", count, num_nodes, seed)
    inputs, hints, outputs = (
        {name: torch.from_numpy(array) for name, array in stage.items()}
        for stage in (data.inputs, data.hints, data.outputs)
    )
    return network.pack(inputs, hints, outputs, torch.from_numpy(data.lengths))


def score(network: Network, num_nodes: int) -> float:
    batch = draw(network, 64, num_nodes, seed=12345)
    first_hints = {key: hint[0] for key, hint in batch.hints.items()}
    with torch.no_grad():
        outputs = network.predict(batch.inputs, first_hints, batch.lengths).outputs
    counts = count_all(network.outputs, pack(network.outputs, outputs), batch.outputs)
    return mean_score(network.outputs, counts).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=200, help="training steps of 32 graphs")
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    network = build_network("bfs", Settings(processor="gossip", hidden_size=32, pointers_from_edges=False))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(1, steps + 1):
        batch = draw(network, 32, num_nodes=8, seed=step)
        num_steps = batch.hints["node_pointer"].shape[0] - 1
        loss = network(batch, teacher_forced=torch.rand(num_steps, 32) < 0.5).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:4d}   loss {loss.item():.3f}   right pointers {score(network, 8):.1%}", flush=True)
    print(f"right pointers on new graphs of 8 nodes: {score(network, 8):.1%}, of 16: {score(network, 16):.1%}")


if __name__ == "__main__":
    main()
