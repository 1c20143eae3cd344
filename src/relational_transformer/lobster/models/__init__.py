"""The three models of the experiment."""
