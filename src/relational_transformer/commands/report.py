"""`rt report`: what was measured, beside the paper's numbers."""

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
from relational_transformer.reports.tables import build_table

BEGIN, END = "<!-- results: begin (made by rt report) -->", "<!-- results: end -->"


@dataclass(frozen=True)
class ReportArguments:
    """Print what was measured beside the paper's numbers, put it into a Markdown file, or write a whole report.

    A whole report (--out) is a page that opens in any browser without a network, index.html, with every table and
    picture; beside it the tables as Markdown, CSV and LaTeX and the pictures as SVG.
    """

    results: Annotated[Path, tyro.conf.Positional] = Path("results")
    """Folder with results or runs; every result.json below it counts."""
    table: str | None = None
    """A table of the paper: main, deviations, classes, transformer, single_layer, pointers, core_node, edge_updates,
    train_size, untuned, published_baselines, parameters, speed, lobster or sokoban; modern, of what was trained by the
    modern protocol; or qm9, beside what others have published. By default, all there is."""
    format: Literal["markdown", "csv", "latex"] = "markdown"
    """How the table is printed."""
    write: Path | None = None
    """A Markdown file: the table goes between its two marks (docs/results.md has them)."""
    out: Path | None = None
    """A folder for the whole report."""


def run(arguments: ReportArguments) -> None:
    if not arguments.results.is_dir():
        raise FileNotFoundError(2, "no such folder", str(arguments.results))
    if arguments.write is not None and arguments.format != "markdown":
        raise ValueError(f"--write puts tables into a Markdown file, and not as {arguments.format}")
    archive = Archive(read_results(arguments.results))
    if arguments.out is not None:
        write_report(arguments.out, archive)
        print(f"{arguments.out / 'index.html'}: open it in a browser; tables/ and figures/ lie beside it")
    if arguments.write is not None:
        insert(arguments.write, _text(arguments, archive))
    elif arguments.out is None or arguments.table is not None:
        print(_text(arguments, archive), end="")


def _text(arguments: ReportArguments, archive: Archive) -> str:
    if arguments.table is None and arguments.format == "markdown":
        return compare(archive)
    table = overview(archive) if arguments.table is None else build_table(arguments.table, archive)
    return FORMATS[arguments.format](table)


def insert(path: Path, table: str) -> None:
    """Put the table between the marks of a Markdown file, each of which it must have once, and in their order."""
    text = read_text(path)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or END in before:
        raise ValueError(
            f"{path} has no place for the table: it needs the lines {BEGIN} and {END}, each once and in this order"
        )
    # A README may be a link: what it leads to has just been read.
    write_atomically(path.resolve(), lambda file: file.write_text(f"{before}{BEGIN}\n{table}{END}{after}"))
