"""Minimum spanning trees of undirected weighted graphs: Kruskal's and Prim's."""

import numpy as np

from relational_transformer.clrs.algorithm import OUT_OF_ROWS
from relational_transformer.clrs.algorithms.rows import put, put_matrix, put_one
from relational_transformer.clrs.compiled import compiled


@compiled
def _record_union(hints, row, in_mst, parent, u, v, root_u, root_v, path_u, path_v, phase):
    in_mst_h, pi_h, u_h, v_h, root_u_h, root_v_h, mask_u_h, mask_v_h, phase_h = hints
    put_matrix(in_mst_h[row], in_mst)
    put(pi_h[row], parent)
    put_one(u_h[row], u)
    put_one(v_h[row], v)
    put_one(root_u_h[row], root_u)
    put_one(root_v_h[row], root_v)
    put(mask_u_h[row], path_u)
    put(mask_v_h[row], path_v)
    put_one(phase_h[row], phase)


@compiled
def _climb(root, parent, path):
    """One step up from `root`; all nodes passed on the way are hung below the new one."""
    root = parent[root]
    for node in range(path.size):
        if path[node] == 1:
            parent[node] = root
    path[root] = 1
    return root


@compiled
def mst_kruskal(example, drawn, hints, outputs, row):
    """Kruskal's minimum spanning tree (1956): edges from light to heavy, where they join two trees.

    Hints: `in_mst_h` the edges taken, `pi` the pointers of the union-find forest, `u` and `v` the edge looked at,
    `root_u` and `root_v` how far up their trees the search has come, `mask_u` and `mask_v` the nodes passed on the way,
    and `phase`: 1 climbing from u, 2 climbing from v, 0 the edge is decided.
    Output: `in_mst`.
    """
    graph = drawn[0][example]
    size = graph.shape[0]
    parent = np.arange(size)
    in_mst = np.zeros((size, size), np.int8)
    path_u = np.zeros(size, np.int8)
    path_v = np.zeros(size, np.int8)
    _record_union(hints, row, in_mst, parent, 0, 0, 0, 0, path_u, path_v, 0)
    row += 1

    ends = np.empty((size * (size - 1) // 2, 2), np.int64)
    weights = np.empty(len(ends))
    count = 0
    for i in range(size):
        for j in range(i + 1, size):
            if graph[i, j] > 0:
                ends[count, 0], ends[count, 1], weights[count] = i, j, graph[i, j]
                count += 1

    for edge in np.argsort(weights[:count]):
        if row + 2 * size > len(hints[0]):  # a climb from either end has less than N steps, and there are two more
            return OUT_OF_ROWS
        u, v = ends[edge, 0], ends[edge, 1]
        root_u, root_v = u, v
        path_u[:] = 0
        path_v[:] = 0
        path_u[u] = 1
        path_v[v] = 1
        _record_union(hints, row, in_mst, parent, u, v, root_u, root_v, path_u, path_v, 1)
        row += 1
        while parent[root_u] != root_u:
            root_u = _climb(root_u, parent, path_u)
            _record_union(hints, row, in_mst, parent, u, v, root_u, root_v, path_u, path_v, 1)
            row += 1
        while parent[root_v] != root_v:
            root_v = _climb(root_v, parent, path_v)
            _record_union(hints, row, in_mst, parent, u, v, root_u, root_v, path_u, path_v, 2)
            row += 1
        if root_u != root_v:
            in_mst[u, v] = 1
            in_mst[v, u] = 1
            parent[min(root_u, root_v)] = max(root_u, root_v)
        _record_union(hints, row, in_mst, parent, u, v, root_u, root_v, path_u, path_v, 0)
        row += 1

    put_matrix(outputs[0][example], in_mst)
    return row


@compiled
def closest_waiting(distance, waiting):
    """The waiting node of least distance, or -1 when none waits."""
    closest = -1
    for node in range(distance.size):
        if waiting[node] == 1 and (closest == -1 or distance[node] < distance[closest]):
            closest = node
    return closest


@compiled
def mst_prim(example, drawn, hints, outputs, row):
    """Prim's minimum spanning tree (1957): grow one tree from the source by the lightest edge that leaves it.

    Hints: `pi_h` the parents, `key` the lightest edge from the tree to each node, `mark` the nodes in the tree,
    `in_queue` those next to it, `u` the node just taken.
    Output: `pi`.
    """
    pi_h, key_h, mark_h, in_queue_h, u_h = hints
    graph, source = drawn[0][example], drawn[1][example]
    size = graph.shape[0]
    parent = np.arange(size)
    key = np.zeros(size)
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
                if graph[u, v] != 0 and mark[v] == 0 and (waiting[v] == 0 or graph[u, v] < key[v]):
                    parent[v] = u
                    key[v] = graph[u, v]
                    waiting[v] = 1
        first = False
        put(pi_h[row], parent)
        put(key_h[row], key)
        put(mark_h[row], mark)
        put(in_queue_h[row], waiting)
        put_one(u_h[row], u)
        row += 1
        u = closest_waiting(key, waiting)

    put(outputs[0][example], parent)
    return row
