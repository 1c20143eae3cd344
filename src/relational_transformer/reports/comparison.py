"""All results beside the paper's numbers: the tables of docs/results.md."""

from relational_transformer.clrs.classes import TITLES as TASK_TITLES
from relational_transformer.tasks import kind_of

from .formats import to_markdown
from .modern_table import modern, modern_classes
from .other_tables import OTHERS
from .paper import published
from .qm9_table import qm9
from .results.archive import Archive, is_clrs, ours_of, variant_named
from .results.cell import Cell
from .results.variants import title_of
from .score_tables import AVERAGE, COMBINED, core_averages, main
from .table import Table


def compare(archive: Archive) -> str:
    """Markdown tables: a row for every result of a CLRS-30 task, averages over tasks, the other experiments with
    results, and a separate table for the modern protocol."""
    if not archive.all:
        return "Nothing was measured yet.\n"
    tables = [overview(archive)] if any(map(is_clrs, archive.results)) else []
    for name, build in OTHERS.items():
        if any(result.task == name for result in archive.results):
            tables.append(build(archive))
    if any(kind_of(result.task) == "qm9" for result in archive.results):
        tables.append(qm9(archive))
    if len(archive.all) > len(archive.results):
        tables += [modern(archive), modern_classes(archive)]
    return "\n".join(to_markdown(table) for table in tables)


def overview(archive: Archive) -> Table:
    """Every result, also if there are several for one cell of the paper. Then the averages over the core tasks, of
    models with results on all of them, and the averages of the main table."""
    cells = []
    for result in sorted(filter(is_clrs, archive.results), key=lambda one: (one.task, one.model, str(one.config))):
        variant = variant_named(result)
        cells.append(
            Cell(TASK_TITLES[result.task], title_of(variant), ours_of(result), published(result.task, variant))
        )
    models = {cell.column for cell in cells}
    averages = [
        *core_averages(archive),
        *(cell for cell in main(archive).cells if cell.row == AVERAGE and (cell.column in models or cell.ours)),
    ]
    return Table(
        name="results",
        title="All that was measured",
        source="",
        cells=(*cells, *averages),
        untested_columns=(title_of("pgn_combined"),),
        remarks=(COMBINED,) if any(cell.column == title_of("pgn_combined") for cell in averages) else (),
    )
