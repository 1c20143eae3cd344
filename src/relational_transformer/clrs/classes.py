"""The thirty algorithms, the paper's eight classes of them, and its eight core tasks.

This is the one place that says which algorithm belongs to which class (the paper's table of algorithms and classes),
which eight tasks its tuning and ablations use (one a class), and how it spells each name in print.
"""

from enum import StrEnum


class AlgorithmClass(StrEnum):
    """The eight classes of algorithms, in the order of the paper's columns.

    >>> CLASS_OF["bellman_ford"] is AlgorithmClass.GRAPHS
    True
    """

    DIVIDE_AND_CONQUER = "divide and conquer"
    DYNAMIC_PROGRAMMING = "dynamic programming"
    GEOMETRY = "geometry"
    GRAPHS = "graphs"
    GREEDY = "greedy"
    SEARCH = "search"
    SORTING = "sorting"
    STRINGS = "strings"


# Names as dm-clrs spells them, in dm-clrs' order; titles as the paper prints them.
TITLES: dict[str, str] = {
    "articulation_points": "Articulation Points",
    "activity_selector": "Activity Selector",
    "bellman_ford": "Bellman-Ford",
    "bfs": "BFS",
    "binary_search": "Binary Search",
    "bridges": "Bridges",
    "bubble_sort": "Bubble Sort",
    "dag_shortest_paths": "DAG Shortest Paths",
    "dfs": "DFS",
    "dijkstra": "Dijkstra",
    "find_maximum_subarray_kadane": "Find Max. Subarray",
    "floyd_warshall": "Floyd-Warshall",
    "graham_scan": "Graham Scan",
    "heapsort": "Heapsort",
    "insertion_sort": "Insertion Sort",
    "jarvis_march": "Jarvis' March",
    "kmp_matcher": "KMP Matcher",
    "lcs_length": "LCS Length",
    "matrix_chain_order": "Matrix Chain Order",
    "minimum": "Minimum",
    "mst_kruskal": "MST-Kruskal",
    "mst_prim": "MST-Prim",
    "naive_string_matcher": "Naïve String Match",
    "optimal_bst": "Optimal BST",
    "quickselect": "Quickselect",
    "quicksort": "Quicksort",
    "segments_intersect": "Segments Intersect",
    "strongly_connected_components": "SCC",
    "task_scheduling": "Task Scheduling",
    "topological_sort": "Topological Sort",
}

ALGORITHMS: tuple[str, ...] = tuple(TITLES)

CLASSES: dict[AlgorithmClass, tuple[str, ...]] = {
    AlgorithmClass.DIVIDE_AND_CONQUER: ("find_maximum_subarray_kadane",),
    AlgorithmClass.DYNAMIC_PROGRAMMING: ("lcs_length", "matrix_chain_order", "optimal_bst"),
    AlgorithmClass.GEOMETRY: ("graham_scan", "jarvis_march", "segments_intersect"),
    AlgorithmClass.GRAPHS: (
        "articulation_points",
        "bellman_ford",
        "bfs",
        "bridges",
        "dag_shortest_paths",
        "dfs",
        "dijkstra",
        "floyd_warshall",
        "mst_kruskal",
        "mst_prim",
        "strongly_connected_components",
        "topological_sort",
    ),
    AlgorithmClass.GREEDY: ("activity_selector", "task_scheduling"),
    AlgorithmClass.SEARCH: ("binary_search", "minimum", "quickselect"),
    AlgorithmClass.SORTING: ("bubble_sort", "heapsort", "insertion_sort", "quicksort"),
    AlgorithmClass.STRINGS: ("kmp_matcher", "naive_string_matcher"),
}

CLASS_OF: dict[str, AlgorithmClass] = {name: group for group, names in CLASSES.items() for name in names}

CORE_TASKS: tuple[str, ...] = (
    "activity_selector",
    "bellman_ford",
    "binary_search",
    "find_maximum_subarray_kadane",
    "graham_scan",
    "insertion_sort",
    "matrix_chain_order",
    "naive_string_matcher",
)

STRING_MATCHERS: tuple[str, ...] = CLASSES[AlgorithmClass.STRINGS]
