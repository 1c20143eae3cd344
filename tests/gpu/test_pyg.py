"""The layer for PyTorch Geometric on a GPU is the one on a CPU."""

import pytest
import torch

pytest.importorskip("torch_geometric")
from tests.pyg.graphs import Graphs, make_conv, make_graphs

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("mode", ["sparse", "complete"])
def test_outputs_and_gradients_are_those_of_a_cpu(mode: str):
    torch.manual_seed(0)
    conv, graphs = make_conv(mode=mode).double(), make_graphs((5, 1, 8), 0.4)
    results = []
    for device in ("cpu", "cuda"):
        conv = conv.to(device)
        x, edge_attr = (tensor.double().to(device).requires_grad_() for tensor in (graphs.x, graphs.edge_attr))
        output = conv(*Graphs(x, graphs.edge_index.to(device), edge_attr, graphs.batch.to(device)))
        loss = sum(part.sin().sum() for part in output)
        results.append([*output, *torch.autograd.grad(loss, [x, edge_attr, *conv.parameters()])])
    for on_cpu, on_gpu in zip(*results, strict=True):
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals
def test_a_compiled_layer_trains_on_sparse_graphs():
    torch.manual_seed(0)
    conv = make_conv(mode="sparse").cuda()
    graphs = Graphs(*(tensor.cuda() for tensor in make_graphs((30, 40, 50), 0.1)))
    step = torch.compile(conv)
    optimizer = torch.optim.Adam(conv.parameters(), 1e-3)
    losses = []
    for _ in range(20):
        x, edge_attr = step(*graphs)
        loss = (x - 1).square().mean() + edge_attr.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
