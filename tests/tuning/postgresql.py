"""A PostgreSQL server for a test: made in a temporary folder, reached by a socket in it, gone afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

USER = "postgres"
WAIT = ("--wait", "--timeout", "600")


def binaries() -> Path | None:
    """The folder with initdb and pg_ctl, of the newest version installed."""
    on_path = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    folders += [Path(on_path).parent] if on_path else []
    return next((folder for folder in reversed(folders) if (folder / "pg_ctl").exists()), None)


def why_not() -> str | None:
    """Why no server can be started here; None where one can."""
    if binaries() is None:
        return "no PostgreSQL server is installed"
    if find_spec("psycopg") is None:
        return "the driver psycopg is not installed"
    if os.geteuid() == 0 and USER not in {entry.pw_name for entry in pwd.getpwall()}:
        return f"PostgreSQL does not run as root, and there is no user {USER!r}"
    return None


@contextmanager
def server() -> Iterator[str]:
    """Starts a server and gives its URL."""
    folder = binaries()
    assert folder is not None
    user = USER if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="rt-postgresql-", dir="/tmp") as home:  # a socket's path must be short
        if user:
            shutil.chown(home, user)

        def run(program: str, *arguments: str) -> None:
            command = [str(folder / program), "-D", f"{home}/data", *arguments]
            subprocess.run(command, user=user, cwd=home, check=True, stdout=subprocess.DEVNULL)

        run("initdb", "--username", USER, "--auth", "trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off"
        run("pg_ctl", *WAIT, "--log", f"{home}/log", "--options", options, "start")
        try:
            yield f"postgresql+psycopg://{USER}@/postgres?host={home}"
        finally:
            run("pg_ctl", *WAIT, "--mode", "immediate", "stop")
