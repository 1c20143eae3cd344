"""To show a search writes nothing: not a byte, not a time, not a file, whatever the storage is."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage

from relational_transformer import cli
from relational_transformer.tuning import GRIDS, Objective, load_study, open_storage, open_study
from relational_transformer.tuning.worker import run_trial
from tests.tuning import postgresql

STUDY = "mpnn on core"


def record(location, count=3):
    """A small search, done by the code that `rt tune` runs."""
    storage = open_storage(location)
    study = open_study(storage, STUDY)
    for number in range(count):
        run_trial(study, Objective(GRIDS["mpnn"], lambda configuration, seed, number=number: 0.1 * number))
    storage.remove_session()
    if isinstance(storage, RDBStorage):
        storage.engine.dispose()


def everything_below(folder: Path):
    """Every name with its kind, size, times and content; what is no regular file has no content to compare."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[path] = (state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns, content)
    return found, folder.stat().st_mtime_ns


def shown(folder: Path, location: str, capsys):
    """Exit status and output of `rt tune --show`, which leaves everything in the folder as it was."""
    before = everything_below(folder)
    status = cli.main(["tune", "mpnn", "--show", "--storage", location])
    assert everything_below(folder) == before
    output = capsys.readouterr()
    return status, output.out, output.err


@pytest.mark.parametrize("location", ["{}/study.journal", "sqlite:///{}/study.db"])
def test_a_search_is_shown(tmp_path, location, capsys):
    location = location.format(tmp_path)
    record(location)
    status, output, _ = shown(tmp_path, location, capsys)
    assert status == 0
    assert "3 runs of" in output


@pytest.mark.parametrize(
    "location", ["{}/study.journal", "{}/new/study.journal", "sqlite:///{}/study.db", "sqlite:///{}/new/study.db"]
)
def test_what_is_missing_is_not_made(tmp_path, location, capsys):
    status, _, error = shown(tmp_path, location.format(tmp_path), capsys)
    assert status == 2
    assert "no search has been begun in" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
@pytest.mark.parametrize("content", [b"", b'{"a":1}', b'{"a":1}\n', b"a letter\n", b"SQLite format 3\0", b"\0" * 5000])
def test_a_foreign_file_is_refused_in_one_line_and_left_alone(tmp_path, content: bytes, scheme: str, capsys):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    status, output, error = shown(tmp_path, f"{scheme}{path}", capsys)
    assert status == 2
    assert output == ""
    assert "x.json" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
def test_folders_fifos_and_circles_are_refused_and_not_waited_for(tmp_path, scheme: str, capsys):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("folder", "fifo", "circle"):
        status, _, error = shown(tmp_path, f"{scheme}{tmp_path}/{name}", capsys)
        assert status == 2
        assert name in error


def test_a_database_without_a_search_gets_no_tables(tmp_path, capsys):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE letters (content TEXT)")
        database.commit()
    status, _, error = shown(tmp_path, f"sqlite:///{path}", capsys)
    assert status == 2
    assert "no search has been begun in it" in error


def test_a_database_with_a_write_ahead_log_is_shown(tmp_path, capsys):
    location = f"sqlite:///{tmp_path}/study.db"
    record(location)
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("UPDATE studies SET study_name = 'mpnn on core'")
        database.commit()
        assert (tmp_path / "study.db-wal").stat().st_size > 0
        status, output, _ = shown(tmp_path, location, capsys)
    assert status == 0
    assert "3 runs of" in output


def test_a_database_whose_last_writer_was_killed_is_shown_as_it_was_before(tmp_path, capsys):
    record(f"sqlite:///{tmp_path}/study.db")
    other = tmp_path / "killed"
    other.mkdir()
    with closing(sqlite3.connect(tmp_path / "study.db", isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
        database.execute("BEGIN")
        database.execute("DELETE FROM trial_values")
        database.execute("CREATE TABLE filler AS SELECT randomblob(100000) AS content")
        shutil.copy(tmp_path / "study.db", other)
        shutil.copy(tmp_path / "study.db-journal", other)
        database.execute("ROLLBACK")
    status, output, error = shown(tmp_path, f"sqlite:///{other}/study.db", capsys)
    assert (status, error) == (0, "")
    assert "3 runs of" in output


def test_a_read_only_journal_is_shown(tmp_path, capsys):
    record(f"{tmp_path}/study.journal")
    (tmp_path / "study.journal").chmod(0o400)
    assert shown(tmp_path, f"{tmp_path}/study.journal", capsys)[0] == 0


def test_a_score_that_was_changed_in_a_database_is_noticed(tmp_path):
    location = f"sqlite:///{tmp_path}/study.db"
    record(location)
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("UPDATE trial_values SET value = 0.9 WHERE value > 0.15")
        database.commit()
    with pytest.raises(ValueError, match=r"trial 2 of the study 'mpnn on core' was changed"):
        load_study(location, STUDY)


def test_a_run_that_was_lost_in_a_database_is_noticed(tmp_path):
    location = f"sqlite:///{tmp_path}/study.db"
    record(location)
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("DELETE FROM trials WHERE number = 1")
        database.commit()
    with pytest.raises(ValueError, match=r"trial 1 of the study 'mpnn on core' is missing"):
        load_study(location, STUDY)


@pytest.mark.skipif(postgresql.why_not() is not None, reason=f"{postgresql.why_not()}")
def test_a_server_gets_no_tables_and_a_search_on_it_is_shown():
    import sqlalchemy

    with postgresql.server() as address:
        engine = sqlalchemy.create_engine(address)
        with pytest.raises(ValueError, match="no search has been begun in it"):
            load_study(address, STUDY)
        assert sqlalchemy.inspect(engine).get_table_names() == []
        engine.dispose()
        record(address)
        study = load_study(address, STUDY)
        assert [trial.value for trial in study.trials] == [0.0, 0.1, 0.2]
        with pytest.raises(StorageInternalError) as error:
            study.set_user_attr("a", 1)
        assert "read-only transaction" in str(error.value.__cause__)
        study._storage._backend.engine.dispose()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "change", ["UPDATE trials SET state = 'DONE'", "UPDATE trial_params SET distribution_json = '['"]
)
@pytest.mark.parametrize("flags", [[], ["--show"]])
def test_a_database_with_values_that_optuna_could_not_read_is_one_line(tmp_path, change: str, flags, capsys):
    location = f"sqlite:///{tmp_path}/study.db"
    record(location)
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute(change)
        database.execute("DELETE FROM study_user_attributes")  # as if it were of any protocol
        database.commit()
    status = cli.main(["tune", "mpnn", "--storage", location, "--device", "cpu", *flags])
    error = capsys.readouterr().err
    assert status == 2
    assert "study.db" in error
    assert error.count("\n") == 1
