"""Variants of the layer in one frozen dataclass, whose defaults are the published layer."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor, nn
from torch.nn import functional as F

from .checks import check_choice, check_flag, check_log_scaling_size, check_number
from .plain import EPSILON

Norm = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "swiglu"]


@dataclass(frozen=True)
class LayerOptions:
    r"""Variants of the layer. The defaults are the published layer, with its parameters to the bit.

    Args:
        pre_norm: norms act on the inputs of attention, feed-forward and edge update, not on their sums with the
            residuals (Xiong et al., 2020). Attention has a further norm for edges, the edge update one for nodes,
            and `RelationalTransformer` one for nodes and one for edges after its last layer.
        norm: ``layer``, or ``rms`` for RMSNorm (Zhang & Sennrich, 2019).
        activation: of the feed-forward of the nodes and both hidden layers of the edge update: ``relu``, ``gelu``, or
            ``swiglu`` (Shazeer, 2020), $\text{SiLU}(x_1)\,x_2$, whose first Linear has twice the outputs.
        attention_dropout: the share of attention weights that are dropped in training.
        log_scaling_size: the size of graph at which attention has the published scores. The scores of a node that
            attends to n nodes are multiplied by log n / log log_scaling_size (Chiang & Cholak, 2022; Nakanishi, 2025),
            which keeps attention as sharp on larger graphs. None for the published scores at every size.
        gradient_checkpointing: in training a layer keeps only its inputs for the backward pass and recomputes the
            rest; under the transforms of `torch.func` it keeps everything.

    Fused kernels and split products are used where the options leave the published equations unchanged; elsewhere
    the modules are called.

    >>> from relational_transformer import RelationalTransformerLayer
    >>> options = LayerOptions(pre_norm=True, norm="rms", activation="swiglu")
    >>> layer = RelationalTransformerLayer(node_size=32, edge_size=16, num_heads=4, options=options)
    >>> layer(torch.randn(5, 32), torch.randn(5, 5, 16)).nodes.shape
    torch.Size([5, 32])
    """

    pre_norm: bool = False
    norm: Norm = "layer"
    activation: Activation = "relu"
    attention_dropout: float = 0.0
    log_scaling_size: int | None = None
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        check_flag(pre_norm=self.pre_norm, gradient_checkpointing=self.gradient_checkpointing)
        check_choice("norm", self.norm, get_args(Norm))
        check_choice("activation", self.activation, get_args(Activation))
        check_number("attention_dropout", self.attention_dropout, below=1.0)
        check_log_scaling_size(self.log_scaling_size)

    @property
    def has_published_blocks(self) -> bool:
        """Whether norms and activations are the published layer's, and where it has them."""
        return (self.pre_norm, self.norm, self.activation) == (False, "layer", "relu")

    def make_norm(self, size: int, **factory: Any) -> nn.LayerNorm | nn.RMSNorm:
        """A norm of vectors of this size."""
        return (nn.LayerNorm if self.norm == "layer" else nn.RMSNorm)(size, eps=EPSILON, **factory)

    def widened(self, hidden_size: int) -> int:
        """The number of outputs of the Linear before an activation that has `hidden_size` channels after it."""
        return 2 * hidden_size if self.activation == "swiglu" else hidden_size

    def activate(self, hidden: Tensor) -> Tensor:
        """The activation, [..., widened] -> [..., hidden]."""
        if self.activation == "swiglu":
            gate, value = hidden.chunk(2, dim=-1)
            return F.silu(gate) * value
        return F.relu(hidden) if self.activation == "relu" else F.gelu(hidden)


PUBLISHED = LayerOptions()
"""The layer as it was published."""


def check_options(options: Any) -> None:
    """ValueError where options are no `LayerOptions`."""
    if not isinstance(options, LayerOptions):
        raise ValueError(f"options must be LayerOptions, got {type(options).__name__}")
