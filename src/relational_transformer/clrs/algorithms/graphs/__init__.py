"""Twelve graph algorithms, on random graphs of four kinds (see `random_graphs`)."""

from relational_transformer.clrs import random_graphs
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
from relational_transformer.clrs.features import graph, graph_and_source


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
    """Four steps an edge are about enough; the trace sees to it that there is room for the next edge."""
    size = drawn[0].shape[1]
    return 1 + 2 * size + 2 * size * _degree(drawn)


GRAPHS = {
    "bfs": Algorithm(random_graphs.undirected_from_source, graph_and_source, bfs, _one_a_node),
    "dfs": Algorithm(random_graphs.directed, graph, dfs, _three_a_node),
    "topological_sort": Algorithm(random_graphs.acyclic, graph, topological_sort, _three_a_node),
    "articulation_points": Algorithm(random_graphs.sparse, graph, articulation_points, _low_steps),
    "bridges": Algorithm(random_graphs.sparse, graph, bridges, _low_steps),
    "strongly_connected_components": Algorithm(
        random_graphs.communities,
        graph,
        strongly_connected_components,
        lambda drawn: 2 * _three_a_node(drawn),
        shortest=random_graphs.COMMUNITIES,
    ),
    "mst_kruskal": Algorithm(random_graphs.sparse_weighted, graph, mst_kruskal, _union_steps),
    "mst_prim": Algorithm(random_graphs.weighted_from_source, graph_and_source, mst_prim, _one_a_node),
    "bellman_ford": Algorithm(random_graphs.weighted_from_source, graph_and_source, bellman_ford, _one_a_node),
    "dijkstra": Algorithm(random_graphs.weighted_from_source, graph_and_source, dijkstra, _one_a_node),
    "dag_shortest_paths": Algorithm(
        random_graphs.acyclic_weighted_from_source,
        graph_and_source,
        dag_shortest_paths,
        lambda drawn: 1 + 4 * drawn[0].shape[1],
    ),
    "floyd_warshall": Algorithm(random_graphs.weighted, graph, floyd_warshall, lambda drawn: drawn[0].shape[1]),
}
