"""PyG node classification: who is trusted, where only the vectors on the edges can tell.

Each graph is a random network of people. One in five is known to be honest or a liar (a node feature says which); the
rest must be guessed. An edge j -> i carries what j once said about i, as a noisy vector: praise or blame. A praise from
an honest one, or a blame from a liar, means honest, so a node must read the feature of the other node and the vector of
the edge together, and hear of those further away through the nodes between: messages that do not depend on the edge say
nothing at all. The graphs come from PyG's own DataLoader; the layer is `RelationalTransformerConv` in its sparse mode.

Trains for ten seconds on one core and prints the share of the unknown ones it guesses right on new graphs: 98.0% with
the default settings. (Seeds 0 to 4 give 98.0% to 99.3%; with the edge vectors set to zero nothing can be learnt, 50%.)
"""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from relational_transformer.pyg import RelationalTransformerConv

EDGE_CHANNELS = 4


def make_graph(num_nodes: int = 30, statements_each: int = 4) -> Data:
    """A network: x [N, 3] (unknown, liar, honest), edge_attr [E, 4], y [N], and unknown [N], who is to be guessed."""
    honest = torch.rand(num_nodes) < 0.5
    known = torch.rand(num_nodes) < 0.2
    x = F.one_hot(torch.where(known, 1 + honest.long(), 0), 3).float()
    target = torch.arange(num_nodes).repeat_interleave(statements_each)
    source = (target + torch.randint(1, num_nodes, target.shape)) % num_nodes  # nobody speaks of themselves
    praise = honest[source] == honest[target]
    edge_attr = 0.5 * torch.randn(len(source), EDGE_CHANNELS)
    edge_attr[:, 0] += torch.where(praise, 1.0, -1.0)
    return Data(x=x, edge_index=torch.stack([source, target]), edge_attr=edge_attr, y=honest.long(), unknown=~known)


class Model(nn.Module):
    def __init__(self, num_layers: int = 3, channels: int = 32) -> None:
        super().__init__()
        # -1: the sizes of nodes and edges are taken from the first batch.
        first = RelationalTransformerConv(-1, channels, heads=4, edge_dim=-1, edge_channels=16)
        others = [
            RelationalTransformerConv(channels, channels, heads=4, edge_dim=16, edge_channels=16)
            for _ in range(num_layers - 1)
        ]
        self.layers = nn.ModuleList([first, *others])
        self.readout = nn.Linear(channels, 2)

    def forward(self, data: Data) -> torch.Tensor:
        x, edge_attr = data.x, data.edge_attr
        for layer in self.layers:
            x, edge_attr = layer(x, data.edge_index, edge_attr, data.batch)
        return self.readout(x)


@torch.no_grad()
def accuracy(model: nn.Module, graphs: list[Data]) -> float:
    right = [(model(data).argmax(-1) == data.y)[data.unknown] for data in DataLoader(graphs, batch_size=64)]
    return torch.cat(right).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument(
        "--graphs", type=int, default=512, help="graphs to train on; as many again, up to 256, to test on"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    training = [make_graph() for _ in range(arguments.graphs)]
    test = [make_graph() for _ in range(min(arguments.graphs, 256))]
    loader = DataLoader(training, batch_size=16, shuffle=True)

    model = Model()
    with torch.no_grad():
        model(next(iter(loader)))  # now the sizes are known
    steps = arguments.epochs * len(loader)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=steps)
    started = time.perf_counter()
    for epoch in range(1, arguments.epochs + 1):
        for data in loader:
            loss = F.cross_entropy(model(data)[data.unknown], data.y[data.unknown])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 2 == 0:
            print(f"epoch {epoch:3d}   accuracy {accuracy(model, test):6.1%}", flush=True)
    print(f"accuracy on new graphs: {accuracy(model, test):.1%} ({time.perf_counter() - started:.0f} s of training)")


if __name__ == "__main__":
    main()
