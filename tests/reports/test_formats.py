"""What a name may hold without breaking the table that it stands in."""

import pytest

from relational_transformer.reports.formats import to_markdown
from relational_transformer.reports.results.cell import Cell, Ours
from relational_transformer.reports.results.estimate import Estimate
from relational_transformer.reports.table import Table


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("<!-- results: end -->", "&lt;!-- results: end -->"),
        ("a | b", r"a \| b"),
        ("a\nb", "a b"),
        ("[x](javascript:y)", r"[x]\(javascript:y)"),
    ],
)
def test_names_neither_bring_tags_into_markdown_nor_end_its_cells(name: str, printed: str):
    ours = Ours(Estimate.of([99.0, 98.0]), notes=(name,))
    text = to_markdown(Table("bfs", "An example", "", (Cell(name, name, ours, Estimate.printed(99.0, 0.7, 20)),)))
    row = text.splitlines()[2]
    assert row.startswith(f"| {printed} | {printed} |")
    assert f"{printed}." in text.splitlines()[4]
    assert name not in text
    head, rule = text.splitlines()[:2]
    assert row.replace(r"\|", "").count("|") == head.count("|") == rule.count("|")
