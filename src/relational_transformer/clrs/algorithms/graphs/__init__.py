"""Twelve graph algorithms, on random graphs of four kinds (see `random_graphs`)."""

from collections.abc import Callable
from functools import partial

from relational_transformer.clrs.algorithm import Algorithm, Drawn
from relational_transformer.clrs.algorithms.graphs.connectivity import (
    articulation_points,
    bridges,
    strongly_connected_components,
)
from relational_transformer.clrs.algorithms.graphs.search import bfs, dfs, topological_sort
from relational_transformer.clrs.algorithms.graphs.shortest_paths import (
    bellman_ford,
    dag_shortest_paths,
    dijkstra,
    floyd_warshall,
)
from relational_transformer.clrs.algorithms.graphs.spanning_trees import mst_kruskal, mst_prim
from relational_transformer.clrs.input_features import Features, graph, graph_and_source
from relational_transformer.clrs.samples import random_graphs

# Chances of an edge, to the last bit as dm-clrs computes them (the third is not 0.3).
TENTHS = tuple(0.1 + 0.1 * k for k in range(9))


def _one_a_node(drawn: Drawn) -> int:
    return 1 + drawn[0].shape[1]


def _three_a_node(drawn: Drawn) -> int:
    """Depth-first search: a node is pushed, found and finished once."""
    return 3 * drawn[0].shape[1]


def _degree(drawn: Drawn) -> int:
    return int((drawn[0] != 0).sum(axis=2).max(initial=0))


def _low_steps(drawn: Drawn) -> int:
    """A node looks at its neighbours once, and once more after each of its children: all of them 2 N - 1 times."""
    return _three_a_node(drawn) + 2 * drawn[0].shape[1] * _degree(drawn)


def _union_steps(drawn: Drawn) -> int:
    """About four steps per edge are enough. The trace checks that there is room for the next edge."""
    size = drawn[0].shape[1]
    return 1 + 2 * size + 2 * size * _degree(drawn)


def _on_graphs(
    graphs: Callable[..., Drawn],
    features: Callable[[Drawn], Features],
    trace: Callable[..., int],
    longest: Callable[[Drawn], int],
    *,
    sparse: bool = False,
    shortest: int = 1,
) -> Algorithm:
    """Samplers of graphs in which an edge has probability 1/2, and of varied ones; on `sparse` graphs, whose traces
    are long, edges are rarer."""
    return Algorithm(
        partial(graphs, chances=(0.2,) if sparse else (0.5,)),
        features,
        trace,
        longest,
        shortest,
        draw_varied=partial(graphs, chances=tuple(chance / 2 for chance in TENTHS) if sparse else TENTHS),
    )


GRAPHS = {
    "bfs": _on_graphs(random_graphs.undirected_from_source, graph_and_source, bfs, _one_a_node),
    "dfs": _on_graphs(random_graphs.directed, graph, dfs, _three_a_node),
    "topological_sort": _on_graphs(random_graphs.acyclic, graph, topological_sort, _three_a_node),
    "articulation_points": _on_graphs(random_graphs.undirected, graph, articulation_points, _low_steps, sparse=True),
    "bridges": _on_graphs(random_graphs.undirected, graph, bridges, _low_steps, sparse=True),
    "strongly_connected_components": _on_graphs(
        random_graphs.communities,
        graph,
        strongly_connected_components,
        lambda drawn: 2 * _three_a_node(drawn),
        shortest=random_graphs.COMMUNITIES,
    ),
    "mst_kruskal": _on_graphs(random_graphs.weighted, graph, mst_kruskal, _union_steps, sparse=True),
    "mst_prim": _on_graphs(random_graphs.weighted_from_source, graph_and_source, mst_prim, _one_a_node),
    "bellman_ford": _on_graphs(random_graphs.weighted_from_source, graph_and_source, bellman_ford, _one_a_node),
    "dijkstra": _on_graphs(random_graphs.weighted_from_source, graph_and_source, dijkstra, _one_a_node),
    "dag_shortest_paths": _on_graphs(
        random_graphs.acyclic_weighted_from_source,
        graph_and_source,
        dag_shortest_paths,
        lambda drawn: 1 + 4 * drawn[0].shape[1],
    ),
    "floyd_warshall": _on_graphs(random_graphs.weighted, graph, floyd_warshall, lambda drawn: drawn[0].shape[1]),
}
