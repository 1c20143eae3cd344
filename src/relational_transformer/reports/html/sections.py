"""The sections of the page, and their contents."""

from dataclasses import dataclass

from ..other_tables import OTHERS
from ..paper import numbers
from ..pictures import (
    ABLATIONS,
    Picture,
    bar_chart,
    class_chart,
    histograms,
    learning_curves,
    single_chart,
    table_chart,
)
from ..results.archive import Archive
from ..results.provenance import HEADERS, describe_runs
from ..table import Table
from .page_tables import PageTable, lay_out

SHORT = {
    "main": "Tasks",
    "deviations": "Deviations",
    "classes": "Classes",
    "transformer": "Transformer",
    "single_layer": "One layer",
    "pointers": "Pointers",
    "core_node": "Core node",
    "edge_updates": "Edge updates",
    "train_size": "Training sets",
    "untuned": "Tuning",
    "published_baselines": "Published",
    "parameters": "Parameters",
    "speed": "Speed",
    "modern": "Modern",
    "modern_classes": "Modern classes",
    "lobster": "Lobster",
    "sokoban": "Sokoban",
    "qm9": "QM9",
}

CURVES = (
    "Validation scores in percent (relative loss on lobster graphs): the mean over seeds, and a band from the worst "
    "seed to the best."
)


@dataclass(frozen=True)
class Section:
    """A section of the page: text, then figures, then a table; any of them may be missing."""

    name: str
    short: str
    title: str
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    table: PageTable | None = None
    list: tuple[tuple[str, ...], ...] = ()
    folded: bool = False
    """Whether the table is folded until it is opened."""


def make_sections(archive: Archive, tables: dict[str, Table]) -> list[Section]:
    """All sections in the order of the page."""
    curves = learning_curves(archive)
    return [
        Section("figure-1", "Figure 1", "Averages over classes", pictures=(bar_chart(archive), class_chart(archive))),
        *(_table_section(table) for table in tables.values()),
        Section("variance", "Variance", "How single runs are spread", pictures=tuple(histograms(archive))),
        Section(
            "curves",
            "Curves",
            "Learning curves",
            text=(CURVES if curves else "Missing: no metrics.jsonl lies beside a result.",),
            pictures=tuple(curves),
        ),
        Section(
            "contradictions",
            "The paper",
            "Where the paper contradicts itself",
            list=(("about", "what"), *((note["about"], note["says"]) for note in numbers()["contradictions"])),
        ),
        Section(
            "runs",
            "Runs",
            "Where the numbers come from",
            list=(HEADERS, *describe_runs(archive)) if archive.all else (),
        ),
    ]


def _table_section(table: Table) -> Section:
    pictures: tuple[Picture, ...] = ()
    if table.name in ABLATIONS:
        pictures = (table_chart(table),)
    elif table.name in OTHERS:
        pictures = (single_chart(table),)
    text = (f"{table.source} of the paper.",) if table.source else ()
    return Section(
        table.name, SHORT[table.name], table.title, text, pictures, lay_out(table), folded=table.name == "deviations"
    )
