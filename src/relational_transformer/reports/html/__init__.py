"""One HTML page of all tables and figures, which loads nothing."""
