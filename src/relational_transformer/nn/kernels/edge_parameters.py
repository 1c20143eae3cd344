"""The edge update's parameter gradients, packed: every one is a sum over edges, and one reduction makes them all."""

from dataclasses import dataclass

from torch import Tensor

SMALLEST_BLOCK = 16

# Columns of the last block: sums over edges of what belongs to the biases and norms.
FEED_NORM_BIAS, FEED_NORM_WEIGHT, FEED_OUT_BIAS, NORM_BIAS, NORM_WEIGHT, OUT_BIAS = range(6)
VECTORS = SMALLEST_BLOCK


def padded(size: int) -> int:
    """The power of two a hidden layer's width is padded to."""
    return max(SMALLEST_BLOCK, 1 << (size - 1).bit_length())


@dataclass(frozen=True)
class PackedGradients:
    """Where each gradient lies in [S, E + 1, columns]: a block of columns for each matrix, one for all vectors.

    The row after the E channels holds the gradient of the feed-forward's inner bias.
    """

    edge_size: int
    message_size: int
    feed_size: int

    @property
    def columns(self) -> int:
        return 3 * padded(self.message_size) + 2 * padded(self.feed_size) + VECTORS

    def unpack(self, packed: Tensor) -> tuple[Tensor, ...]:
        """Gradients [S, ...] in the order of `edge_update`'s parameters."""
        pad, feed_pad = padded(self.message_size), padded(self.feed_size)
        own, reverse, out, feed_in, feed_out, vectors = packed[:, : self.edge_size].split(
            [pad, pad, pad, feed_pad, feed_pad, VECTORS], dim=-1
        )
        return (
            own[..., : self.message_size].mT,
            reverse[..., : self.message_size].mT,
            out[..., : self.message_size],
            vectors[..., OUT_BIAS],
            vectors[..., NORM_WEIGHT],
            vectors[..., NORM_BIAS],
            feed_in[..., : self.feed_size].mT,
            packed[:, self.edge_size, : self.feed_size],
            feed_out[..., : self.feed_size],
            vectors[..., FEED_OUT_BIAS],
            vectors[..., FEED_NORM_WEIGHT],
            vectors[..., FEED_NORM_BIAS],
        )
