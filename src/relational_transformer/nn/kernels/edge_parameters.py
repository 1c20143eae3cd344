"""The edge update's parameter gradients, packed: every one is a sum over edges, and one reduction makes them all."""

from dataclasses import dataclass

from torch import Tensor

VECTORS = 6


@dataclass(frozen=True)
class PackedGradients:
    """Where each gradient lies in rows [S, rows, length]: the matrices (two of them transposed), then the vectors."""

    edge_size: int
    message_size: int
    feed_size: int

    @property
    def rows(self) -> int:
        return 3 * self.message_size + 2 * self.feed_size + VECTORS + 1

    @property
    def length(self) -> int:
        return max(self.edge_size, self.feed_size)

    def unpack(self, packed: Tensor) -> tuple[Tensor, ...]:
        """Gradients [S, ...] in the order of `edge_update`'s parameters."""
        message, feed = self.message_size, self.feed_size
        own, reverse, out, feed_in, feed_out, vectors = packed[..., : self.edge_size].split(
            [message, message, message, feed, feed, VECTORS + 1], dim=1
        )
        feed_norm_bias, feed_norm_weight, feed_out_bias, norm_bias, norm_weight, out_bias, _ = vectors.unbind(1)
        return (
            own,
            reverse,
            out.mT,
            out_bias,
            norm_weight,
            norm_bias,
            feed_in,
            packed[:, -1, :feed],
            feed_out.mT,
            feed_out_bias,
            feed_norm_weight,
            feed_norm_bias,
        )
