"""Models of molecules of about one size each: `RelationalGraphModel`, and models made of PyTorch Geometric's layers."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from relational_transformer.pyg import AddPairEncodings, RelationalGraphModel
from relational_transformer.pyg.features import Categories

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PyG 2.8 calls torch.jit.script when it is imported
    from torch_geometric.data import Data
    from torch_geometric.nn import GINEConv, GPSConv, TransformerConv, global_mean_pool
    from torch_geometric.utils.smiles import e_map, x_map

ATOMS = tuple(len(values) for values in x_map.values())
"""Categories of each feature of `torch_geometric.utils.from_smiles`."""
BONDS = tuple(len(values) for values in e_map.values())
HEADS = 4
WALKS = 16
"""Channels of PyG's AddRandomWalkPE, which GPS reads."""
PAIRS = AddPairEncodings(shortest_paths=8)
"""What RT reads of pairs of atoms."""


class Layered(nn.Module):
    """A model of PyG's layers: learnt vectors of features, layers, the mean over a molecule's atoms, and a head."""

    def __init__(self, make_layer: Callable[[int], nn.Module], width: int, num_layers: int, walks: int = 0) -> None:
        super().__init__()
        self.walks = walks
        self.atoms = Categories("x", ATOMS, width - walks)
        self.bonds = Categories("edge_attr", BONDS, width)
        self.walk_norm = nn.BatchNorm1d(walks) if walks else None
        self.layers = nn.ModuleList(make_layer(width) for _ in range(num_layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Data) -> Tensor:
        x, edges = self.atoms(batch.x), self.bonds(batch.edge_attr)
        if self.walk_norm is not None:
            x = torch.cat([x, self.walk_norm(batch.walks)], dim=-1)
        for layer in self.layers:
            x = layer(x, batch.edge_index, edges, batch.batch)
        return self.head(global_mean_pool(x, batch.batch))


class Residual(nn.Module):
    """A convolution with BatchNorm, ReLU and a residual."""

    def __init__(self, conv: nn.Module, width: int) -> None:
        super().__init__()
        self.conv = conv
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, _batch: Tensor) -> Tensor:
        return x + self.norm(self.conv(x, edge_index, edge_attr)).relu()


class GlobalAndLocal(GPSConv):
    """GPSConv with arguments in the order of `Layered`."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:  # pyright: ignore
        return super().forward(x, edge_index, batch, edge_attr=edge_attr)


def gine(width: int) -> GINEConv:
    return GINEConv(nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)))


def make_rt(width: int, num_layers: int) -> nn.Module:
    return RelationalGraphModel(
        ATOMS, 1, BONDS, pair_dim=PAIRS.channels, node_size=width, edge_size=width // 4, num_heads=HEADS,
        head_size=width // HEADS, node_hidden_size=2 * width, edge_hidden_sizes=(width // 4, width // 4),
        num_layers=num_layers,
    )  # fmt: skip


def make_gps(width: int, num_layers: int) -> nn.Module:
    return Layered(lambda width: GlobalAndLocal(width, gine(width), heads=HEADS), width, num_layers, walks=WALKS)


def make_transformer_conv(width: int, num_layers: int) -> nn.Module:
    def layer(width: int) -> nn.Module:
        return Residual(TransformerConv(width, width // HEADS, heads=HEADS, edge_dim=width), width)

    return Layered(layer, width, num_layers)


def make_gine(width: int, num_layers: int) -> nn.Module:
    return Layered(lambda width: Residual(gine(width), width), width, num_layers)


MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "RT": make_rt,
    "GPS": make_gps,
    "TransformerConv": make_transformer_conv,
    "GINE": make_gine,
}


def make_model(name: str, num_layers: int, most_parameters: int) -> nn.Module:
    """The model of this name with the largest width, in steps of 4, that has no more parameters than allowed."""
    width = WALKS + 4
    while count(MODELS[name](width + 4, num_layers)) <= most_parameters:
        width += 4
    return MODELS[name](width, num_layers)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
