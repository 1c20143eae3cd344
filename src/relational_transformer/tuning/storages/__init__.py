"""Where a search is stored: a journal of checksummed lines, an SQLite file, or another database. Opening and
reading."""

from .opening import database_errors, load_study, one_sentence, open_storage, open_study

__all__ = ["database_errors", "load_study", "one_sentence", "open_storage", "open_study"]
