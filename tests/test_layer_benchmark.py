"""The benchmark of the layer runs, and measures what it says."""

import pytest
import torch

from benchmarks import layer as benchmark
from benchmarks.layer import Size

CPU = torch.device("cpu")


def test_prints_a_row_for_each_size(capsys: pytest.CaptureFixture[str]):
    benchmark.main(["--rounds", "1", "--sizes", "1x3x16", "2x4x32"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| cpu |")]
    assert [row.split(" | ")[1:4] for row in rows] == [["1", "3", "16"], ["2", "4", "32"]]


def test_peak_memory_counts_what_is_alive_at_once():
    def step() -> None:
        for _ in range(3):  # freed before the next one
            torch.empty(1000, dtype=torch.float32)
        kept = torch.empty(500, dtype=torch.float32)
        torch.empty(2000, dtype=torch.float32)
        del kept

    assert 4 * 2500 <= benchmark.peak_bytes(step, CPU) <= 4 * 2500 + 128  # an allocator may round up


def test_naive_layer_has_the_gradients_of_the_layer():
    torch.manual_seed(0)
    naive = benchmark.NaiveLayer(
        benchmark.RelationalTransformerLayer(node_size=16, edge_size=16, num_heads=2, head_size=8, node_hidden_size=8)
    ).double()
    nodes = torch.randn(2, 5, 16, dtype=torch.float64)
    edges = torch.randn(2, 5, 5, 16, dtype=torch.float64)
    gradients = []
    for function in (naive, naive.layer):
        naive.zero_grad()
        new_nodes, new_edges = function(nodes, edges)
        (new_nodes.pow(3).sum() + new_edges.pow(3).sum()).backward()
        gradients.append([parameter.grad.clone() for parameter in naive.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def test_edges_cost_memory_that_the_encoder_layer_does_not_need():
    steps = benchmark.make_steps(Size(1, 32, 16), CPU)
    peaks = {name: benchmark.peak_bytes(step, CPU) for name, step in steps.items()}
    assert peaks["encoder"] < peaks["layer"] < peaks["naive"]
