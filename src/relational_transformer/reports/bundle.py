"""A whole report as a folder: the page, every table in every format, every picture."""

from pathlib import Path

from relational_transformer.files import write_atomically

from .comparison import overview
from .formats import ENDINGS, FORMATS
from .html.page import make_page
from .html.sections import make_sections
from .results.archive import Archive
from .tables import TABLES, build_table


def write_report(folder: Path, archive: Archive) -> list[Path]:
    """Write `index.html`, `tables/NAME.md|csv|tex` and `figures/NAME.svg` below a folder. Returns their paths.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_report(Path(folder), Archive([]))
    >>> written[0].name, len(written) > 50
    ('index.html', True)
    """
    tables = {name: build_table(name, archive) for name in TABLES}
    sections = make_sections(archive, tables)
    texts = {folder / "index.html": make_page(archive, tables["main"], sections)}
    for table in (overview(archive), *tables.values()):
        for form, render in FORMATS.items():
            texts[folder / "tables" / f"{table.name}.{ENDINGS[form]}"] = render(table)
    for picture in (picture for section in sections for picture in section.pictures):
        texts[folder / "figures" / f"{picture.name}.svg"] = picture.drawing.svg(with_style=True) + "\n"
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file, text=text: file.write_text(text, encoding="utf-8"))
    return list(texts)
