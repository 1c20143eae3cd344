"""Moved: see `relational_transformer.files`."""

from relational_transformer.files import remove_unfinished, write_atomically, write_json, write_json_lines

__all__ = ["remove_unfinished", "write_atomically", "write_json", "write_json_lines"]
