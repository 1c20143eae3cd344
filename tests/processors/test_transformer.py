"""The standard transformer layer against PyTorch's own."""

import torch

from relational_transformer.processors.transformer import TransformerLayer, attend, attend_by_sums


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


def test_attention_by_sums_equals_attention_by_products_with_its_gradients() -> None:
    torch.manual_seed(0)
    heads = [torch.randn(2, 5, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    node_mask = torch.tensor([[True] * 5, [True, False, True, True, False]])
    for mask in (None, node_mask):
        query, key, value = heads
        results = [function(query, key, value, mask) for function in (attend, attend_by_sums)]
        torch.testing.assert_close(results[1], results[0])
        seen = torch.randn_like(results[0])
        gradients = [torch.autograd.grad(result, heads, seen) for result in results]
        torch.testing.assert_close(gradients[1], gradients[0])


def test_compiled_layer_equals_the_one_that_is_not_and_knows_no_absent_node() -> None:
    torch.manual_seed(0)
    layer = TransformerLayer(12, num_heads=3, hidden_size=7).double()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    nodes = torch.randn(2, 5, 12, dtype=torch.float64)
    node_mask = torch.tensor([True, True, True, False, True]).expand(2, -1)
    torch.testing.assert_close(compiled(nodes, node_mask), layer(nodes, node_mask))
    changed = nodes.clone()
    changed[:, 3] += 1.0
    present = compiled(changed, node_mask)[node_mask]
    torch.testing.assert_close(present, layer(nodes, node_mask)[node_mask])
