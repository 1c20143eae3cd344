"""The sizes of the examples of each algorithm, which mainly determine the cost of a run."""

from typing import NamedTuple


class TaskSize(NamedTuple):
    """The number of nodes and the mean number of hints of examples of size 16 and 64, the paper's sizes for training
    and testing.

    An example of T hints takes T - 1 steps of the processor.
    """

    train_nodes: int
    train_hints: float
    test_nodes: int
    test_hints: float


TASK_SIZES: dict[str, TaskSize] = {
    "articulation_points": TaskSize(16, 54.89, 64, 354.88),
    "activity_selector": TaskSize(16, 17.0, 64, 65.0),
    "bellman_ford": TaskSize(16, 5.14, 64, 6.38),
    "bfs": TaskSize(16, 4.26, 64, 3.44),
    "binary_search": TaskSize(16, 5.0, 64, 7.0),
    "bridges": TaskSize(16, 54.89, 64, 354.88),
    "bubble_sort": TaskSize(16, 121.0, 64, 2017.0),
    "dag_shortest_paths": TaskSize(16, 22.65, 64, 83.41),
    "dfs": TaskSize(16, 48.0, 64, 192.0),
    "dijkstra": TaskSize(16, 16.58, 64, 65.0),
    "find_maximum_subarray_kadane": TaskSize(16, 16.0, 64, 64.0),
    "floyd_warshall": TaskSize(16, 16.0, 64, 64.0),
    "graham_scan": TaskSize(16, 26.51, 64, 117.06),
    "heapsort": TaskSize(16, 84.0, 64, 456.81),
    "insertion_sort": TaskSize(16, 16.0, 64, 64.0),
    "jarvis_march": TaskSize(16, 128.31, 64, 841.94),
    "kmp_matcher": TaskSize(20, 15.27, 80, 61.03),
    "lcs_length": TaskSize(16, 9.08, 64, 41.41),
    "matrix_chain_order": TaskSize(16, 12.31, 64, 46.94),
    "minimum": TaskSize(16, 16.0, 64, 64.0),
    "mst_kruskal": TaskSize(16, 12.06, 64, 302.5),
    "mst_prim": TaskSize(16, 16.58, 64, 65.0),
    "naive_string_matcher": TaskSize(20, 11.24, 80, 42.91),
    "optimal_bst": TaskSize(17, 17.0, 65, 65.0),
    "quickselect": TaskSize(16, 40.55, 64, 188.44),
    "quicksort": TaskSize(16, 61.23, 64, 400.56),
    "segments_intersect": TaskSize(4, 5.0, 4, 5.0),
    "strongly_connected_components": TaskSize(16, 88.28, 64, 324.0),
    "task_scheduling": TaskSize(16, 17.0, 64, 65.0),
    "topological_sort": TaskSize(16, 36.48, 64, 134.19),
}
"""Measured on the first 1,000 canonical training examples and the first 32 test examples:
`clrs.sample(name, 1000, 16, seed=1)` and `clrs.sample(name, 32, 64, seed=3)`."""
