"""What came of one hostile attempt."""

from typing import Literal, NamedTuple

Kind = Literal["accepted", "refused", "traceback", "silent difference", "hang"]


class Outcome(NamedTuple):
    """`attempt` says what was tried, so that it can be tried again; `detail` what was answered.

    An attempt is `accepted` (rightly), or `refused` in a sentence that names what was wrong. The other kinds are
    defects.
    """

    attempt: str
    kind: Kind
    detail: str = ""

    @property
    def is_defect(self) -> bool:
        return self.kind not in ("accepted", "refused")
