"""Graph attention networks, second version: a nonlinearity between the sum over nodes and edge and the score."""

from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.initialization import reset_linear
from relational_transformer.nn.plain import is_plain

from .gat import GAT, FullGAT, attend


class GATv2Layer(nn.Module):
    r"""Graph attention whose score is a small network of both nodes, the edge and the global vector.

    $$x_{ij} = W_1 z_j + W_2 z_i + W_e e_{ij} + W_g g \qquad s^h_{ij} = a^h \cdot \text{LeakyReLU}(x_{ij})^h + b^h$$

    then softmax over j, values, skip connection and normalisation as in `GATLayer`. Shapes as there.
    """

    def __init__(self, node_size: int, size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.from_nodes = nn.Linear(node_size, 4 * size)  # values, skip, W_1, W_2, stacked
        self.from_edges = nn.Linear(size, size)
        self.from_globals = nn.Linear(size, size)
        self.score = nn.Linear(size // num_heads, num_heads)  # row h scores head h, and no other
        self.norm = nn.LayerNorm(size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.from_nodes, self.from_edges, self.from_globals, self.score):
            reset_linear(linear)
        self.norm.reset_parameters()

    def forward(self, nodes: Tensor, edges: Tensor, globals: Tensor, adjacency: Tensor | None) -> Tensor:
        values, skip, sender, receiver = self.from_nodes(nodes).chunk(4, dim=-1)
        receiver = receiver + self.from_globals(globals).unsqueeze(-2)
        pairs = sender.unsqueeze(-3) + receiver.unsqueeze(-2) + self.from_edges(edges)  # [..., i, j, size]
        by_head = F.leaky_relu(pairs).unflatten(-1, (self.num_heads, -1))
        if is_plain(self.score):
            scores = (by_head * self.score.weight).sum(-1) + self.score.bias  # [..., i, j, H]
        else:
            scores = self.score(by_head).diagonal(dim1=-2, dim2=-1)
        return self.norm(F.relu(attend(scores, values, adjacency) + skip))


class GATv2(GAT):
    """GATv2 (Brody et al., 2022), attending along the adjacency."""

    layer = GATv2Layer


class FullGATv2(FullGAT):
    """A GATv2 in which every node attends to every node."""

    layer = GATv2Layer
