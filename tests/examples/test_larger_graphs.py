"""The comparison of models on larger graphs: its graphs are what it says, and it runs to its table."""

import runpy
from collections.abc import Callable
from pathlib import Path

import networkx
import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "larger_graphs.py"


def test_its_distances_are_those_of_its_edges():
    nodes, edges, adjacent, distances = runpy.run_path(str(EXAMPLE))["make_graphs"](3, 12)
    assert torch.equal(edges[..., 0].bool(), adjacent & ~torch.eye(12, dtype=torch.bool))
    for number in range(3):
        graph = networkx.Graph()
        for i, j in edges[number, ..., 0].nonzero().tolist():
            graph.add_edge(i, j, weight=edges[number, i, j, 1].item())
        source = int(nodes[number].argmax())
        expected = networkx.single_source_dijkstra_path_length(graph, source)
        assert [expected[node] for node in range(12)] == pytest.approx(distances[number].tolist(), abs=1e-5)


def test_it_prints_a_table(run_example: Callable[..., str]):
    printed = run_example("larger_graphs.py", "--steps", 2, "--seeds", 0, "--test-graphs", 4)
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| every pair")]
    names = [row[0] for row in rows]
    assert names[:2] == ["| every pair", "| every pair, log N when tested"]
    plain, scaled = rows[0][1:], rows[1][1:]
    assert plain[1] == scaled[1], "at the size of training the scores are as they were"
    assert plain[3] != scaled[3]
