"""Shortest paths from one source (Bellman-Ford, Dijkstra, in acyclic graphs) and between all pairs (Floyd-Warshall)."""

import numpy as np

from relational_transformer.clrs.algorithms.graphs.search import BLACK, GREY, WHITE
from relational_transformer.clrs.algorithms.graphs.spanning_trees import closest_waiting
from relational_transformer.clrs.algorithms.rows import put, put_categories, put_matrix, put_one
from relational_transformer.clrs.compiled import compiled


@compiled
def bellman_ford(example, drawn, hints, outputs, row):
    """Bellman-Ford (Bellman, 1958): relax all edges at once until no distance changes.

    Hints: `pi_h` the parents, `d` the distances, `msk` the nodes that have one.
    Output: `pi`; the source and what cannot be reached point at themselves.
    """
    pi_h, d_h, msk_h = hints
    graph, source = drawn[0][example], drawn[1][example]
    size = graph.shape[0]
    parent = np.arange(size)
    distance = np.zeros(size)
    reached = np.zeros(size, np.int8)
    reached[source] = 1

    changed = True
    while changed:
        put(pi_h[row], parent)
        put(d_h[row], distance)
        put(msk_h[row], reached)
        row += 1

        old_distance, old_reached = distance.copy(), reached.copy()
        for u in range(size):
            if old_reached[u] == 1:
                for v in range(size):
                    if graph[u, v] != 0:
                        if reached[v] == 0 or old_distance[u] + graph[u, v] < distance[v]:
                            distance[v] = old_distance[u] + graph[u, v]
                            parent[v] = u
                        reached[v] = 1
        changed = False
        for v in range(size):
            if distance[v] != old_distance[v]:
                changed = True

    put(outputs[0][example], parent)
    return row


@compiled
def dijkstra(example, drawn, hints, outputs, row):
    """Dijkstra (1959): settle the closest waiting node, relax the edges that leave it.

    Hints: `pi_h` the parents, `d` the distances, `mark` the nodes settled, `in_queue` those waiting, `u` the one just
    settled.
    Output: `pi`.
    """
    pi_h, d_h, mark_h, in_queue_h, u_h = hints
    graph, source = drawn[0][example], drawn[1][example]
    size = graph.shape[0]
    parent = np.arange(size)
    distance = np.zeros(size)
    mark = np.zeros(size, np.int8)
    waiting = np.zeros(size, np.int8)
    waiting[source] = 1

    u = source
    first = True
    while u >= 0:
        if not first:
            mark[u] = 1
            waiting[u] = 0
            for v in range(size):
                if graph[u, v] != 0 and mark[v] == 0:
                    candidate = distance[u] + graph[u, v]
                    if waiting[v] == 0 or candidate < distance[v]:
                        parent[v] = u
                        distance[v] = candidate
                        waiting[v] = 1
        first = False
        put(pi_h[row], parent)
        put(d_h[row], distance)
        put(mark_h[row], mark)
        put(in_queue_h[row], waiting)
        put_one(u_h[row], u)
        row += 1
        u = closest_waiting(distance, waiting)

    put(outputs[0][example], parent)
    return row


@compiled
def _record_path(hints, row, parent, distance, mark, following, head, color, below, u, v, top, phase):
    pi_h, d_h, mark_h, topo_h, topo_head_h, color_h, s_prev_h, u_h, v_h, s_last_h, phase_h = hints
    put(pi_h[row], parent)
    put(d_h[row], distance)
    put(mark_h[row], mark)
    put(topo_h[row], following)
    put_one(topo_head_h[row], head)
    put_categories(color_h[row], color)
    put(s_prev_h[row], below)
    put_one(u_h[row], u)
    put_one(v_h[row], v)
    put_one(s_last_h[row], top)
    phase_h[row] = phase


@compiled
def dag_shortest_paths(example, drawn, hints, outputs, row):
    """Shortest paths in an acyclic graph: sort topologically what the source reaches, then relax edges in that order.

    Hints: `pi_h` the parents, `d` the distances, `mark` the nodes that have one; those of `topological_sort`; `phase` 0
    sorting, 1 relaxing.
    Output: `pi`.
    """
    graph, source = drawn[0][example], drawn[1][example]
    size = graph.shape[0]
    parent = np.arange(size)
    distance = np.zeros(size)
    mark = np.zeros(size, np.int8)
    color = np.zeros(size, np.int8)
    following = np.arange(size)
    below = np.arange(size)
    head = 0
    top, u, v = source, source, source
    _record_path(hints, row, parent, distance, mark, following, head, color, below, u, v, top, 0)
    row += 1
    while True:
        if color[u] == WHITE:
            color[u] = GREY
            _record_path(hints, row, parent, distance, mark, following, head, color, below, u, v, top, 0)
            row += 1

        for v in range(size):
            if graph[u, v] != 0 and color[v] == WHITE:
                color[v] = GREY
                below[v] = top
                top = v
                _record_path(hints, row, parent, distance, mark, following, head, color, below, u, v, top, 0)
                row += 1
                break

        if top == u:
            color[u] = BLACK
            if color[head] == BLACK:
                following[u] = head
            head = u
            _record_path(hints, row, parent, distance, mark, following, head, color, below, u, v, top, 0)
            row += 1
            if below[u] == u:
                break
            top = below[u]
            below[u] = u
        u = top

    mark[head] = 1
    while following[head] != head:
        mark[head] = 1
        _record_path(hints, row, parent, distance, mark, following, head, color, below, u, v, top, 1)
        row += 1
        for j in range(size):
            if graph[head, j] != 0:
                candidate = distance[head] + graph[head, j]
                if mark[j] == 0 or candidate < distance[j]:
                    distance[j] = candidate
                    parent[j] = head
                    mark[j] = 1
        head = following[head]
    _record_path(hints, row, parent, distance, mark, following, head, color, below, u, v, top, 1)
    row += 1

    put(outputs[0][example], parent)
    return row


@compiled
def floyd_warshall(example, drawn, hints, outputs, row):
    """Floyd-Warshall (Floyd, 1962): allow one more node on the way, for all pairs.

    Hints: `Pi_h` the node before j on the way from i, `D` the distances, `msk` the pairs that have one, `k` the node
    allowed.
    Output: `Pi`.
    """
    pi_h, d_h, msk_h, k_h = hints
    graph = drawn[0][example]
    size = graph.shape[0]
    distance = graph.copy()
    known = np.zeros((size, size), np.int8)
    before = np.empty((size, size), np.int64)
    for i in range(size):
        for j in range(size):
            known[i, j] = 1 if i == j or graph[i, j] != 0 else 0
            before[i, j] = i

    for k in range(size):
        put_matrix(pi_h[row], before)
        put_matrix(d_h[row], distance)
        put_matrix(msk_h[row], known)
        put_one(k_h[row], k)
        row += 1

        old_distance, old_known = distance.copy(), known.copy()
        for i in range(size):
            if old_known[i, k] == 0:
                continue
            for j in range(size):
                if old_known[k, j] == 1:
                    through = old_distance[i, k] + old_distance[k, j]
                    if known[i, j] == 0 or through < distance[i, j]:
                        distance[i, j] = through
                        before[i, j] = before[k, j]
                    known[i, j] = 1

    put_matrix(outputs[0][example], before)
    return row
