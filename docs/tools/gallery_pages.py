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
NODES, SEED = 16, 3


@cache
def page_of(task: str) -> str:
    """The page of an algorithm: with its run, where there is one."""
    runs = [open_run(RUNS / task, name="small RT")] if (RUNS / task).is_dir() else []
    return make_page(task, runs, nodes=(NODES,), seed=SEED)


def on_files(files: Files, config: Any) -> Files:
    for task in ALGORITHMS:
        files.append(File.generated(config, f"gallery/{task}.html", content=page_of(task)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return markdown.replace(PLACE, table()) if page.file.src_uri == INDEX else markdown


def table() -> str:
    """A row for each algorithm, with what its model scores."""
    head = "| page | class | 16 nodes | 64 nodes | training examples | minutes |\n|---|---|---:|---:|---:|---:|"
    order = sorted(ALGORITHMS, key=lambda task: (CLASS_OF[task], TITLES[task]))
    return "\n".join([head, *map(row_of, order)])


def row_of(task: str) -> str:
    start = f"| [{TITLES[task]}]({task}.html) | {CLASS_OF[task]} |"
    result = RunFolder(RUNS / task).read_result() if (RUNS / task).is_dir() else None
    if result is None:
        return f"{start} no model yet | | | |"
    (seed,), examples = result["seeds"], result["config"]["protocol"]["examples"]
    scores = " | ".join(f"{100 * seed[name]:.1f}%" for name in ("validation", "test"))
    return f"{start} {scores} | {examples:,} | {result['seconds'] / 60:.1f} |"
