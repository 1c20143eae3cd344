"""One HTML page of tables, figures and provenance. It loads nothing and runs no script."""

from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import jinja2

import relational_transformer

from ..figures.drawing import STYLE
from ..paper import numbers
from ..results.archive import Archive, is_clrs
from ..results.variants import MODELS
from ..table import Table
from .sections import Section


class Tile(NamedTuple):
    """A number at the top of the page."""

    value: str
    label: str


def make_page(archive: Archive, main: Table, sections: Sequence[Section]) -> str:
    """The page as text; its first lines summarise the table `main`."""
    template = resources.files("relational_transformer.reports.html").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(template).render(
        introduction=(
            "Every result beside the paper's number, with the difference and whether it is more than noise. Cells "
            "without a result are shown as missing."
        ),
        source=numbers()["source"],
        tiles=_tiles(archive, main),
        sections=sections,
        figure_style=STYLE,
        version=relational_transformer.__version__,
    )


def _tiles(archive: Archive, main: Table) -> list[Tile]:
    clrs = [result for result in archive.results if is_clrs(result)]
    judged = [one.verdict for one in main.judgements if one]
    there = sum(cell.ours is not None for cell in main.cells if not cell.present)
    return [
        Tile(f"{sum(len(result.scores) for result in archive.results):,}", "trained seeds"),
        Tile(f"{len({result.task for result in clrs})} of {len(numbers()['main']['mean'])}", "CLRS-30 tasks measured"),
        Tile(
            f"{there} of {sum(not cell.present for cell in main.cells)}",
            f"cells of the main table ({len(MODELS)} models)",
        ),
        Tile(f"{judged.count('yes')}", "of its differences in the noise"),
        Tile(f"{judged.count('no')}", "more than noise"),
        Tile(f"{judged.count('-')}", "not judged"),
    ]
