"""Relational attention on dense tensors: learn which of two nodes an edge points away from, and what it weighs.

A small relational transformer sees graphs whose nodes are empty and whose edges carry one number. It learns to answer,
for every node, the sum of the weights leaving it through edges that are heavier than the edge coming back: a question
that only a model with directed edge vectors can answer. Runs on a laptop in half a minute and prints the share of
variance it explains on new graphs: after the default 600 steps 94.0% at 8 nodes, the size it was trained on, and 90.8%
at 16. (Seeds 0 to 4 give 90.4% to 94.0%, and 87.6% to 90.8%.)
"""

import argparse

import torch
from torch import nn

from relational_transformer import RelationalTransformer


def make_graphs(count: int, num_nodes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    nodes = torch.ones(count, num_nodes, 1)
    weights = torch.rand(count, num_nodes, num_nodes)
    heavier = weights > weights.transpose(1, 2)
    target = (weights * heavier).mean(dim=2)  # [count, num_nodes]
    return nodes, weights.unsqueeze(-1), target


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = RelationalTransformer(
            1, 1, node_size=32, edge_size=16, num_heads=4, head_size=8, node_hidden_size=32, num_layers=2
        )
        self.readout = nn.Linear(32, 1)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.readout(self.transformer(nodes, edges).nodes).squeeze(-1)


def explained(model: nn.Module, num_nodes: int) -> float:
    nodes, edges, target = make_graphs(256, num_nodes)
    with torch.no_grad():
        error = (model(nodes, edges) - target).square().mean()
    return 1 - (error / target.var()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=600, help="training steps of 32 graphs")
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=steps)
    for step in range(1, steps + 1):
        nodes, edges, target = make_graphs(32, num_nodes=8)
        loss = (model(nodes, edges) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step:4d}   loss {loss.item():.5f}   explained {explained(model, 8):6.1%}", flush=True)
    print(f"explained variance on new graphs of 8 nodes: {explained(model, 8):.1%}, of 16: {explained(model, 16):.1%}")


if __name__ == "__main__":
    main()
