"""One training step of a whole fleet: groups of graphs of similar size, then Adam. On CUDA each is one launch of a
graph."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.graphs import is_too_much_to_keep, saved_bytes
from relational_transformer.fleet.precision import Precision, for_computing
from relational_transformer.runs.steps import Steps

from .batches import NODES_PER_BUCKET, Draw, node_buckets
from .split import Split
from .stack import FleetStack


class TrainingStep(Steps):
    """Runs training steps whose graphs were drawn beforehand: `load` them, then `make` each step.

    A step accumulates the gradient of the mean error over groups, each padded to its own number of nodes. Then Adam
    makes one update.

    Args:
        error: the error to minimise, of predictions and targets, for each graph.
        nodes_per_bucket: groups are padded to multiples of it.
    """

    def __init__(
        self, stack: FleetStack, fleet: Fleet, split: Split, adam: Adam, *, batch_size: int, precision: Precision,
        error: Callable[[Tensor, Tensor], Tensor], nodes_per_bucket: int = NODES_PER_BUCKET,
    ) -> None:  # fmt: skip
        super().__init__(fleet)
        self.stack, self.split, self.batch_size, self.error = stack, split, batch_size, error
        self.precision: Precision = precision
        self.adam = adam
        seeds = fleet.num_seeds
        self.buckets = node_buckets(split.host_num_nodes, seeds, batch_size, nodes_per_bucket)
        self.gradient = torch.zeros_like(fleet.values)
        self.step_losses = torch.zeros(seeds, device=self.device, dtype=fleet.values.dtype)
        self.index = torch.zeros(0, seeds, 1, dtype=torch.long, device=self.device)  # [steps · G, S, B / G]
        self.num_nodes: list[list[int]] = []

    def load(self, drawn: Draw, position: int = 0) -> None:
        """Load the graphs of the next steps; step number `position` of them is the next one."""
        self.num_nodes = drawn.num_nodes
        index = torch.from_numpy(drawn.index).flatten(0, 1)
        if self.device.type != "cuda":
            self.index = index
        elif self.index.shape != index.shape:
            self.graphs.forget()
            self.index = index.to(self.device)
        else:
            self.index.copy_(index.pin_memory(), non_blocking=True)
        self.position.fill_(position * drawn.index.shape[1])  # it counts groups

    def make(self, number: int) -> None:
        if self.recompute is None:
            self.recompute = self._must_recompute()
        self.stack.recompute = self.recompute
        for num_nodes in self.num_nodes[number]:
            self._run(num_nodes)
        self._run(None)

    def loss(self, values: Tensor, index: Tensor, num_nodes: int) -> Tensor:
        """The contribution of the graphs at `index` [S, B / G] to the mean error of their batches, [S]."""
        graphs, targets = self.split.gather(index, num_nodes)
        parameters = self.fleet.split(for_computing(values, self.precision))
        predictions = self.stack(parameters, graphs).to(values.dtype)
        return self.error(predictions, targets.to(values.dtype)).sum(-1) / self.batch_size

    def _run(self, num_nodes: int | None) -> None:
        """Run a group padded to `num_nodes`, or the update that ends a step (None)."""
        step = partial(self._do, num_nodes)
        self.graphs.run(num_nodes, step, rehearsal=partial(self._in_little_memory, step))

    def _do(self, num_nodes: int | None) -> None:
        if num_nodes is None:
            self._update()
        else:
            self._add_group(num_nodes)

    def _add_group(self, num_nodes: int) -> None:
        losses, values = self._forward(num_nodes)
        (gradient,) = torch.autograd.grad(losses.sum(), values)
        self.gradient += gradient
        self.step_losses += losses.detach()
        self.position += 1

    def _update(self) -> None:
        self.adam.step(self.gradient)
        self.losses += self.step_losses
        self.finite &= self.step_losses.isfinite()
        self.gradient.zero_()
        self.step_losses.zero_()

    def _forward(self, num_nodes: int) -> tuple[Tensor, Tensor]:
        """The losses [S] of the next loaded group, and the leaf tensor of parameters to differentiate by."""
        index = self.index.index_select(0, self.position).squeeze(0)
        values = self.fleet.leaf()
        return self.loss(values, index, num_nodes), values

    def _must_recompute(self) -> bool:
        """Whether the activations of the largest graphs would take too much of the free memory.

        They grow with the square of the number of nodes, so two sizes determine them.
        """
        small, large, most = self.buckets[0], self.buckets[min(1, len(self.buckets) - 1)], self.buckets[-1]
        of_small, of_large = (saved_bytes(lambda count=count: self._forward(count)) for count in (small, large))
        per_pair = (of_large - of_small) / max(1, large**2 - small**2)
        return is_too_much_to_keep(of_small + per_pair * (most**2 - small**2), self.device)

    def _in_little_memory(self, step: Callable[[], None]) -> None:
        """Run the step with recomputation, for a warm-up in little memory: it compiles the same functions."""
        recompute, self.stack.recompute = self.stack.recompute, True
        step()
        self.stack.recompute = recompute

    def changed(self) -> dict[str, Tensor]:
        return {**super().changed(), "gradient": self.gradient, "step_losses": self.step_losses}
