"""`rt report`: what was measured, beside the paper's numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from relational_transformer.files import write_atomically
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.measured import read_results

BEGIN, END = "<!-- results: begin (made by rt report) -->", "<!-- results: end -->"


@dataclass(frozen=True)
class ReportArguments:
    """Print a table of measured test scores beside the paper's, or put it into a Markdown file."""

    results: Annotated[Path, tyro.conf.Positional] = Path("results")
    """Folder with results or runs; every result.json below it counts."""
    write: Path | None = None
    """A Markdown file: the table goes between its two marks (README.md has them)."""


def run(arguments: ReportArguments) -> None:
    if not arguments.results.is_dir():
        raise FileNotFoundError(2, "no such folder", str(arguments.results))
    table = compare(read_results(arguments.results))
    if arguments.write is None:
        print(table, end="")
    else:
        insert(arguments.write, table)


def insert(path: Path, table: str) -> None:
    """Put the table between the marks of a Markdown file."""
    text = path.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} has no place for the table: it needs the lines {BEGIN} and {END}")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    write_atomically(path, lambda file: file.write_text(f"{before}{BEGIN}\n{table}{END}{after}"))
