"""From the sums over edges that the edge update's backward pass makes to the gradients of its parameters."""

from torch import Tensor

ALIGNMENT = 8


def hidden_width(message_size: int, feed_size: int) -> int:
    """Columns of h = (m, f, 1, 0 ...), what the forward pass keeps of an edge's hidden layers.

    >>> hidden_width(16, 8), hidden_width(5, 3)
    (32, 16)
    """
    return -(-(message_size + feed_size + 1) // ALIGNMENT) * ALIGNMENT


def sides_width(message_size: int, feed_size: int) -> int:
    """Columns of (dm_ij, dm_ji, t, 0 ...), what the backward pass knows of an edge's hidden layers: at the paper's
    sizes three sectors of 32 bytes, each written as a whole.

    >>> sides_width(16, 8), sides_width(5, 3)
    (48, 16)
    """
    return -(-(2 * message_size + feed_size) // (2 * ALIGNMENT)) * 2 * ALIGNMENT


def parameter_gradients(
    products: Tensor,
    within: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    feed_in_weight: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients [S, ...] in the order of `edge_update`'s parameters, some of which they depend on.

    They come from sums over the edges of a seed. With y, z what the two LayerNorms read, the last one y, and
    t = df / std(z) the feed-forward's gradient in units of z:

        products [S, 2 * K + W, E]: sum h dy^T, sum h dz^T, sum (dm_ij, dm_ji, t) e^T
        within [S, 3 * E + F * (M + 2)]: what the LayerNorms' parameters get; and sum t m^T, sum t, sum df

    What W_6 gets, sum df u^T, needs no u: u is norm_weight * (z - mean(z)) / std(z) + norm_bias, the mean is over
    channels, and z = W_5 m + b_5 + e.
    """
    feed_size, edge_size = feed_in_weight.shape[1:]
    message_size = out_weight.shape[-1]
    width = hidden_width(message_size, feed_size)
    by_last, by_first, by_edge = products.split([width, width, products.shape[1] - 2 * width], dim=1)
    own, reverse, through_edges = by_edge[:, : 2 * message_size + feed_size].split(
        [message_size, message_size, feed_size], dim=1
    )
    norms, by_feed = within.split([3 * edge_size, feed_size * (message_size + 2)], dim=1)
    by_feed = by_feed.unflatten(1, (feed_size, message_size + 2))
    ones = message_size + feed_size
    feed_in_bias = by_feed[:, :, -1]
    feed_out_bias = by_last[:, ones]
    through_messages = (by_feed[:, :, None, :message_size] * out_weight.float()[:, None]).sum(-1)  # no tf32
    through_first = through_edges + through_messages + by_feed[:, :, -2, None] * out_bias.float()[:, None]
    feed_in = (through_first - through_first.mean(-1, keepdim=True)) * norm_weight.float()[:, None]
    feed_in = feed_in + feed_in_bias[:, :, None] * norm_bias.float()[:, None]
    feed_norm_weight, feed_norm_bias, norm_weight_gradient = norms.unflatten(1, (3, edge_size)).unbind(1)
    return (
        own,
        reverse,
        by_first[:, :message_size].mT,
        by_first[:, ones],
        norm_weight_gradient,
        feed_out_bias + (feed_in_bias[:, :, None] * feed_in_weight.float()).sum(1),
        feed_in,
        feed_in_bias,
        by_last[:, message_size:ones].mT,
        feed_out_bias,
        feed_norm_weight,
        feed_norm_bias,
    )
