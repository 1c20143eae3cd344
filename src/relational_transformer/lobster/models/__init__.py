"""The three models of the experiment, and a fleet of one of them run layer by layer."""
