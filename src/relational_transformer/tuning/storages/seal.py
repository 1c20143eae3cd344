"""Checksums of finished runs, so that a score or a configuration that was changed in the storage is noticed.

Journals have a checksum of their own; a database has none.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from optuna import Study
from optuna.trial import TrialState

ATTRIBUTE = "seal"


def seal_of(study: str, number: int, params: Mapping[str, Any], score: float) -> str:
    """The checksum of a run: its study, its number, its configuration and its score.

    >>> seal_of("rt on core", 7, {"layers": 3}, 0.5) == seal_of("rt on core", 7, {"layers": 2}, 0.5)
    False
    """
    content = json.dumps([study, number, params, score], sort_keys=True, default=repr)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def check_seals(study: Study) -> None:
    """ValueError if a run is missing or was changed. Runs of older versions have no seal to check."""
    if len(study.directions) > 1:
        raise ValueError(f"the study {study.study_name!r} has {len(study.directions)} objectives, a search has one")
    trials = study.get_trials(deepcopy=False)
    for number, trial in enumerate(trials):
        if trial.number != number:
            raise ValueError(f"trial {number} of the study {study.study_name!r} is missing: use an earlier copy")
        if trial.state is TrialState.COMPLETE and ATTRIBUTE in trial.user_attrs:
            expected = seal_of(study.study_name, number, trial.params, trial.value)  # pyright: ignore[reportArgumentType]
            if trial.user_attrs[ATTRIBUTE] != expected:
                raise ValueError(f"trial {number} of the study {study.study_name!r} was changed: use an earlier copy")
