"""The contract between a sweep and the engine that trains its runs."""

from dataclasses import dataclass
from typing import Protocol

from ..run import Run


@dataclass(frozen=True)
class Ended:
    """A run that an engine is done with: it has a result or an error, its worker was lost, or it was not begun."""

    run: Run
    error: str | None = None
    """The error in one line; None where the run has a result."""
    lost: bool = False
    """Whether the machine of the run was lost, which is not an error of the run."""
    not_begun: bool = False
    """Whether it was not begun, because no run was to begin any more."""


class Engine(Protocol):
    """Trains runs, as many at a time as there are slots. The state of a run is in its folder, so any engine can resume
    what another began."""

    @property
    def slots(self) -> int:
        """The number of runs that can be trained at the same time now."""
        ...

    def submit(self, run: Run) -> None:
        """Add a run, which starts when a slot is free."""
        ...

    def wait(self, seconds: float) -> list[Ended]:
        """The runs that have ended since the last call. Waits up to `seconds` for the first one."""
        ...

    def stop(self) -> None:
        """Stop all runs after they have saved a checkpoint, and drop those that have not started."""
        ...

    def close(self) -> None:
        """Release the engine's resources. No run may be under way."""
        ...
