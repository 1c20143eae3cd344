"""The inputs, outputs and hints of every algorithm: `SPECS[algorithm][feature] -> FeatureSpec`.

The words are dm-clrs' own (`input`, `node`, `mask_one`, ...), and so is the order of the features: inputs, outputs,
hints.
"""

from collections.abc import Mapping
from types import MappingProxyType

from relational_transformer.clrs.checks import check_protocol
from relational_transformer.clrs.classes import (
    ALGORITHMS,
    CLASS_OF,
    CLASSES,
    CORE_TASKS,
    TITLES,
    AlgorithmClass,
)
from relational_transformer.clrs.feature import (
    FeatureSpec,
    FeatureVersion,
    Location,
    ProtocolName,
    Spec,
    Stage,
    Type,
)
from relational_transformer.clrs.samples.modern import modern_spec

__all__ = [
    "ALGORITHMS",
    "CLASSES",
    "CLASS_OF",
    "CORE_TASKS",
    "SPECS",
    "TITLES",
    "AlgorithmClass",
    "FeatureSpec",
    "FeatureVersion",
    "Location",
    "ProtocolName",
    "Spec",
    "Stage",
    "Type",
    "spec_of",
]

_Kind = tuple[Location, Type, int | None]


def _categorical(location: Location, classes: int) -> _Kind:
    return location, Type.CATEGORICAL, classes


def _spec(inputs: dict[str, _Kind], outputs: dict[str, _Kind], hints: dict[str, _Kind]) -> Spec:
    stages = ((Stage.INPUT, inputs), (Stage.OUTPUT, outputs), (Stage.HINT, hints))
    return MappingProxyType(
        {name: FeatureSpec(stage, *kind) for stage, kinds in stages for name, kind in kinds.items()}
    )


NODE_SCALAR: _Kind = (Location.NODE, Type.SCALAR, None)
NODE_MASK: _Kind = (Location.NODE, Type.MASK, None)
NODE_MASK_ONE: _Kind = (Location.NODE, Type.MASK_ONE, None)
NODE_POINTER: _Kind = (Location.NODE, Type.POINTER, None)
NODE_PERMUTATION: _Kind = (Location.NODE, Type.SHOULD_BE_PERMUTATION, None)
EDGE_SCALAR: _Kind = (Location.EDGE, Type.SCALAR, None)
EDGE_MASK: _Kind = (Location.EDGE, Type.MASK, None)
EDGE_POINTER: _Kind = (Location.EDGE, Type.POINTER, None)
GRAPH_SCALAR: _Kind = (Location.GRAPH, Type.SCALAR, None)
GRAPH_MASK: _Kind = (Location.GRAPH, Type.MASK, None)

_SPECS: dict[str, Spec] = {
    "articulation_points": _spec(
        inputs={"pos": NODE_SCALAR, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"is_cut": NODE_MASK},
        hints={
            "is_cut_h": NODE_MASK,
            "pi_h": NODE_POINTER,
            "color": _categorical(Location.NODE, 3),
            "d": NODE_SCALAR,
            "f": NODE_SCALAR,
            "low": NODE_SCALAR,
            "child_cnt": NODE_SCALAR,
            "s_prev": NODE_POINTER,
            "s": NODE_MASK_ONE,
            "u": NODE_MASK_ONE,
            "v": NODE_MASK_ONE,
            "s_last": NODE_MASK_ONE,
            "time": GRAPH_SCALAR,
        },
    ),
    "activity_selector": _spec(
        inputs={"pos": NODE_SCALAR, "s": NODE_SCALAR, "f": NODE_SCALAR},
        outputs={"selected": NODE_MASK},
        hints={"pred_h": NODE_POINTER, "selected_h": NODE_MASK, "m": NODE_MASK_ONE, "k": NODE_MASK_ONE},
    ),
    "bellman_ford": _spec(
        inputs={"pos": NODE_SCALAR, "s": NODE_MASK_ONE, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"pi": NODE_POINTER},
        hints={"pi_h": NODE_POINTER, "d": NODE_SCALAR, "msk": NODE_MASK},
    ),
    "bfs": _spec(
        inputs={"pos": NODE_SCALAR, "s": NODE_MASK_ONE, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"pi": NODE_POINTER},
        hints={"reach_h": NODE_MASK, "pi_h": NODE_POINTER},
    ),
    "binary_search": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR, "target": GRAPH_SCALAR},
        outputs={"return": NODE_MASK_ONE},
        hints={"pred_h": NODE_POINTER, "low": NODE_MASK_ONE, "high": NODE_MASK_ONE, "mid": NODE_MASK_ONE},
    ),
    "bridges": _spec(
        inputs={"pos": NODE_SCALAR, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"is_bridge": EDGE_MASK},
        hints={
            "is_bridge_h": EDGE_MASK,
            "pi_h": NODE_POINTER,
            "color": _categorical(Location.NODE, 3),
            "d": NODE_SCALAR,
            "f": NODE_SCALAR,
            "low": NODE_SCALAR,
            "s_prev": NODE_POINTER,
            "s": NODE_MASK_ONE,
            "u": NODE_MASK_ONE,
            "v": NODE_MASK_ONE,
            "s_last": NODE_MASK_ONE,
            "time": GRAPH_SCALAR,
        },
    ),
    "bubble_sort": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR},
        outputs={"pred": NODE_PERMUTATION},
        hints={"pred_h": NODE_POINTER, "i": NODE_MASK_ONE, "j": NODE_MASK_ONE},
    ),
    "dag_shortest_paths": _spec(
        inputs={"pos": NODE_SCALAR, "s": NODE_MASK_ONE, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"pi": NODE_POINTER},
        hints={
            "pi_h": NODE_POINTER,
            "d": NODE_SCALAR,
            "mark": NODE_MASK,
            "topo_h": NODE_POINTER,
            "topo_head_h": NODE_MASK_ONE,
            "color": _categorical(Location.NODE, 3),
            "s_prev": NODE_POINTER,
            "u": NODE_MASK_ONE,
            "v": NODE_MASK_ONE,
            "s_last": NODE_MASK_ONE,
            "phase": GRAPH_MASK,
        },
    ),
    "dfs": _spec(
        inputs={"pos": NODE_SCALAR, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"pi": NODE_POINTER},
        hints={
            "pi_h": NODE_POINTER,
            "color": _categorical(Location.NODE, 3),
            "d": NODE_SCALAR,
            "f": NODE_SCALAR,
            "s_prev": NODE_POINTER,
            "s": NODE_MASK_ONE,
            "u": NODE_MASK_ONE,
            "v": NODE_MASK_ONE,
            "s_last": NODE_MASK_ONE,
            "time": GRAPH_SCALAR,
        },
    ),
    "dijkstra": _spec(
        inputs={"pos": NODE_SCALAR, "s": NODE_MASK_ONE, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"pi": NODE_POINTER},
        hints={"pi_h": NODE_POINTER, "d": NODE_SCALAR, "mark": NODE_MASK, "in_queue": NODE_MASK, "u": NODE_MASK_ONE},
    ),
    "find_maximum_subarray_kadane": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR},
        outputs={"start": NODE_MASK_ONE, "end": NODE_MASK_ONE},
        hints={
            "pred_h": NODE_POINTER,
            "best_low": NODE_MASK_ONE,
            "best_high": NODE_MASK_ONE,
            "best_sum": GRAPH_SCALAR,
            "i": NODE_MASK_ONE,
            "j": NODE_MASK_ONE,
            "sum": GRAPH_SCALAR,
        },
    ),
    "floyd_warshall": _spec(
        inputs={"pos": NODE_SCALAR, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"Pi": EDGE_POINTER},
        hints={"Pi_h": EDGE_POINTER, "D": EDGE_SCALAR, "msk": EDGE_MASK, "k": NODE_MASK_ONE},
    ),
    "graham_scan": _spec(
        inputs={"pos": NODE_SCALAR, "x": NODE_SCALAR, "y": NODE_SCALAR},
        outputs={"in_hull": NODE_MASK},
        hints={
            "best": NODE_MASK_ONE,
            "atans": NODE_SCALAR,
            "in_hull_h": NODE_MASK,
            "stack_prev": NODE_POINTER,
            "last_stack": NODE_MASK_ONE,
            "i": NODE_MASK_ONE,
            "phase": _categorical(Location.GRAPH, 5),
        },
    ),
    "heapsort": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR},
        outputs={"pred": NODE_PERMUTATION},
        hints={
            "pred_h": NODE_POINTER,
            "parent": NODE_POINTER,
            "i": NODE_MASK_ONE,
            "j": NODE_MASK_ONE,
            "largest": NODE_MASK_ONE,
            "heap_size": NODE_MASK_ONE,
            "phase": _categorical(Location.GRAPH, 3),
        },
    ),
    "insertion_sort": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR},
        outputs={"pred": NODE_PERMUTATION},
        hints={"pred_h": NODE_POINTER, "i": NODE_MASK_ONE, "j": NODE_MASK_ONE},
    ),
    "jarvis_march": _spec(
        inputs={"pos": NODE_SCALAR, "x": NODE_SCALAR, "y": NODE_SCALAR},
        outputs={"in_hull": NODE_MASK},
        hints={
            "pred_h": NODE_POINTER,
            "in_hull_h": NODE_MASK,
            "best": NODE_MASK_ONE,
            "last_point": NODE_MASK_ONE,
            "endpoint": NODE_MASK_ONE,
            "i": NODE_MASK_ONE,
            "phase": _categorical(Location.GRAPH, 2),
        },
    ),
    "kmp_matcher": _spec(
        inputs={"string": NODE_MASK, "pos": NODE_SCALAR, "key": _categorical(Location.NODE, 4)},
        outputs={"match": NODE_MASK_ONE},
        hints={
            "pred_h": NODE_POINTER,
            "pi": NODE_POINTER,
            "is_reset": NODE_MASK,
            "k": NODE_MASK_ONE,
            "k_reset": GRAPH_MASK,
            "q": NODE_MASK_ONE,
            "q_reset": GRAPH_MASK,
            "s": NODE_MASK_ONE,
            "i": NODE_MASK_ONE,
            "phase": GRAPH_MASK,
        },
    ),
    "lcs_length": _spec(
        inputs={"string": NODE_MASK, "pos": NODE_SCALAR, "key": _categorical(Location.NODE, 4)},
        outputs={"b": _categorical(Location.EDGE, 4)},
        hints={"pred_h": NODE_POINTER, "b_h": _categorical(Location.EDGE, 4), "c": EDGE_SCALAR},
    ),
    "matrix_chain_order": _spec(
        inputs={"pos": NODE_SCALAR, "p": NODE_SCALAR},
        outputs={"s": EDGE_POINTER},
        hints={"pred_h": NODE_POINTER, "m": EDGE_SCALAR, "s_h": EDGE_POINTER, "msk": EDGE_MASK},
    ),
    "minimum": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR},
        outputs={"min": NODE_MASK_ONE},
        hints={"pred_h": NODE_POINTER, "min_h": NODE_MASK_ONE, "i": NODE_MASK_ONE},
    ),
    "mst_kruskal": _spec(
        inputs={"pos": NODE_SCALAR, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"in_mst": EDGE_MASK},
        hints={
            "in_mst_h": EDGE_MASK,
            "pi": NODE_POINTER,
            "u": NODE_MASK_ONE,
            "v": NODE_MASK_ONE,
            "root_u": NODE_MASK_ONE,
            "root_v": NODE_MASK_ONE,
            "mask_u": NODE_MASK,
            "mask_v": NODE_MASK,
            "phase": _categorical(Location.GRAPH, 3),
        },
    ),
    "mst_prim": _spec(
        inputs={"pos": NODE_SCALAR, "s": NODE_MASK_ONE, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"pi": NODE_POINTER},
        hints={"pi_h": NODE_POINTER, "key": NODE_SCALAR, "mark": NODE_MASK, "in_queue": NODE_MASK, "u": NODE_MASK_ONE},
    ),
    "naive_string_matcher": _spec(
        inputs={"string": NODE_MASK, "pos": NODE_SCALAR, "key": _categorical(Location.NODE, 4)},
        outputs={"match": NODE_MASK_ONE},
        hints={"pred_h": NODE_POINTER, "s": NODE_MASK_ONE, "i": NODE_MASK_ONE, "j": NODE_MASK_ONE},
    ),
    "optimal_bst": _spec(
        inputs={"pos": NODE_SCALAR, "p": NODE_SCALAR, "q": NODE_SCALAR},
        outputs={"root": EDGE_POINTER},
        hints={"pred_h": NODE_POINTER, "root_h": EDGE_POINTER, "e": EDGE_SCALAR, "w": EDGE_SCALAR, "msk": EDGE_MASK},
    ),
    "quickselect": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR},
        outputs={"median": NODE_MASK_ONE},
        hints={
            "pred_h": NODE_POINTER,
            "p": NODE_MASK_ONE,
            "r": NODE_MASK_ONE,
            "i": NODE_MASK_ONE,
            "j": NODE_MASK_ONE,
            "i_rank": GRAPH_SCALAR,
            "target": GRAPH_SCALAR,
        },
    ),
    "quicksort": _spec(
        inputs={"pos": NODE_SCALAR, "key": NODE_SCALAR},
        outputs={"pred": NODE_PERMUTATION},
        hints={"pred_h": NODE_POINTER, "p": NODE_MASK_ONE, "r": NODE_MASK_ONE, "i": NODE_MASK_ONE, "j": NODE_MASK_ONE},
    ),
    "segments_intersect": _spec(
        inputs={"pos": NODE_SCALAR, "x": NODE_SCALAR, "y": NODE_SCALAR},
        outputs={"intersect": GRAPH_MASK},
        hints={"i": NODE_MASK_ONE, "j": NODE_MASK_ONE, "k": NODE_MASK_ONE, "dir": NODE_SCALAR, "on_seg": NODE_MASK},
    ),
    "strongly_connected_components": _spec(
        inputs={"pos": NODE_SCALAR, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"scc_id": NODE_POINTER},
        hints={
            "scc_id_h": NODE_POINTER,
            "A_t": EDGE_MASK,
            "color": _categorical(Location.NODE, 3),
            "d": NODE_SCALAR,
            "f": NODE_SCALAR,
            "s_prev": NODE_POINTER,
            "s": NODE_MASK_ONE,
            "u": NODE_MASK_ONE,
            "v": NODE_MASK_ONE,
            "s_last": NODE_MASK_ONE,
            "time": GRAPH_SCALAR,
            "phase": GRAPH_MASK,
        },
    ),
    "task_scheduling": _spec(
        inputs={"pos": NODE_SCALAR, "d": NODE_SCALAR, "w": NODE_SCALAR},
        outputs={"selected": NODE_MASK},
        hints={"pred_h": NODE_POINTER, "selected_h": NODE_MASK, "i": NODE_MASK_ONE, "t": GRAPH_SCALAR},
    ),
    "topological_sort": _spec(
        inputs={"pos": NODE_SCALAR, "A": EDGE_SCALAR, "adj": EDGE_MASK},
        outputs={"topo": NODE_POINTER, "topo_head": NODE_MASK_ONE},
        hints={
            "topo_h": NODE_POINTER,
            "topo_head_h": NODE_MASK_ONE,
            "color": _categorical(Location.NODE, 3),
            "s_prev": NODE_POINTER,
            "s": NODE_MASK_ONE,
            "u": NODE_MASK_ONE,
            "v": NODE_MASK_ONE,
            "s_last": NODE_MASK_ONE,
        },
    ),
}

SPECS: Mapping[str, Spec] = MappingProxyType(_SPECS)
"""The features the paper used, for each of the thirty algorithms."""

_PIVOT = FeatureSpec(Stage.HINT, Location.NODE, Type.MASK_ONE)
_QUICKSELECT_2_0: Spec = MappingProxyType({**SPECS["quickselect"], "pivot": _PIVOT})


_MODERN: dict[str, Spec] = {
    name: modern_spec(name, _QUICKSELECT_2_0 if name == "quickselect" else spec) for name, spec in SPECS.items()
}


def spec_of(name: str, version: FeatureVersion | None = None, *, protocol: ProtocolName = "paper") -> Spec:
    """The features of an algorithm under a protocol.

    Args:
        name: one of `ALGORITHMS`.
        version: features of dm-clrs "1.0", as in the paper, or "2.0"; they differ in quickselect's `pivot` alone. The
            modern protocol has those of "2.0".
        protocol: "paper", or "modern" (see docs/clrs.md).

    >>> list(spec_of("bfs"))
    ['pos', 's', 'A', 'adj', 'pi', 'reach_h', 'pi_h']
    >>> {name: str(feature.type) for name, feature in spec_of("insertion_sort", protocol="modern").items()}["pred"]
    'permutation_pointer'
    """
    if check_protocol(protocol) == "modern":
        return _MODERN[name]
    if name == "quickselect" and version == "2.0":
        return _QUICKSELECT_2_0
    return SPECS[name]
