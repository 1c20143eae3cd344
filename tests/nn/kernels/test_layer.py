"""The layer takes the kernels in place of the plain path when asked to."""

import torch

from relational_transformer import RelationalTransformerLayer
from relational_transformer.nn import kernels
from tests.nn.kernels.cases import DEVICE


def test_a_layer_gives_the_same_with_and_without_kernels():
    torch.manual_seed(0)
    layer = RelationalTransformerLayer(node_size=12, edge_size=20, num_heads=3, head_size=8, node_hidden_size=16)
    layer = layer.to(DEVICE)
    nodes, edges = torch.randn(2, 4, 12, device=DEVICE), torch.randn(2, 4, 4, 20, device=DEVICE)
    mask = torch.rand(2, 4, device=DEVICE) < 0.8
    results = []
    for fused in (False, True):
        with kernels.use_kernels(fused):
            out = layer(nodes, edges, node_mask=mask)
            loss = out.nodes.square().sum() + (out.edges * edges).sum()
            results.append([*out, *torch.autograd.grad(loss, list(layer.parameters()))])
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)
