"""Opens the storage of a study: a journal file, or a database for many machines."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna import Study
from optuna.exceptions import StorageInternalError
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, JournalStorage

from relational_transformer.passwords import hide_passwords
from relational_transformer.reading import UnreadableFile

from .databases import look_into_database, open_database
from .journal import Journal, create_journal
from .seal import check_seals


class AnotherSearch(ValueError):
    """The study exists and belongs to another search."""


def open_storage(location: str, *, writing: bool = True) -> BaseStorage:
    """A journal file for a path, a database for an URL: `sqlite:///tuning.db`, `postgresql://user@host/name`.

    A missing storage is created. Any number of processes may open the same location at the same time. With
    `writing=False` the storage must exist, and no byte of it changes.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     storage = open_storage(f"{folder}/tuning.journal")
    ...     print(storage.get_all_studies())
    []
    """
    with one_sentence(location):
        if "://" in location:
            return open_database(location) if writing else look_into_database(location)
        path = Path(location)
        if writing:
            create_journal(path)
        return JournalStorage(Journal(path, writing=writing))


@contextmanager
def one_sentence(location: str) -> Iterator[None]:
    """Turn every error of opening or reading a storage into one sentence that names it, without a password.

    Optuna, SQLAlchemy and the drivers trust what they read: a damaged file makes them fail in many ways.
    """
    try:
        yield
    except Exception as error:
        raise UnreadableFile(hide_passwords(_say(error, location), location)) from None


def _say(error: Exception, location: str) -> str:
    if isinstance(error, UnreadableFile | AnotherSearch):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"no search has been begun in {location}: there is no such file"
    if isinstance(error, OSError):
        return f"{location} cannot be used ({error.strerror or error})"
    if isinstance(error, ImportError):
        driver = getattr(error.__cause__, "name", None) or error.name or "of that database"
        return f"{location!r} needs the driver {driver}, which is not installed"
    return f"no {'database' if '://' in location else 'journal'} can be used at {location!r}: {describe(error)}"


@contextmanager
def database_errors(location: str) -> Iterator[None]:
    """During a search, turn errors of a database into one sentence. Other errors are not changed."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("sqlalchemy", "optuna") or isinstance(error, ValueError):
            raise
        message = f"the search in {location!r} cannot go on: {describe(error)}"
        raise ValueError(hide_passwords(message, location)) from None


def describe(error: Exception) -> str:
    """The first line of a driver's message, without SQLAlchemy's additions."""
    if isinstance(error, StorageInternalError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = str(getattr(error, "orig", None) or error).splitlines()
    said = lines[0] if lines else ""
    if isinstance(error, LookupError | TypeError | AttributeError | AssertionError | RecursionError) or not said:
        return f"what is in it cannot be read ({type(error).__name__}: {said or 'no more is known'})"
    return said


def open_study(
    storage: BaseStorage, name: str, protocol: Mapping[str, Any] | None = None, sampler: BaseSampler | None = None
) -> Study:
    """The study called `name`, which is created if it is missing. Scores are maximised.

    `protocol` says how its trials are run: plain values that JSON can hold. Trials of different protocols cannot be
    compared, so the first worker writes it into the study, and later workers must have the same.

    >>> storage = optuna.storages.InMemoryStorage()
    >>> study = open_study(storage, "a", {"n": 1})
    >>> open_study(storage, "a", {"n": 2})  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    AnotherSearch: the study 'a' was begun with n=1 (now 2); give the new search another name
    """
    study = optuna.create_study(
        storage=storage, study_name=name, sampler=sampler, direction="maximize", load_if_exists=True
    )
    wanted: dict[str, Any] = json.loads(json.dumps(protocol or {}))  # as it comes back: lists for tuples
    known: Any = study.user_attrs.get("protocol", wanted)
    if not isinstance(known, dict):
        raise AnotherSearch(f"the study {name!r} was not begun by this program: give the new search another name")
    if known != wanted:
        differing = [key for key in {**known, **wanted} if known.get(key) != wanted.get(key)]
        raise AnotherSearch(
            f"the study {name!r} was begun with "
            + ", ".join(f"{key}={known.get(key)!r} (now {wanted.get(key)!r})" for key in differing)
            + "; give the new search another name"
        )
    check_seals(study)
    study.set_user_attr("protocol", wanted)
    return study


def load_study(location: str, name: str) -> Study:
    """The study called `name`, for reading; nothing is written.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     location = f"{folder}/search.journal"
    ...     _ = open_study(open_storage(location), "a")
    ...     load_study(location, "a").study_name
    'a'
    """
    storage = open_storage(location, writing=False)
    with one_sentence(location):
        known = [study.study_name for study in storage.get_all_studies()]
        if name in known:
            study = optuna.load_study(study_name=name, storage=storage)
            check_seals(study)
            return study
    where = hide_passwords(location, location)
    raise ValueError(f"no search is called {name!r} in {where}; there are: {'; '.join(known) or 'none'}")
