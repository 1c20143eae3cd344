"""A hook of MkDocs: the pages of the gallery, which `rt look` makes from `results/gallery`, and the table that leads to
them. They are made when the site is built, so they are never older than the runs; the repository has the runs alone.
"""

from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from relational_transformer.clrs.classes import ALGORITHMS, CLASS_OF, TITLES
from relational_transformer.look.page import make_page
from relational_transformer.look.run import open_run
from relational_transformer.runs.run_folder import RunFolder

RUNS = Path(__file__).parents[2] / "results" / "gallery"
PLACE = "<!-- the table of the gallery -->"
INDEX = "gallery/index.md"
NODES = 16
SEEDS = {"articulation_points": 12, "bridges": 12, "mst_kruskal": 12}
"""Of the examples; that of others is 3, in which the graphs of these have hardly an edge."""


@cache
def page_of(task: str) -> str:
    """The page of an algorithm and its run."""
    return make_page(task, [open_run(RUNS / task, name="small RT")], nodes=(NODES,), seed=SEEDS.get(task, 3))


def on_files(files: Files, config: Any) -> Files:
    for task in ALGORITHMS:
        files.append(File.generated(config, f"gallery/{task}.html", content=page_of(task)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return markdown.replace(PLACE, table()) if page.file.src_uri == INDEX else markdown


def table() -> str:
    """A row for each algorithm, with what its model scores."""
    head = "| page | class | 16 nodes | 32 nodes | training examples | minutes |\n|---|---|---:|---:|---:|---:|"
    order = sorted(ALGORITHMS, key=lambda task: (CLASS_OF[task], TITLES[task]))
    return "\n".join([head, *map(row_of, order)])


def row_of(task: str) -> str:
    result = RunFolder(RUNS / task).read_result()
    assert result is not None
    (seed,), examples = result["seeds"], result["config"]["protocol"]["examples"]
    scores = " | ".join(f"{100 * seed[name]:.1f}%" for name in ("validation", "test"))
    start = f"| [{TITLES[task]}]({task}.html) | {CLASS_OF[task]} |"
    return f"{start} {scores} | {examples:,} | {result['seconds'] / 60:.1f} |"
