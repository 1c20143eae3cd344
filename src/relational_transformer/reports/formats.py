"""Tables as text: Markdown, CSV and LaTeX, with one row for each number."""

import csv
import io
import re
from collections.abc import Callable

from .table import Table
from .wording import explanations, headers, mark, missing, rows

SPREAD = "± is the standard deviation over seeds."


def to_markdown(table: Table) -> str:
    """A Markdown table with its footnotes and remarks. A remark names columns without results."""
    table = table.without_missing_columns()
    columns, body = headers(table), list(rows(table))
    same: list[str] = []
    if table.is_brief:
        columns, body, same = _fold(columns, body)
    texts = {table.row_header, table.column_header}
    lines = [
        f"| {' | '.join(map(escape_markdown, columns))} |",
        f"|{'|'.join('---' if name in texts else '---:' for name in columns)}|",
    ]
    lines += [
        f"| {' | '.join(f'**{text}**' if text in ('no', 'no †') else text for text in cells)} |"
        for cells in (map(escape_markdown, row) for row in body)
    ]
    notes = [f"{mark(number)} {note}." for number, note in enumerate(table.notes, start=1)]
    beneath = (escape_markdown(line) for line in (*notes, *same, *_told(table)))
    return "\n".join([*lines, "", *(f"{line}  " for line in beneath)]).rstrip() + "\n"


def _fold(
    columns: tuple[str, ...], body: list[tuple[str, ...]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[str]]:
    """Leave out p-values, and the columns that are the same in all of several rows. The last list names them.

    >>> _fold(("task", "model", "p (Holm)"), [("bfs", "RT", "0.9"), ("dfs", "RT", "0.8")])
    (('task',), [('bfs',), ('dfs',)], ['In all rows: model RT.'])
    """
    is_same = {place: len({row[place] for row in body}) == 1 and len(body) > 1 for place in range(len(columns))}
    kept = [place for place, name in enumerate(columns) if not is_same[place] and not name.startswith("p (")]
    named = ", ".join(f"{columns[place]} {body[0][place]}" for place, same in is_same.items() if same)
    return (
        tuple(columns[place] for place in kept),
        [tuple(row[place] for place in kept) for row in body],
        [f"In all rows: {named}."] if named else [],
    )


def to_latex(table: Table) -> str:
    """A `longtable`, which may span several pages, for the packages booktabs and longtable."""
    table = table.without_missing_columns()
    columns = headers(table)
    head = [r"\toprule", _latex_row(columns), r"\midrule"]
    caption = escape(" ".join((f"{table.title}.", *_told(table))))
    notes = [
        f"\\noindent\\textsuperscript{{{number}}} {escape(note)}.\n" for number, note in enumerate(table.notes, start=1)
    ]
    lines = [
        r"\begin{longtable}{ll" + "r" * (len(columns) - 2) + "}",
        f"\\caption{{{caption}}}\\label{{tab:{table.name}}}\\\\",
        *head,
        r"\endfirsthead",
        *head,
        r"\endhead",
        *(_latex_row(cells) for cells in rows(table)),
        r"\bottomrule",
        r"\end{longtable}",
        *notes,
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: tuple[str, ...]) -> str:
    return " & ".join(escape(text) for text in cells) + r" \\"


def to_csv(table: Table) -> str:
    """A row for every cell, with full precision. Missing numbers are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("table", table.row_header, table.column_header, "seeds", "failed_seeds", "ours", "ours_deviation", "paper",
         "paper_deviation", "paper_seeds", "difference", "low_95", "high_95", "spread_assumed", "p", "p_holm",
         "in_the_noise", "notes")
    )  # fmt: skip
    for cell, one in zip(table.cells, table.judgements, strict=True):
        ours, paper, found = cell.estimate, cell.paper, one.difference if one else None
        writer.writerow(
            (
                table.name,
                cell.row,
                cell.column,
                ours.seeds if ours else "",
                cell.ours.failed if cell.ours else "",
                *((ours.mean, ours.deviation) if ours else ("", "")),
                *((paper.mean, paper.deviation, paper.seeds) if paper else ("", "", "")),
                *((found.value, found.low, found.high) if found else ("", "", "")),
                ("yes" if found.assumed else "no") if found and found.low is not None else "",
                found.p if found else "",
                one.p if one else "",
                one.verdict if one else "",
                "; ".join(cell.ours.notes if cell.ours else (missing(cell),)),
            )
        )
    return text.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {"markdown": to_markdown, "csv": to_csv, "latex": to_latex}
"""The renderers by the names of `rt report --format`."""
ENDINGS: dict[str, str] = {"markdown": "md", "csv": "csv", "latex": "tex"}


def _told(table: Table) -> tuple[str, ...]:
    """The remarks below a table, or in its caption."""
    return (*((SPREAD,) if table.kind == "tested" else ()), *explanations(table), *table.remarks)


def escape_markdown(text: str) -> str:
    """Escape a text, so that it has no tags, links, ends of cells or ends of lines.

    >>> escape_markdown("a|b <script>")
    'a\\\\|b &lt;script>'
    """
    text = " ".join(text.split()).replace("\\", "\\\\").replace("&", "&amp;")
    text = re.sub(r"<(?=[^\s\d.])", "&lt;", text)  # what begins a tag; p < 0.001 does not
    return re.sub(r"([|`])|(?<=\])(?=\()", lambda found: "\\" + found[0], text)


def escape(text: str) -> str:
    """Escape a text for LaTeX."""
    special = {
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "†": r"\textdagger{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
    }
    special |= {character: f"\\{character}" for character in "&%$#_{}"}
    digits = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
    special |= {raised: f"\\textsuperscript{{{digit}}}" for raised, digit in digits.items()} | {
        "˒": r"\textsuperscript{,}"
    }
    return "".join(special.get(character, character) for character in text)
