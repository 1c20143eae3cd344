"""Random inputs for the kernels, the plain path on them, and the yardstick: twice the plain path's own error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from relational_transformer.nn import kernels
from relational_transformer.nn.attention import relational_attention
from relational_transformer.nn.edge_update import edge_update

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class AttentionCase:
    """Sizes of a fleet's attention: one model a seed, some graphs each."""

    queries: int
    keys: int
    heads: int
    head_size: int
    edge_size: int
    seeds: int = 1
    graphs: int = 1
    masked: bool = False

    def inputs(self, dtype: torch.dtype) -> list[Tensor]:
        """query, key, value, edges in `dtype`, the weight in float32, each with the seeds' axis first."""
        width = self.heads * self.head_size
        shapes = [(self.queries, width), (self.keys, width), (self.keys, width)]
        shapes.append((self.queries, self.keys, self.edge_size))
        data = [torch.randn(self.seeds, self.graphs, *shape, device=DEVICE).to(dtype) for shape in shapes]
        weight = torch.randn(self.seeds, 3 * width, self.edge_size, device=DEVICE) / self.edge_size**0.5
        return [*data, weight]

    def mask(self) -> Tensor | None:
        """Two thirds of the pairs; one row attends to nobody."""
        if not self.masked:
            return None
        mask = torch.rand(self.seeds, self.graphs, self.queries, self.keys, device=DEVICE) < 0.67
        mask[0, 0, 0] = False
        return mask

    def functions(self) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        """The kernels, all seeds in one vmap, and the plain path, seed by seed."""
        mask = self.mask()

        def one(query, key, value, edges, weight, mask):
            return kernels.relational_attention(
                query, key, value, edges, weight, num_heads=self.heads, attention_mask=mask
            )

        def fused(*inputs: Tensor) -> Tensor:
            return torch.vmap(one, in_dims=(0, 0, 0, 0, 0, None if mask is None else 0))(*inputs, mask)

        def plain(*inputs: Tensor) -> Tensor:
            query, key, value, edges, weight = inputs
            with kernels.use_kernels(False):
                return torch.stack(
                    [
                        relational_attention(
                            query[seed],
                            key[seed],
                            value[seed],
                            edges[seed],
                            weight[seed].to(edges.dtype),
                            num_heads=self.heads,
                            attention_mask=None if mask is None else mask[seed],
                        ).messages
                        for seed in range(self.seeds)
                    ]
                )

        return fused, plain


@dataclass(frozen=True)
class EdgeUpdateCase:
    """Sizes of a fleet's edge update."""

    nodes: int
    edge_size: int
    message_size: int
    feed_size: int
    seeds: int = 1
    graphs: int = 1

    def inputs(self, dtype: torch.dtype) -> list[Tensor]:
        """edges, receivers, senders in `dtype`, the twelve parameters in float32.

        Both ReLUs are kept away from their kinks, where a rounding, ours or theirs, turns a whole gradient on or off.
        """
        nodes, edge, message, feed = self.nodes, self.edge_size, self.message_size, self.feed_size

        def normal(*shape: int, fan_in: int = 1) -> Tensor:
            return torch.randn(self.seeds, *shape, device=DEVICE) / fan_in**0.5

        data = [normal(self.graphs, nodes, nodes, edge)]
        data += [0.25 * normal(self.graphs, nodes, message), 3 * normal(self.graphs, nodes, message).sign()]
        parameters = [0.25 * normal(message, edge, fan_in=edge), 0.25 * normal(message, edge, fan_in=edge)]
        parameters += [normal(edge, message, fan_in=message), normal(edge), normal(edge), normal(edge)]
        parameters += [0.25 * normal(feed, edge, fan_in=edge), 3 * normal(feed).sign()]
        parameters += [normal(edge, feed, fan_in=feed), normal(edge), normal(edge), normal(edge)]
        return [*(tensor.to(dtype) for tensor in data), *parameters]

    def functions(self) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        def fused(*inputs: Tensor) -> Tensor:
            return torch.vmap(kernels.edge_update)(*inputs)

        def plain(*inputs: Tensor) -> Tensor:
            dtype = inputs[0].dtype
            with kernels.use_kernels(False):
                return torch.stack(
                    [edge_update(*(tensor[seed].to(dtype) for tensor in inputs)) for seed in range(self.seeds)]
                )

        return fused, plain


@dataclass(frozen=True)
class PointerCase:
    """Sizes of a fleet's scores of pointers."""

    rows: int
    choices: int
    channels: int
    features: int = 1
    seeds: int = 1
    graphs: int = 1

    def inputs(self, dtype: torch.dtype) -> list[Tensor]:
        """Rows and choices in `dtype`, the weights in float32. Every other channel is a whole number from -2 to 2, so
        that many rows and choices are equal there."""
        vectors = [
            torch.randn(self.seeds, self.graphs, count, self.features, self.channels, device=DEVICE)
            for count in (self.rows, self.choices)
        ]
        for vector in vectors:
            vector[..., ::2] = vector[..., ::2].round().clamp(-2, 2)
        weight = torch.randn(self.seeds, self.features, self.channels, device=DEVICE)
        return [*(vector.to(dtype) for vector in vectors), weight]

    def functions(self) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        def fused(*inputs: Tensor) -> Tensor:
            return torch.vmap(kernels.pointer_scores)(*inputs)

        def plain(rows: Tensor, choices: Tensor, weight: Tensor) -> Tensor:
            largest = torch.maximum(rows.unsqueeze(3), choices.unsqueeze(2))  # [S, B, R, K, F, C]
            return (largest * weight[:, None, None, None]).sum(-1)

        return fused, plain


def output_and_gradients(function: Callable[..., Tensor], inputs: Sequence[Tensor], gradient: Tensor) -> list[Tensor]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, gradient.to(output.dtype))]


def assert_at_most_twice_the_plain_error(
    case: AttentionCase | EdgeUpdateCase | PointerCase, dtype: torch.dtype
) -> None:
    """Output and all gradients against float64, in the norm over the whole tensor.

    Where the exact gradient is zero (attention to a single node), some float32 roundings of numbers of size one are
    allowed. And no less than one unit in the last place of the largest number: of a handful of numbers (a bias of three
    hidden units over two edges) the plain path may by luck have all but hit the exact ones.
    """
    torch.manual_seed(0)
    fused, plain = case.functions()
    inputs = case.inputs(dtype)
    exact_inputs = [tensor.double() for tensor in inputs]
    gradient = torch.randn_like(plain(*exact_inputs)).to(dtype)
    exact = output_and_gradients(plain, exact_inputs, gradient.double())
    ours = output_and_gradients(fused, inputs, gradient)
    theirs = output_and_gradients(plain, inputs, gradient)
    for index, (mine, other, reference) in enumerate(zip(ours, theirs, exact, strict=True)):
        assert mine.dtype == other.dtype
        error = (mine.double() - reference).norm().item()
        allowed = 2 * (other.double() - reference).norm().item() + 1e-6 * reference.norm().item()
        allowed = max(allowed, torch.finfo(dtype).eps * reference.abs().amax().item())
        one = reference.numel() ** 0.5
        if reference.norm() < 1e-6 * one:
            allowed += 8 * torch.finfo(torch.float32).eps * one
        assert error <= allowed, f"tensor {index} of {case}: error {error:.3g}, allowed {allowed:.3g}"
