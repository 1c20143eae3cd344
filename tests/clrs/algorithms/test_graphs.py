"""Graph algorithms against networkx."""

import networkx as nx
import numpy as np
import pytest

from relational_transformer.clrs import sample

SIZE = 12
EXAMPLES = 15


def graphs(data, kind):
    for example in range(len(data)):
        weights = data.inputs["A"][example].astype(np.float64)
        yield example, nx.from_numpy_array(weights, create_using=kind)


def path_length(graph, parents, node):
    """Length of the way from the tree's root to a node, along its parents."""
    length = 0.0
    while parents[node] != node:
        length += graph[int(parents[node])][node]["weight"]
        node = int(parents[node])
    return length


def assert_shortest(graph, parents, source):
    distances = nx.single_source_dijkstra_path_length(graph, source)
    for node in graph:
        if node in distances:
            assert path_length(graph, parents, node) == pytest.approx(distances[node], rel=1e-5)
        else:
            assert parents[node] == node


def test_adjacency_is_where_weights_are_and_every_node_itself():
    data = sample("dijkstra", EXAMPLES, SIZE, seed=21)
    expected = (data.inputs["A"] != 0) | np.eye(SIZE, dtype=bool)
    np.testing.assert_array_equal(data.inputs["adj"], expected)


@pytest.mark.parametrize("name", ["bellman_ford", "dijkstra"])
def test_shortest_paths_from_a_source(name):
    data = sample(name, EXAMPLES, SIZE, seed=22)
    for example, graph in graphs(data, nx.Graph):
        assert_shortest(graph, data.outputs["pi"][example], int(data.inputs["s"][example].argmax()))


def test_shortest_paths_in_acyclic_graphs():
    data = sample("dag_shortest_paths", EXAMPLES, SIZE, seed=23)
    for example, graph in graphs(data, nx.DiGraph):
        assert nx.is_directed_acyclic_graph(graph)
        assert_shortest(graph, data.outputs["pi"][example], int(data.inputs["s"][example].argmax()))


def test_shortest_paths_between_all_pairs():
    data = sample("floyd_warshall", EXAMPLES, SIZE, seed=24)
    for example, graph in graphs(data, nx.Graph):
        before = data.outputs["Pi"][example]
        distances = dict(nx.all_pairs_dijkstra_path_length(graph))
        for i in graph:
            for j in distances[i]:
                if i != j:
                    last = int(before[i, j])
                    expected = distances[i][last] + graph[last][j]["weight"]
                    assert distances[i][j] == pytest.approx(expected, rel=1e-5)


def test_breadth_first_parents_are_one_level_up():
    data = sample("bfs", EXAMPLES, SIZE, seed=25)
    for example, graph in graphs(data, nx.Graph):
        source = int(data.inputs["s"][example].argmax())
        levels = nx.single_source_shortest_path_length(graph, source)
        for node, parent in enumerate(data.outputs["pi"][example].tolist()):
            if node in levels and node != source:
                assert levels[parent] == levels[node] - 1
                assert graph.has_edge(parent, node)
            else:
                assert parent == node


def test_depth_first_parents_are_those_of_networkx():
    data = sample("dfs", EXAMPLES, SIZE, seed=26)
    for example, graph in graphs(data, nx.DiGraph):
        expected = np.arange(SIZE)
        for parent, node in nx.dfs_edges(graph, sort_neighbors=sorted):
            expected[node] = parent
        np.testing.assert_array_equal(data.outputs["pi"][example], expected)


def test_depth_first_intervals_nest():
    data = sample("dfs", 5, SIZE, seed=26)
    for example in range(5):
        found, finished = data.hints["d"][-1, example], data.hints["f"][-1, example]
        for a in range(SIZE):
            for b in range(SIZE):
                assert not found[a] < found[b] < finished[a] < finished[b]


def test_topological_order_respects_every_edge():
    data = sample("topological_sort", EXAMPLES, SIZE, seed=27)
    for example, graph in graphs(data, nx.DiGraph):
        following = data.outputs["topo"][example]
        order = [int(data.outputs["topo_head"][example].argmax())]
        while following[order[-1]] != order[-1]:
            order.append(int(following[order[-1]]))
        assert sorted(order) == list(range(SIZE))
        place = {node: k for k, node in enumerate(order)}
        assert all(place[a] < place[b] for a, b in graph.edges)


def test_articulation_points_are_those_of_networkx():
    data = sample("articulation_points", 40, SIZE, seed=28)
    assert data.outputs["is_cut"].any()
    for example, graph in graphs(data, nx.Graph):
        expected = set(nx.articulation_points(graph))
        assert set(np.flatnonzero(data.outputs["is_cut"][example]).tolist()) == expected


def test_bridges_are_those_of_networkx_and_only_edges_can_be():
    data = sample("bridges", 40, SIZE, seed=29)
    for example, graph in graphs(data, nx.Graph):
        is_bridge = data.outputs["is_bridge"][example]
        graph.remove_edges_from(nx.selfloop_edges(graph))
        expected = {frozenset(edge) for edge in nx.bridges(graph)}
        assert {frozenset(edge) for edge in np.argwhere(is_bridge == 1).tolist()} == expected
        np.testing.assert_array_equal(is_bridge == -1, data.inputs["adj"][example] == 0)


def test_components_are_those_of_networkx_named_by_one_member():
    data = sample("strongly_connected_components", EXAMPLES, SIZE, seed=30)
    for example, graph in graphs(data, nx.DiGraph):
        member = data.outputs["scc_id"][example]
        for component in nx.strongly_connected_components(graph):
            names = {int(member[node]) for node in component}
            assert len(names) == 1
            assert names <= component


@pytest.mark.parametrize("name", ["mst_kruskal", "mst_prim"])
def test_spanning_trees_weigh_least(name):
    data = sample(name, EXAMPLES, SIZE, seed=31)
    for example, graph in graphs(data, nx.Graph):
        if name == "mst_kruskal":
            chosen = data.outputs["in_mst"][example]
            np.testing.assert_array_equal(chosen, chosen.T)
            edges = np.argwhere(np.triu(chosen)).tolist()
        else:
            graph = graph.subgraph(nx.node_connected_component(graph, int(data.inputs["s"][example].argmax())))
            parents = data.outputs["pi"][example].tolist()
            edges = [(parents[node], node) for node in graph if parents[node] != node]
        expected = nx.minimum_spanning_tree(graph).size(weight="weight")
        assert sum(graph[a][b]["weight"] for a, b in edges) == pytest.approx(expected, rel=1e-5)
        assert len(edges) == len(graph) - nx.number_connected_components(graph)
