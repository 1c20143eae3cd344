"""Records the attention weights of a model without changing it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from .attention import AttentionOutput, RelationalAttention
from .checks import shown


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    r"""Keep the weights of every relational attention inside `model`, for as long as the context is open.

    $$a_{ij} = \text{softmax}_j\left(\frac{q_{ij} \cdot k_{ij}}{\sqrt{D}}\right)$$

    The yielded dictionary fills as the model runs. It maps the name of each `RelationalAttention` in the model to the
    weights of its calls, [..., H, Nq, Nk], detached. A recurrent model calls its layers once per step. Fused kernels
    are off meanwhile. A compiled model cannot be recorded: pass the model that was compiled. A PyG convolution calls
    one of two attentions: `layer.attention` in complete mode, or `sparse_attention` in sparse mode, whose weights
    are [E, H], one row for each edge.

    >>> from relational_transformer import RelationalTransformer
    >>> model = RelationalTransformer(
    ...     7, 4, node_size=32, edge_size=16, num_heads=4, head_size=8, node_hidden_size=64, num_layers=2
    ... )
    >>> with record_attention(model) as recorded:
    ...     output = model(torch.randn(10, 7), torch.randn(10, 10, 4))
    >>> list(recorded)
    ['layers.0.attention', 'layers.1.attention']
    >>> recorded["layers.1.attention"][0].shape
    torch.Size([4, 10, 10])
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {shown(model)}")
    attentions = {name: module for name, module in model.named_modules() if _gives_weights(module)}
    if not attentions:
        raise ValueError(f"this {type(model).__name__} contains no relational attention")
    if any("_orig_mod" in name.split(".") for name in attentions):  # as torch.compile names the original
        raise ValueError("attention cannot be recorded in a compiled model: record the model that was compiled")
    recorded: dict[str, list[Tensor]] = {name: [] for name in attentions}

    def ask(_: nn.Module, arguments: tuple, options: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return arguments, {**options, "need_weights": True}

    with ExitStack() as hooks:
        for name, attention in attentions.items():

            def keep(_: nn.Module, __: tuple, output: AttentionOutput, name: str = name) -> None:
                assert output.weights is not None
                recorded[name].append(output.weights.detach())

            hooks.callback(attention.register_forward_pre_hook(ask, with_kwargs=True).remove)
            hooks.callback(attention.register_forward_hook(keep).remove)
        yield recorded


def _gives_weights(module: nn.Module) -> bool:
    """Whether a module takes `need_weights` and returns `weights`. Classes outside of `nn` declare it themselves."""
    return isinstance(module, RelationalAttention) or getattr(module, "gives_attention_weights", False)
