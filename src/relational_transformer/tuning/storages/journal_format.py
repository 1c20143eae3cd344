"""The lines of a journal: Optuna's records, each with a checksum of all lines before it.

The first line, which Optuna skips, names the journal. It has the least number of lines that follow, and the checksum
of the last of them, and is overwritten after every record. So the checksum of the next line detects a line that was
changed, lost, doubled or moved, and the first line detects that lines were cut off at the end. Lines appended by
Optuna's dashboard or an older version have no checksum; that of the next record covers them. Journals without a
first line are read as well.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from relational_transformer.reading import check

_LINK = re.compile(rb',"chain":"([0-9a-f]{32})"\}\n')
_LINK_BYTES = len(b',"chain":""}\n') + 32
_FIRST_LINE = re.compile(
    rb'\{"op_code":2,"worker_id":"","study_id":-1,"user_attr":\{"journal":"([0-9a-f]{32})"\},'
    rb'"lines":"(\d{12})","chain":"([0-9a-f]{32})"\}\n'
)


class FirstLine(NamedTuple):
    """At least `lines` lines follow, and the checksum at the last of them is `link`."""

    journal: str
    lines: int
    link: str

    def encode(self) -> bytes:
        """The line, always of the same length, so that it can be overwritten."""
        # For Optuna, an attribute of a study that is not there, which it skips.
        record = {"op_code": 2, "worker_id": "", "study_id": -1, "user_attr": {"journal": self.journal}}
        return _dump(record | {"lines": f"{self.lines:012d}", "chain": self.link}) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "FirstLine | None":
        match = _FIRST_LINE.fullmatch(line)
        return match and cls(match[1].decode(), int(match[2]), match[3].decode())


@dataclass
class Chain:
    """The checksum after the lines so far.

    >>> line = Chain().seal({"op_code": 1, "worker_id": "", "study_id": 0})
    >>> Chain().follow(line)
    >>> Chain("another journal").follow(line)
    Traceback (most recent call last):
    ValueError: it does not follow from the lines before it
    """

    link: str = ""

    def seal(self, record: dict[str, Any]) -> bytes:
        """The line of a record, with the checksum at its end."""
        body = _dump(record)[:-1]
        self.link = _hash(self.link, body)
        return body + f',"chain":"{self.link}"}}\n'.encode()

    def follow(self, line: bytes) -> None:
        """The chain after one more line; ValueError if its checksum does not fit the lines before it."""
        match = _LINK.fullmatch(line[-_LINK_BYTES:])
        link = _hash(self.link, line if match is None else line[:-_LINK_BYTES])
        if match is not None and match[1].decode() != link:
            raise ValueError("it does not follow from the lines before it")
        self.link = link


def parse_record(line: bytes) -> dict[str, Any]:
    """The record in a line; ValueError if it is not one of Optuna's."""
    try:
        record = json.loads(line)  # NaN too, which Optuna writes
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is not JSON") from None
    check(record, _Record)
    kind = _RECORDS.get(record["op_code"])
    if kind is None:
        raise ValueError(f"there is no operation {str(record['op_code'])[:20]}")
    check(record, kind)
    return record


def _hash(link: str, content: bytes) -> str:
    return hashlib.sha256(link.encode() + content).hexdigest()[:32]


def _dump(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


FIRST_LINE_BYTES = len(FirstLine("0" * 32, 0, "0" * 32).encode())


class _Record(TypedDict):
    op_code: int
    worker_id: str


class _CreateStudy(TypedDict):
    study_name: str
    directions: list[int]


class _DeleteStudy(TypedDict):
    study_id: int


class _SetStudyUserAttribute(TypedDict):
    study_id: int
    user_attr: dict[str, Any]


class _SetStudySystemAttribute(TypedDict):
    study_id: int
    system_attr: dict[str, Any]


class _CreateTrial(TypedDict):
    study_id: int
    datetime_start: str | None


class _SetTrialParameter(TypedDict):
    trial_id: int
    param_name: str
    param_value_internal: int | float
    distribution: str


class _SetTrialState(TypedDict):
    trial_id: int
    state: int
    values: list[Any] | None


class _SetTrialIntermediateValue(TypedDict):
    trial_id: int
    step: int
    intermediate_value: Any


class _SetTrialUserAttribute(TypedDict):
    trial_id: int
    user_attr: dict[str, Any]


class _SetTrialSystemAttribute(TypedDict):
    trial_id: int
    system_attr: dict[str, Any]


_RECORDS: dict[int, Any] = dict(
    enumerate(
        (
            _CreateStudy, _DeleteStudy, _SetStudyUserAttribute, _SetStudySystemAttribute, _CreateTrial,
            _SetTrialParameter, _SetTrialState, _SetTrialIntermediateValue, _SetTrialUserAttribute,
            _SetTrialSystemAttribute, _Record,
        )
    )
)  # fmt: skip
"""By Optuna's operation codes. Optuna skips the last, which only another implementation writes."""
