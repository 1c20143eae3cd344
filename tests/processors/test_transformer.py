"""The standard transformer layer against PyTorch's own."""

import torch

from relational_transformer.processors.transformer import TransformerLayer


def test_layer_equals_the_one_of_pytorch() -> None:
    torch.manual_seed(0)
    ours = TransformerLayer(12, num_heads=3, hidden_size=7).double()
    theirs = torch.nn.TransformerEncoderLayer(12, 3, 7, dropout=0.0, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": ours.qkv.weight,
            "self_attn.in_proj_bias": ours.qkv.bias,
            "self_attn.out_proj.weight": ours.output.weight,
            "self_attn.out_proj.bias": ours.output.bias,
            "linear1.weight": ours.feed_forward_in.weight,
            "linear1.bias": ours.feed_forward_in.bias,
            "linear2.weight": ours.feed_forward_out.weight,
            "linear2.bias": ours.feed_forward_out.bias,
            "norm1.weight": ours.norm.weight,
            "norm1.bias": ours.norm.bias,
            "norm2.weight": ours.feed_forward_norm.weight,
            "norm2.bias": ours.feed_forward_norm.bias,
        }
    )
    nodes = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(ours(nodes, None), theirs(nodes))
