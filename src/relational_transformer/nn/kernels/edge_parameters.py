"""From the sums over edges that the edge update's backward pass makes to the gradients of its parameters."""

from dataclasses import dataclass

from torch import Tensor

ALIGNMENT = 8


def hidden_width(message_size: int, feed_size: int) -> int:
    """Columns of h = (m, f, 1, 0 ...), what the forward pass keeps of an edge's hidden layers.

    >>> hidden_width(16, 8), hidden_width(5, 3)
    (32, 16)
    """
    return -(-(message_size + feed_size + 1) // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class EdgeSums:
    """Sums over the edges of a seed. With y, z what the two LayerNorms read, the last one y, and
    t = df / std(z) the feed-forward's gradient in units of z:

        by_edge [S, 2 * M + F, E]: sum (dm_ij, dm_ji, t) e^T      by_last [S, K, E]: sum h dy^T
        by_first [S, K, E]: sum h dz^T                            norms [S, 3, E]: of the LayerNorms' parameters
        by_feed [S, F, M + 2]: sum t m^T, sum t, sum df
    """

    by_edge: Tensor
    by_last: Tensor
    by_first: Tensor
    norms: Tensor
    by_feed: Tensor

    def gradients(
        self, out_weight: Tensor, out_bias: Tensor, norm_weight: Tensor, norm_bias: Tensor, feed_in_weight: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradients [S, ...] in the order of `edge_update`'s parameters, some of which they depend on.

        What W_6 gets, sum df u^T, needs no u: u is norm_weight * (z - mean(z)) / std(z) + norm_bias, the mean is over
        channels, and z = W_5 m + b_5 + e.
        """
        feed_size, message_size = self.by_feed.shape[1], self.by_feed.shape[2] - 2
        own, reverse, through_edges = self.by_edge.split([message_size, message_size, feed_size], dim=1)
        ones = message_size + feed_size
        feed_in_bias = self.by_feed[:, :, -1]
        feed_out_bias = self.by_last[:, ones]
        through_messages = self.by_feed[:, :, :message_size] @ out_weight.float().mT
        by_first = through_edges + through_messages + self.by_feed[:, :, -2, None] * out_bias.float()[:, None]
        feed_in = (by_first - by_first.mean(-1, keepdim=True)) * norm_weight.float()[:, None]
        feed_in = feed_in + feed_in_bias[:, :, None] * norm_bias.float()[:, None]
        feed_norm_weight, feed_norm_bias, norm_weight_gradient = self.norms.unbind(1)
        return (
            own,
            reverse,
            self.by_first[:, :message_size].mT,
            self.by_first[:, ones],
            norm_weight_gradient,
            feed_out_bias + (feed_in_bias[:, :, None] * feed_in_weight.float()).sum(1),
            feed_in,
            feed_in_bias,
            self.by_last[:, message_size:ones].mT,
            feed_out_bias,
            feed_norm_weight,
            feed_norm_bias,
        )
