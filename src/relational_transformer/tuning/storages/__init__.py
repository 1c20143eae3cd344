"""Where a search is kept: a journal of checksummed lines, an SQLite file, or another database; opened, or looked at."""

from .opening import database_errors, load_study, one_sentence, open_storage, open_study

__all__ = ["database_errors", "load_study", "one_sentence", "open_storage", "open_study"]
