"""Studies in a database: SQLite for one machine, a server for many."""

import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.storages import RDBStorage

from .sqlite_copy import WAIT_SECONDS, check_signature, copy_to_memory

if TYPE_CHECKING:
    from sqlalchemy import URL

ATTEMPTS = 10
TABLES = {"studies", "trials", "version_info", "alembic_version"}


def open_database(address: str) -> RDBStorage:
    """Open a database for a search, and create its tables if they are missing."""
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

    path = sqlite_file(_parse(address))
    if path is not None and os.path.lexists(path):
        check_signature(path)
    if address.startswith("sqlite"):
        engine: dict[str, Any] = {"connect_args": {"timeout": WAIT_SECONDS}}
    else:
        engine = {"pool_pre_ping": True}  # a training run is long enough for a server to drop the connection
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return RDBStorage(_as_template(address), engine_kwargs=engine)
        except (IntegrityError, OperationalError, ProgrammingError):
            # Processes that open a new database together all try to create its tables; all but one fail, and find them
            # made at the next attempt.
            if attempt == ATTEMPTS:
                raise
            time.sleep(random.uniform(0.1, 0.5))
    raise AssertionError("unreachable")


def look_into_database(address: str) -> RDBStorage:
    """Open a database for reading; nothing is written to it, not even by Optuna."""
    import sqlalchemy
    from sqlalchemy.pool import StaticPool

    url = _parse(address)
    if url.get_backend_name() == "sqlite":
        path = sqlite_file(url)
        if path is None:
            raise ValueError("it names no file, so it holds no search")
        memory = copy_to_memory(path)
        if not {name for (name,) in memory.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} >= TABLES:
            raise ValueError("no search has been begun in it")
        return RDBStorage("sqlite://", {"creator": lambda: memory, "poolclass": StaticPool}, skip_table_creation=True)
    # What PostgreSQL alone understands, and others skip.
    engine = {"pool_pre_ping": True, "execution_options": {"postgresql_readonly": True}}
    connection = sqlalchemy.create_engine(url, **engine)
    try:
        tables = sqlalchemy.inspect(connection).get_table_names()
    finally:
        connection.dispose()
    if not set(tables) >= TABLES:
        raise ValueError("no search has been begun in it")
    return RDBStorage(_as_template(address), engine_kwargs=engine, skip_table_creation=True)


def sqlite_file(url: "URL") -> Path | None:
    """The file of an SQLite database; None for a database in memory, or of another kind."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:":
        return None
    if name.startswith("file:"):
        raise ValueError("an SQLite file is named by its path alone: sqlite:///PATH")
    return Path(name)


def _parse(address: str) -> "URL":
    from sqlalchemy import make_url

    return make_url(address)


def _as_template(address: str) -> str:
    """For Optuna, which fills in what is in braces: a password may have some."""
    return address.replace("{", "{{").replace("}", "}}")
