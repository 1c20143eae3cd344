"""From measured results to tables, pictures and a page beside the paper's own numbers."""

from .archive import Archive
from .bundle import write_report
from .estimate import Estimate
from .measured import Measured, read_results
from .paper import numbers, published
from .significance import difference, holm
from .table import Table
from .tables import TABLES, build_table, table_for

__all__ = [
    "TABLES",
    "Archive",
    "Estimate",
    "Measured",
    "Table",
    "build_table",
    "difference",
    "holm",
    "numbers",
    "published",
    "read_results",
    "table_for",
    "write_report",
]
