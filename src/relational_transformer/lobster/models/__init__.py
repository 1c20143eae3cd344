"""The three models of the experiment, and fleets of them, which are run layer by layer."""
