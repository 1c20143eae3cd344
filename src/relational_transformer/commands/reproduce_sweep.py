"""Runs carried out while somebody watches."""

from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import EngineOptions, open_engine

from .reproduce_display import SweepDisplay


def carry_out(runs: list[Run], where: EngineOptions) -> dict[Run, tuple[str, ...]]:
    """Train all runs that have no result yet, and say what happens. Returns those that were given up, with why."""
    waiting = [run for run in runs if not run.is_done]
    if not waiting:
        return {}
    engine = open_engine(where)
    try:
        # One at a time, the cheap ones first: there is something to see soon. Several at a time, the costly ones first:
        # the last one to end decides when all is done.
        waiting.sort(key=lambda run: run.flop, reverse=engine.slots > 1)
        with SweepDisplay(runs, engine) as display:
            outcome = sweep(waiting, engine, report=display.report, tick=display.update)
    finally:
        engine.close()
    display.conclude(outcome)
    return outcome.given_up
