"""The parts of a page that are not Python: its template, its style, its scripts."""
