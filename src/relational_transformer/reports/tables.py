"""The tables of the paper by name, with our numbers beside its own."""

from collections.abc import Callable
from pathlib import Path

from .cost_tables import parameters, speed
from .formats import to_markdown
from .modern_table import modern, modern_classes
from .other_tables import OTHERS
from .qm9_table import qm9
from .results.archive import Archive
from .results.measured import read_results
from .score_tables import (
    RETUNED,
    ablation,
    classes,
    deviations,
    main,
    published_baselines,
    train_size,
    untuned,
)
from .table import Table

TABLES: dict[str, Callable[[Archive], Table]] = {
    "main": main,
    "deviations": deviations,
    "classes": classes,
    "transformer": ablation("transformer", "RT and a standard transformer", RETUNED),
    "single_layer": ablation("single_layer", "RT with one layer and with three", RETUNED),
    "pointers": ablation("pointers", "Node pointers decoded as CLRS-30 does, and from edges alone"),
    "core_node": ablation("core_node", "The global vector as a core node, and concatenated"),
    "edge_updates": ablation("edge_updates", "RT without and with edge updates"),
    "train_size": train_size,
    "untuned": untuned,
    "published_baselines": published_baselines,
    "parameters": parameters,
    "speed": speed,
    "modern": modern,
    "modern_classes": modern_classes,
    **OTHERS,
    "qm9": qm9,
}
"""The functions that make the tables, in the order of the page."""


def build_table(name: str, archive: Archive) -> Table:
    """One of the paper's tables.

    >>> build_table("classes", Archive([])).columns[-1]
    'RT'
    """
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    return TABLES[name](archive)


def table_for(experiment: str, results_folder: Path | str) -> str:
    """The table of an experiment in Markdown, from every `result.json` below a folder.

    >>> print(table_for("sokoban", "an/empty/folder").splitlines()[3])
    | Sokoban | RT | - | missing | 29 | - | - | - |
    """
    return to_markdown(build_table(experiment, Archive(read_results(Path(results_folder)))))
