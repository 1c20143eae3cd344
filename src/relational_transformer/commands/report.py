"""`rt report`: all results beside the paper's numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from relational_transformer.files import write_atomically
from relational_transformer.reading import read_text
from relational_transformer.reports.bundle import write_report
from relational_transformer.reports.comparison import compare, overview
from relational_transformer.reports.formats import FORMATS
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.results.variants import title_of
from relational_transformer.reports.tables import build_table

BEGIN, END = "<!-- results: begin (made by rt report) -->", "<!-- results: end -->"


@dataclass(frozen=True)
class ReportArguments:
    """Print all results beside the paper's numbers, write them into a Markdown file (--write), or write a whole report
    (--out): a folder with index.html, a page of all tables and figures that loads nothing, with the tables as Markdown,
    CSV and LaTeX, and with the figures as SVG.

    A table has our mean ± the standard deviation over seeds, the paper's, and the difference with its 95% interval. "In
    the noise" says whether Welch's t-test, corrected by Holm, finds no difference at level 0.05.
    """

    results: Annotated[Path, tyro.conf.Positional] = Path("results")
    """A folder with results or runs; every result.json below it is read."""
    table: str | None = None
    """A table of the paper: main, deviations, classes, transformer, single_layer, pointers, core_node, edge_updates,
    train_size, untuned, published_baselines, parameters, speed, lobster or sokoban; modern and modern_classes, the
    results of the modern protocol; or qm9, beside published errors. By default, every result."""
    models: tuple[str, ...] = ()
    """With --table: only these of its models, such as rt."""
    format: Literal["markdown", "csv", "latex"] = "markdown"
    """The format in which tables are printed."""
    write: Path | None = None
    """A Markdown file in which the tables replace what is between two marks, as in docs/results.md."""
    out: Path | None = None
    """A folder to write the whole report to."""


def run(arguments: ReportArguments) -> None:
    if not arguments.results.is_dir():
        raise FileNotFoundError(2, "no such folder", str(arguments.results))
    if arguments.write is not None and arguments.format != "markdown":
        raise ValueError(f"--write puts tables into a Markdown file: leave out --format {arguments.format}")
    if arguments.models and arguments.table is None:
        raise ValueError("--models selects models of one table: name it with --table")
    archive = Archive(read_results(arguments.results))
    if arguments.out is not None:
        write_report(arguments.out, archive)
        print(f"report   {arguments.out / 'index.html'}, with tables/ and figures/ beside it")
    if arguments.write is not None:
        insert(arguments.write, _text(arguments, archive))
    elif arguments.out is None or arguments.table is not None:
        print(_text(arguments, archive), end="")


def _text(arguments: ReportArguments, archive: Archive) -> str:
    if arguments.table is None and arguments.format == "markdown":
        return compare(archive)
    table = overview(archive) if arguments.table is None else build_table(arguments.table, archive)
    if arguments.models:
        table = table.only_columns([title_of(model) for model in arguments.models])
    return FORMATS[arguments.format](table)


def insert(path: Path, table: str) -> None:
    """Put the table between the two marks of a Markdown file, which must have each of them once, in this order."""
    text = read_text(path)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or END in before:
        raise ValueError(
            f"{path} has no place for the table: it needs the lines {BEGIN} and {END}, each once and in this order"
        )
    # The file may be a link; its target is replaced.
    write_atomically(path.resolve(), lambda file: file.write_text(f"{before}{BEGIN}\n{table}{END}{after}"))
