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

MODERN_HINTS: dict[str, tuple[float, ...]] = {
    "articulation_points": (12.81, 23.88, 41.46, 51.01, 67.68),
    "activity_selector": (5.0, 8.0, 12.0, 14.0, 17.0),
    "bellman_ford": (1.94, 2.69, 3.4, 3.59, 3.92),
    "bfs": (1.9, 2.46, 2.87, 2.94, 3.14),
    "binary_search": (3.0, 3.76, 4.48, 4.72, 5.0),
    "bridges": (12.81, 23.88, 41.46, 51.01, 67.68),
    "bubble_sort": (7.0, 22.0, 56.0, 79.0, 121.0),
    "dag_shortest_paths": (6.38, 9.85, 14.07, 15.56, 20.25),
    "dfs": (12.0, 21.0, 33.0, 39.0, 48.0),
    "dijkstra": (3.31, 5.32, 8.37, 9.75, 12.16),
    "find_maximum_subarray_kadane": (4.0, 7.0, 11.0, 13.0, 16.0),
    "floyd_warshall": (4.0, 7.0, 11.0, 13.0, 16.0),
    "graham_scan": (6.28, 10.82, 17.64, 21.03, 26.5),
    "heapsort": (14.12, 28.65, 52.33, 64.72, 84.13),
    "insertion_sort": (4.0, 7.0, 11.0, 13.0, 16.0),
    "jarvis_march": (19.59, 42.46, 77.26, 98.58, 128.5),
    "kmp_matcher": (14.19,),
    "lcs_length": (1.65, 3.22, 5.77, 7.11, 9.15),
    "matrix_chain_order": (3.0, 5.37, 8.44, 10.09, 12.27),
    "minimum": (4.0, 7.0, 11.0, 13.0, 16.0),
    "mst_kruskal": (2.02, 4.98, 12.79, 18.57, 28.3),
    "mst_prim": (3.31, 5.32, 8.37, 9.75, 12.16),
    "naive_string_matcher": (9.43,),
    "optimal_bst": (5.0, 8.0, 12.0, 14.0, 17.0),
    "quickselect": (6.86, 14.3, 26.02, 32.0, 40.12),
    "quicksort": (7.2, 17.67, 35.5, 45.37, 60.75),
    "segments_intersect": (5.0, 5.0, 5.0, 5.0, 5.0),
    "strongly_connected_components": (24.0, 40.31, 62.36, 73.48, 89.06),
    "task_scheduling": (5.0, 8.0, 12.0, 14.0, 17.0),
    "topological_sort": (10.79, 17.85, 26.79, 31.22, 37.32),
}
"""The mean number of hints of training examples of the modern protocol, by their length (`training_lengths`), of 1,000
examples each: `clrs.sample(name, 1000, length, 0, protocol="modern")`."""
