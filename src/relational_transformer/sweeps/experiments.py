"""The experiments of the paper, and those beyond it, as data: their models, tasks and numbers of seeds."""

from dataclasses import dataclass

from relational_transformer.clrs.classes import ALGORITHMS, CORE_TASKS
from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.processors.settings import TUNED, UNTUNED

PAPER_SEEDS = 20
"""The number of seeds of every experiment for which the paper gives one."""

_UNTUNED = tuple(f"untuned_{model}" for model in UNTUNED)
_TASKS_WITH_GLOBALS = (
    "binary_search",
    "find_maximum_subarray_kadane",
    "graham_scan",
    "heapsort",
    "kmp_matcher",
    "mst_kruskal",
    "task_scheduling",
)


_QM9 = tuple(
    f"qm9_{target}" for target in ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u", "h", "g", "cv")
)
"""The twelve properties for which others publish errors."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure: every model on every task, at every size of the training set."""

    title: str
    models: tuple[str, ...]
    tasks: tuple[str, ...] = CORE_TASKS
    train_sizes: tuple[int, ...] = (10_000,)
    """Numbers of examples of the training set (CLRS-30 only)."""
    examples: int | None = None
    """Examples that each seed trains on; None for that of the paper's protocol."""
    seeds: int = PAPER_SEEDS
    protocol: ProtocolName = "paper"
    """CLRS-30: the default protocol."""


def _ablation(title: str, model: str, tasks: tuple[str, ...] = CORE_TASKS) -> Experiment:
    return Experiment(title, ("rt", model), tasks)


EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment("Test scores of all tuned models on all tasks", tuple(TUNED), ALGORITHMS),
    "classes": Experiment("The same, averaged over the eight classes of algorithms", tuple(TUNED), ALGORITHMS),
    "transformer": _ablation("RT against a standard transformer", "transformer"),
    "single_layer": _ablation("RT with one layer", "rt_single_layer"),
    "pointers": _ablation("Node pointers decoded from nodes and edges, as CLRS-30 does", "rt_node_pointers"),
    "core_node": _ablation("RT with a core node for the global vector", "rt_core", _TASKS_WITH_GLOBALS),
    "edge_updates": _ablation("RT without edge updates", "rt_no_edge_updates"),
    "train_size": Experiment(
        "Untuned baselines, trained on 1,000 and on 10,000 examples", _UNTUNED, train_sizes=(1_000, 10_000)
    ),
    "untuned": Experiment("Baselines before and after tuning", (*_UNTUNED, *UNTUNED)),
    "published_baselines": Experiment(
        "The published baselines of CLRS-30 again (their improved versions are in main)",
        ("untuned_deep_sets", "untuned_mpnn", "untuned_pgn", "untuned_pgn_masked"),
        ALGORITHMS,
        train_sizes=(1_000,),
    ),
    "parameters": Experiment("Numbers of trainable parameters", (*TUNED, *_UNTUNED), tasks=("bellman_ford",), seeds=0),
    "speed": Experiment(
        "Speed of training on Bellman-Ford", (*TUNED, *_UNTUNED), tasks=("bellman_ford",), examples=16_000
    ),
    "modern": Experiment(
        "Test scores by the modern protocol", ("rt", "triplet_gmpnn"), ALGORITHMS, seeds=3, protocol="modern"
    ),
    "lobster": Experiment("Shortest paths in lobster graphs", ("rt", "gat", "gcn"), tasks=("lobster",)),
    "sokoban": Experiment("Sokoban with the WMG agent", ("transformer", "rt"), tasks=("sokoban",), seeds=5),
    "qm9": Experiment("Properties of the molecules of QM9", ("rt",), tasks=_QM9, seeds=2),
}
"""The experiments by name, in the order of the paper, which does not have `modern` and `qm9`. The paper does not give
the number of seeds for Sokoban. PGN-c in its tables is the better of `pgn` and `pgn_masked` on each task, and needs no
runs of its own."""

ALIASES: dict[str, tuple[str, ...]] = {"core": CORE_TASKS, "pgn_combined": ("pgn", "pgn_masked")}
"""Names that stand for several tasks or models."""


def find_experiment(name: str) -> Experiment:
    """An experiment by its name.

    >>> find_experiment("edge_updates").models
    ('rt', 'rt_no_edge_updates')
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; the experiments are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
