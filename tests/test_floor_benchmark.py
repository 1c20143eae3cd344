"""The least FLOP and bytes of a layer."""

import runpy
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.floor import H200, USERS, Card, Sizes, backward_cost, table
from relational_transformer import RelationalTransformerLayer
from relational_transformer.nn import kernels

ROOT = Path(__file__).parents[1]
SMALL = Sizes(seeds=1, graphs=2, nodes=9, heads=2, head_size=16, edge_size=32)


def make_layer(sizes: Sizes) -> RelationalTransformerLayer:
    return RelationalTransformerLayer(
        node_size=sizes.width, edge_size=sizes.edge_size, num_heads=sizes.heads, node_hidden_size=32
    )


def test_the_products_are_those_that_torch_counts():
    shape = (SMALL.graphs, SMALL.nodes)
    nodes, edges = torch.randn(*shape, SMALL.width), torch.randn(*shape, SMALL.nodes, SMALL.edge_size)
    with FlopCounterMode(display=False) as counter, kernels.use_kernels(False):
        make_layer(SMALL)(nodes, edges)
    flops, _ = SMALL.layer_cost(training=False)
    values = 2 * SMALL.edges * SMALL.width  # sums of the nodes' values by weight
    assert flops == counter.get_total_flops() - values


def test_the_bytes_are_edges_nodes_and_matrices_once_each():
    numbers = sum(parameter.numel() for parameter in make_layer(SMALL).parameters() if parameter.dim() > 1)
    edges, nodes = SMALL.edges * SMALL.edge_size, SMALL.all_nodes * SMALL.width
    assert SMALL.layer_cost(training=False)[1] == 2 * (2 * edges + 2 * nodes + numbers)
    assert backward_cost(SMALL)[1] == 2 * (3 * edges + 3 * nodes + numbers)


@pytest.mark.parametrize(("card", "least"), [(Card(1, 1e9), "by_flops"), (Card(1e9, 1), "by_bytes")])
def test_the_least_time_is_that_of_the_slower_part(card: Card, least: str):
    cost = SMALL.layer_cost(training=False)
    assert card.least(cost) == getattr(card, least)(cost) > 0


def test_the_page_has_the_table():
    assert "\n".join(table(H200)) in (ROOT / "docs" / "kernels.md").read_text()


def test_paths_and_floor_stand_side_by_side(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "kernels.py"))
    times = {path: benchmark["Measured"](time, 2.0) for path, time in (("compiled", 90.0), ("fused", 30.0))}
    head, _, row = benchmark["side_by_side"]({("64x32x192", "layer", False): times}, H200)
    cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert cells["compiled, us"] == "90.0"
    assert cells["compiled / fused"] == "3.00"
    assert cells["floor, us"] == f"{H200.least(USERS['64x32x192'].layer_cost(False)):.1f}"
    assert cells["plain, us"] == ""
