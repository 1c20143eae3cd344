"""Tables, figures and a page of results beside the paper's numbers."""

from .bundle import write_report
from .paper import numbers, published
from .results.archive import Archive
from .results.estimate import Estimate
from .results.measured import Measured, read_results
from .results.significance import difference, holm
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
