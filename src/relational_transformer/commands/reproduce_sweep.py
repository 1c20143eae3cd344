"""Runs carried out while somebody watches."""

from rich.console import Console

from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import EngineOptions, open_engine

from .reproduce_display import SweepDisplay


def carry_out(runs: list[Run], where: EngineOptions) -> dict[Run, tuple[str, ...]]:
    """Train all runs that have no result yet, and say what happens. Returns those that were given up, with why."""
    if all(run.is_done for run in runs):
        return {}
    engine = open_engine(where)
    try:
        with Console(stderr=True).status("Counting the operations of every run"):
            costs = {run: run.flop for run in runs}
        # One at a time, the cheap ones first: there is something to see soon. Several at a time, the costly ones first:
        # the last one to end decides when all is done.
        in_order = sorted(runs, key=costs.__getitem__, reverse=engine.slots > 1)
        with SweepDisplay(costs, engine) as display:
            outcome = sweep(in_order, engine, report=display.report, tick=display.update)
    finally:
        engine.close()
    display.conclude(outcome)
    return outcome.given_up
