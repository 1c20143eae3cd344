"""The contract between a sweep and what carries out its runs."""

from dataclasses import dataclass
from typing import Protocol

from ..run import Run


@dataclass(frozen=True)
class Ended:
    """A run that an engine has let go of: it has its result, or an error, or its worker was lost."""

    run: Run
    error: str | None = None
    """In one line; None where the run has its result."""
    lost: bool = False
    """Whether a machine went away under it, which says nothing against the run."""


class Engine(Protocol):
    """Carries out runs, as many at a time as there are slots. All that a run leaves behind is in its folder, so any
    engine goes on with what another began."""

    @property
    def slots(self) -> int:
        """How many runs may be carried out at the same time, as far as is known now."""
        ...

    def submit(self, run: Run) -> None:
        """Take a run; it starts when a slot is free."""
        ...

    def wait(self, seconds: float) -> list[Ended]:
        """What has ended since the last call; waits for the first of them, at most so long."""
        ...

    def stop(self) -> None:
        """Let what is running save itself, and end it; forget what has not started."""
        ...

    def close(self) -> None:
        """Let go of the engine when nothing is running."""
        ...
