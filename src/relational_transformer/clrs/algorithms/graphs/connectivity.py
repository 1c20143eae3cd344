"""What holds a graph together: articulation points, bridges, strongly connected components, by depth-first search."""

import numpy as np

from relational_transformer.clrs.algorithms.graphs.search import BLACK, GREY, TICK, WHITE
from relational_transformer.clrs.algorithms.rows import put, put_categories, put_matrix, put_one
from relational_transformer.clrs.compiled import compiled

NOT_AN_EDGE = -1


@compiled
def _record_low(hints, row, parent, color, found, finished, low, below, start, u, v, top, time):
    """The hints that articulation points and bridges share; those of dfs, and `low`."""
    pi_h, color_h, d_h, f_h, low_h, s_prev_h, s_h, u_h, v_h, s_last_h, time_h = hints
    put(pi_h[row], parent)
    put_categories(color_h[row], color)
    put(d_h[row], found)
    put(f_h[row], finished)
    put(low_h[row], low)
    put(s_prev_h[row], below)
    put_one(s_h[row], start)
    put_one(u_h[row], u)
    put_one(v_h[row], v)
    put_one(s_last_h[row], top)
    time_h[row] = time


@compiled
def articulation_points(example, drawn, hints, outputs, row):
    """Articulation points: nodes whose removal splits their component.

    Hints: those of `dfs`, and `low` the earliest time a node's subtree reaches back to, `child_cnt` its children in
    hundredths, `is_cut_h` the articulation points so far.
    Output: `is_cut`.
    """
    is_cut_h, pi_h, color_h, d_h, f_h, low_h, child_cnt_h, s_prev_h, s_h, u_h, v_h, s_last_h, time_h = hints
    walk = (pi_h, color_h, d_h, f_h, low_h, s_prev_h, s_h, u_h, v_h, s_last_h, time_h)
    graph = drawn[0][example]
    size = graph.shape[0]
    color = np.zeros(size, np.int8)
    parent = np.arange(size)
    found = np.zeros(size)
    finished = np.zeros(size)
    low = np.zeros(size)
    children = np.zeros(size)
    is_cut = np.zeros(size, np.int8)
    below = np.arange(size)
    time = 0.0
    for start in range(size):
        if color[start] != WHITE:
            continue
        top, u, v = start, start, start
        put(is_cut_h[row], is_cut)
        put(child_cnt_h[row], children)
        _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
        row += 1
        while True:
            if color[u] == WHITE or found[u] == 0.0:
                time += TICK
                found[u] = time
                low[u] = time
                color[u] = GREY
                put(is_cut_h[row], is_cut)
                put(child_cnt_h[row], children)
                _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
                row += 1

            for v in range(size):
                if graph[u, v] == 0:
                    continue
                is_new = color[v] == WHITE
                if is_new:
                    parent[v] = u
                    color[v] = GREY
                    below[v] = top
                    top = v
                    children[u] += TICK
                elif v != parent[u]:
                    low[u] = min(low[u], found[v])
                else:
                    continue
                put(is_cut_h[row], is_cut)
                put(child_cnt_h[row], children)
                _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
                row += 1
                if is_new:
                    break

            if top == u:
                color[u] = BLACK
                time += TICK
                finished[u] = time
                for v in range(size):
                    if parent[v] == u:
                        low[u] = min(low[u], low[v])
                        if parent[u] != u and low[v] >= found[u]:
                            is_cut[u] = 1
                if parent[u] == u and children[u] > TICK:
                    is_cut[u] = 1
                put(is_cut_h[row], is_cut)
                put(child_cnt_h[row], children)
                _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
                row += 1
                if below[u] == u:
                    break
                top = below[u]
                below[u] = u
            u = top

    put(outputs[0][example], is_cut)
    return row


@compiled
def bridges(example, drawn, hints, outputs, row):
    """Bridges: edges whose removal splits their component.

    Hints: those of `dfs`, and `low` the earliest time a node's subtree reaches back to, `is_bridge_h` the bridges so
    far (-1 where there is no edge).
    Output: `is_bridge`.
    """
    is_bridge_h, pi_h, color_h, d_h, f_h, low_h, s_prev_h, s_h, u_h, v_h, s_last_h, time_h = hints
    walk = (pi_h, color_h, d_h, f_h, low_h, s_prev_h, s_h, u_h, v_h, s_last_h, time_h)
    graph = drawn[0][example]
    size = graph.shape[0]
    color = np.zeros(size, np.int8)
    parent = np.arange(size)
    found = np.zeros(size)
    finished = np.zeros(size)
    low = np.zeros(size)
    is_bridge = np.zeros((size, size), np.int8)
    for i in range(size):
        for j in range(size):
            if i != j and graph[i, j] == 0:
                is_bridge[i, j] = NOT_AN_EDGE
    below = np.arange(size)
    time = 0.0
    for start in range(size):
        if color[start] != WHITE:
            continue
        top, u, v = start, start, start
        put_matrix(is_bridge_h[row], is_bridge)
        _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
        row += 1
        while True:
            if color[u] == WHITE or found[u] == 0.0:
                time += TICK
                found[u] = time
                low[u] = time
                color[u] = GREY
                put_matrix(is_bridge_h[row], is_bridge)
                _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
                row += 1

            for v in range(size):
                if graph[u, v] == 0:
                    continue
                is_new = color[v] == WHITE
                if is_new:
                    parent[v] = u
                    color[v] = GREY
                    below[v] = top
                    top = v
                elif v != parent[u]:
                    low[u] = min(low[u], found[v])
                else:
                    continue
                put_matrix(is_bridge_h[row], is_bridge)
                _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
                row += 1
                if is_new:
                    break

            if top == u:
                color[u] = BLACK
                time += TICK
                finished[u] = time
                for v in range(size):
                    if parent[v] == u:
                        low[u] = min(low[u], low[v])
                        if low[v] > found[u]:
                            is_bridge[u, v] = 1
                            is_bridge[v, u] = 1
                put_matrix(is_bridge_h[row], is_bridge)
                _record_low(walk, row, parent, color, found, finished, low, below, start, u, v, top, time)
                row += 1
                if below[u] == u:
                    break
                top = below[u]
                below[u] = u
            u = top

    put_matrix(outputs[0][example], is_bridge)
    return row


@compiled
def _record_components(hints, row, member, transposed, color, found, finished, below, start, u, v, top, time, phase):
    scc_id_h, a_t_h, color_h, d_h, f_h, s_prev_h, s_h, u_h, v_h, s_last_h, time_h, phase_h = hints
    put(scc_id_h[row], member)
    put_matrix(a_t_h[row], transposed)
    put_categories(color_h[row], color)
    put(d_h[row], found)
    put(f_h[row], finished)
    put(s_prev_h[row], below)
    put_one(s_h[row], start)
    put_one(u_h[row], u)
    put_one(v_h[row], v)
    put_one(s_last_h[row], top)
    time_h[row] = time
    phase_h[row] = phase


@compiled
def strongly_connected_components(example, drawn, hints, outputs, row):
    """Strongly connected components (Kosaraju; Aho et al., 1974): search the graph, then the reversed graph in order of
    finish, last first; every tree of the second search is a component.

    Hints: those of `dfs` for both searches, `A_t` the reversed graph, `phase` the search (0 or 1), `scc_id_h` the
    component of each node so far, named by its root.
    Output: `scc_id`.
    """
    graph = drawn[0][example]
    size = graph.shape[0]
    transposed = np.empty((size, size), np.int8)
    for i in range(size):
        for j in range(size):
            transposed[i, j] = 1 if i == j or graph[j, i] != 0 else 0
    member = np.arange(size)
    found = np.zeros(size)
    finished = np.zeros(size)
    color = np.zeros(size, np.int8)
    below = np.arange(size)
    roots = np.arange(size)
    time = 0.0
    for phase in range(2):
        if phase == 1:
            roots = np.argsort(-finished)
            color[:] = WHITE
        for start in roots:
            if color[start] != WHITE:
                continue
            top, u, v = start, start, start
            _record_components(
                hints, row, member, transposed, color, found, finished, below, start, u, v, top, time, phase
            )
            row += 1
            while True:
                if phase == 1:
                    member[u] = start
                if color[u] == WHITE or found[u] == 0.0:
                    time += TICK
                    found[u] = time
                    color[u] = GREY
                    _record_components(
                        hints, row, member, transposed, color, found, finished, below, start, u, v, top, time, phase
                    )
                    row += 1

                for v in range(size):
                    weight = graph[u, v] if phase == 0 else graph[v, u]
                    if weight != 0 and color[v] == WHITE:
                        color[v] = GREY
                        below[v] = top
                        top = v
                        _record_components(
                            hints, row, member, transposed, color, found, finished, below, start, u, v, top, time, phase
                        )
                        row += 1
                        break

                if top == u:
                    color[u] = BLACK
                    time += TICK
                    finished[u] = time
                    _record_components(
                        hints, row, member, transposed, color, found, finished, below, start, u, v, top, time, phase
                    )
                    row += 1
                    if below[u] == u:
                        break
                    top = below[u]
                    below[u] = u
                u = top

    put(outputs[0][example], member)
    return row
