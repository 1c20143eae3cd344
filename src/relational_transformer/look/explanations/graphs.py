"""Twelve algorithms on graphs, in words."""

from .explanation import POSITION, Explanation

GRAPH = {**POSITION, "A": "the weights of the edges", "adj": "which nodes are joined by an edge"}
SOURCE = {"s": "the node that the search starts from"}
COLORS = ("white: not found yet", "grey: found, not finished", "black: finished")

DEPTH_FIRST = {
    "pi_h": "the node from which each node was found",
    "color": "how far the search is with each node",
    "d": "the time at which each node was found",
    "f": "the time at which each node was finished",
    "s_prev": "what lies below each node on the stack",
    "s": "the root of the tree that is being searched",
    "u": "the node at which the search is",
    "v": "the neighbour that it looks at",
    "s_last": "the top of the stack",
    "time": "the clock: it ticks when a node is found or finished",
}
TOPOLOGICAL = {
    "topo_h": "the node that follows each node in the order",
    "topo_head_h": "the first node of the order so far",
    "color": "how far the search is with each node",
    "s_prev": "what lies below each node on the stack",
    "u": "the node at which the search is",
    "v": "the neighbour that it looks at",
    "s_last": "the top of the stack",
}
LOW = "the earliest time that is reached from below each node"
UNDIRECTED, DIRECTED = {"directed": False}, {"directed": True}

GRAPHS = {
    "articulation_points": Explanation(
        about="Finds the nodes that hold a graph together: without one of them, a part of the graph falls off. A "
        "depth-first search sees which subtrees have no other way back up.",
        view="graph",
        words={
            **GRAPH,
            **DEPTH_FIRST,
            "is_cut_h": "the articulation points found so far",
            "low": LOW,
            "child_cnt": "how many children each node has in the tree, in hundredths",
        },
        shown=("is_cut_h", "pi_h", "color", "u", "v"),
        classes={"color": COLORS},
        options=UNDIRECTED,
    ),
    "bellman_ford": Explanation(
        about="Finds the shortest paths from one node to all others. Every node that was reached offers its "
        "neighbours a way through itself, round after round, until no offer is better than what is known.",
        view="graph",
        words={
            **GRAPH,
            **SOURCE,
            "pi_h": "the node before each node on its shortest path so far",
            "d": "the length of the shortest path to each node so far",
            "msk": "the nodes that have been reached",
        },
        shown=("pi_h", "d", "msk"),
        options={**UNDIRECTED, "weighted": True},
    ),
    "bfs": Explanation(
        about="Breadth-first search: from one node it visits all neighbours first, then their neighbours, and so on, "
        "one ring at a time.",
        view="graph",
        words={
            **GRAPH,
            **SOURCE,
            "reach_h": "the nodes that have been reached",
            "pi_h": "the node from which each node was reached",
        },
        shown=("reach_h", "pi_h"),
        options=UNDIRECTED,
    ),
    "bridges": Explanation(
        about="Finds the edges that hold a graph together: without one of them, a part of the graph falls off. A "
        "depth-first search sees which subtrees have no other way back up.",
        view="graph",
        words={
            **GRAPH,
            **DEPTH_FIRST,
            "is_bridge_h": "the bridges found so far",
            "low": LOW,
        },
        shown=("is_bridge_h", "pi_h", "color", "u", "v"),
        classes={"color": COLORS},
        options=UNDIRECTED,
    ),
    "dag_shortest_paths": Explanation(
        about="Shortest paths in a graph without cycles: first it puts the nodes into an order in which every edge "
        "leads forwards, then it passes the distances on in that order.",
        view="graph",
        words={
            **GRAPH,
            **SOURCE,
            **TOPOLOGICAL,
            "pi_h": "the node before each node on its shortest path so far",
            "d": "the length of the shortest path to each node so far",
            "mark": "the nodes that have been reached",
            "phase": "what it is doing",
        },
        shown=("pi_h", "d", "mark", "color", "u", "v"),
        classes={"color": COLORS},
        flags={"phase": ("putting the nodes in order", "passing distances on")},
        options={**DIRECTED, "weighted": True},
    ),
    "dfs": Explanation(
        about="Depth-first search: it follows one path as deep as it leads, then steps back to the last node that has "
        "a neighbour left to visit.",
        view="graph",
        words={**GRAPH, **DEPTH_FIRST},
        shown=("pi_h", "color", "u", "v"),
        classes={"color": COLORS},
        options=DIRECTED,
    ),
    "dijkstra": Explanation(
        about="Finds the shortest paths from one node to all others: again and again it takes the nearest node that "
        "is waiting, which then is final, and offers its neighbours a way through it.",
        view="graph",
        words={
            **GRAPH,
            **SOURCE,
            "pi_h": "the node before each node on its shortest path so far",
            "d": "the length of the shortest path to each node so far",
            "mark": "the nodes whose distance is final",
            "in_queue": "the nodes that are waiting",
            "u": "the node just taken",
        },
        shown=("mark", "in_queue", "pi_h", "d", "u"),
        options={**UNDIRECTED, "weighted": True},
    ),
    "floyd_warshall": Explanation(
        about="Finds the shortest paths between all pairs of nodes: one node k after the other is allowed as a stop on "
        "the way, and every path that gets shorter through k is replaced.",
        view="matrix",
        words={
            **GRAPH,
            "Pi_h": "the node before j on the shortest path from i to j so far (a number in row i, column j)",
            "D": "the length of the shortest path from i to j so far",
            "msk": "the pairs between which a path is known",
            "k": "the node that has just been allowed as a stop",
        },
        shown=("Pi_h", "D", "msk", "k"),
        options={"heat": "D", "number": "Pi_h", "known": "msk", "result_number": "Pi", "rows": "from", "columns": "to"},
    ),
    "mst_kruskal": Explanation(
        about="Finds the lightest edges that join all nodes: it goes through the edges from light to heavy, and takes "
        "one if it joins two trees that were apart.",
        view="graph",
        words={
            **GRAPH,
            "in_mst_h": "the edges taken so far",
            "pi": "where each node points in its set of joined nodes",
            "u": "one end of the edge looked at",
            "v": "its other end",
            "root_u": "how far up the search from u has come",
            "root_v": "how far up the search from v has come",
            "mask_u": "the nodes passed on the way up from u",
            "mask_v": "the nodes passed on the way up from v",
            "phase": "what it is doing",
        },
        shown=("in_mst_h", "pi", "u", "v"),
        classes={"phase": ("the edge is decided", "climbing from u", "climbing from v")},
        options={**UNDIRECTED, "weighted": True},
    ),
    "mst_prim": Explanation(
        about="Grows one tree from a node by the lightest edge that leads out of it, until all nodes are joined.",
        view="graph",
        words={
            **GRAPH,
            **SOURCE,
            "pi_h": "the node of the tree to which each node is joined so far",
            "key": "the lightest edge from the tree to each node",
            "mark": "the nodes in the tree",
            "in_queue": "the nodes next to it, which are waiting",
            "u": "the node just taken",
        },
        shown=("mark", "in_queue", "pi_h", "key", "u"),
        options={**UNDIRECTED, "weighted": True},
    ),
    "strongly_connected_components": Explanation(
        about="Finds groups of nodes that reach each other in both directions: it searches the graph, then the same "
        "graph with all edges turned round, from the node that was finished last.",
        view="graph",
        words={
            **GRAPH,
            **DEPTH_FIRST,
            "scc_id_h": "the group of each node so far, named by the node it points to",
            "A_t": "the edges turned round",
            "phase": "what it is doing",
        },
        shown=("scc_id_h", "color", "u", "v"),
        classes={"color": COLORS},
        flags={"phase": ("searching the graph", "searching it turned round")},
        options=DIRECTED,
    ),
    "topological_sort": Explanation(
        about="Puts the nodes of a graph without cycles into an order in which every edge leads forwards: a node is "
        "put in front when all that can be reached from it is in the order already.",
        view="graph",
        words={**GRAPH, **TOPOLOGICAL, "s": "the root of the tree that is being searched"},
        shown=("topo_h", "topo_head_h", "color", "u"),
        classes={"color": COLORS},
        options=DIRECTED,
    ),
}
