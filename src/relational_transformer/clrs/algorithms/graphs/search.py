"""Walks over a graph: breadth first, depth first, and the order depth-first search gives to an acyclic graph."""

import numpy as np

from relational_transformer.clrs.algorithms.rows import put, put_categories, put_one
from relational_transformer.clrs.compiled import compiled

# Colours of depth-first search.
WHITE, GREY, BLACK = 0, 1, 2
# Time is counted in hundredths, so that it stays below 1 on small graphs.
TICK = 0.01


@compiled
def bfs(example, drawn, hints, outputs, row):
    """Breadth-first search (Moore, 1959), one sweep over all edges a step.

    Hints: `reach_h` what is reached, `pi_h` from where.
    Output: `pi`, the parents; a node that is not reached, and the source, point at themselves.
    """
    reach_h, pi_h = hints
    graph, source = drawn[0][example], drawn[1][example]
    size = graph.shape[0]
    reach = np.zeros(size, np.int8)
    reach[source] = 1
    parent = np.arange(size)

    changed = True
    while changed:
        put(reach_h[row], reach)
        put(pi_h[row], parent)
        row += 1

        changed = False
        old = reach.copy()
        for i in range(size):
            if old[i] == 1:
                for j in range(size):
                    if graph[i, j] > 0:
                        if parent[j] == j and j != source:
                            parent[j] = i
                        if reach[j] == 0:
                            reach[j] = 1
                            changed = True

    put(outputs[0][example], parent)
    return row


@compiled
def _record_dfs(hints, row, parent, color, found, finished, below, start, u, v, top, time):
    pi_h, color_h, d_h, f_h, s_prev_h, s_h, u_h, v_h, s_last_h, time_h = hints
    put(pi_h[row], parent)
    put_categories(color_h[row], color)
    put(d_h[row], found)
    put(f_h[row], finished)
    put(s_prev_h[row], below)
    put_one(s_h[row], start)
    put_one(u_h[row], u)
    put_one(v_h[row], v)
    put_one(s_last_h[row], top)
    time_h[row] = time


@compiled
def dfs(example, drawn, hints, outputs, row):
    """Depth-first search (Moore, 1959), with its stack kept in pointers.

    Hints: `pi_h` the parents, `color` (0 new, 1 on the stack, 2 done), `d` and `f` when a node was found and finished,
    `s_prev` what lies below each node on the stack, `s_last` its top, `s` the root of this tree, `u` the node whose
    neighbours are looked at, `v` the neighbour, `time`.
    Output: `pi`.
    """
    graph = drawn[0][example]
    size = graph.shape[0]
    color = np.zeros(size, np.int8)
    parent = np.arange(size)
    found = np.zeros(size)
    finished = np.zeros(size)
    below = np.arange(size)
    time = 0.0
    for start in range(size):
        if color[start] != WHITE:
            continue
        top, u, v = start, start, start
        _record_dfs(hints, row, parent, color, found, finished, below, start, u, v, top, time)
        row += 1
        while True:
            if color[u] == WHITE or found[u] == 0.0:
                time += TICK
                found[u] = time
                color[u] = GREY
                _record_dfs(hints, row, parent, color, found, finished, below, start, u, v, top, time)
                row += 1

            for v in range(size):
                if graph[u, v] != 0 and color[v] == WHITE:
                    parent[v] = u
                    color[v] = GREY
                    below[v] = top
                    top = v
                    _record_dfs(hints, row, parent, color, found, finished, below, start, u, v, top, time)
                    row += 1
                    break

            if top == u:
                color[u] = BLACK
                time += TICK
                finished[u] = time
                _record_dfs(hints, row, parent, color, found, finished, below, start, u, v, top, time)
                row += 1
                if below[u] == u:
                    break
                top = below[u]
                below[u] = u
            u = top

    put(outputs[0][example], parent)
    return row


@compiled
def _record_topological(hints, row, following, head, color, below, start, u, v, top):
    topo_h, topo_head_h, color_h, s_prev_h, s_h, u_h, v_h, s_last_h = hints
    put(topo_h[row], following)
    put_one(topo_head_h[row], head)
    put_categories(color_h[row], color)
    put(s_prev_h[row], below)
    put_one(s_h[row], start)
    put_one(u_h[row], u)
    put_one(v_h[row], v)
    put_one(s_last_h[row], top)


@compiled
def topological_sort(example, drawn, hints, outputs, row):
    """Topological sorting (Knuth, 1973): whatever depth-first search finishes goes to the front of the order.

    Hints: `topo_h` the node after each one in the order, `topo_head_h` the first; the rest as in `dfs`.
    Outputs: `topo` and `topo_head`; the last node points at itself.
    """
    graph = drawn[0][example]
    size = graph.shape[0]
    color = np.zeros(size, np.int8)
    following = np.arange(size)
    below = np.arange(size)
    head = 0
    for start in range(size):
        if color[start] != WHITE:
            continue
        top, u, v = start, start, start
        _record_topological(hints, row, following, head, color, below, start, u, v, top)
        row += 1
        while True:
            if color[u] == WHITE:
                color[u] = GREY
                _record_topological(hints, row, following, head, color, below, start, u, v, top)
                row += 1

            for v in range(size):
                if graph[u, v] != 0 and color[v] == WHITE:
                    color[v] = GREY
                    below[v] = top
                    top = v
                    _record_topological(hints, row, following, head, color, below, start, u, v, top)
                    row += 1
                    break

            if top == u:
                color[u] = BLACK
                if color[head] == BLACK:
                    following[u] = head
                head = u
                _record_topological(hints, row, following, head, color, below, start, u, v, top)
                row += 1
                if below[u] == u:
                    break
                top = below[u]
                below[u] = u
            u = top

    put(outputs[0][example], following)
    put_one(outputs[1][example], head)
    return row
