"""One HTML page of all tables and pictures, which loads nothing."""
