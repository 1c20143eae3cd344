"""Where studies live, and joining one that others have begun."""

import multiprocessing
import threading
from tempfile import NamedTemporaryFile

import pytest
from optuna.storages import JournalStorage

from relational_transformer.tuning import open_storage, open_study
from relational_transformer.tuning.storages import databases
from relational_transformer.tuning.storages.journal import create_journal
from relational_transformer.tuning.storages.journal_lock import locked
from tests.tuning import workers


def test_a_path_is_a_journal_file_and_its_folder_is_made(tmp_path):
    path = tmp_path / "new" / "folder" / "study.journal"
    assert isinstance(open_storage(str(path)), JournalStorage)
    assert path.exists()


@pytest.mark.parametrize("name", ["study.journal", "sqlite:///{}/study.db"])
def test_a_study_is_found_again_with_its_trials(tmp_path, name):
    location = name.format(tmp_path) if "://" in name else str(tmp_path / name)
    first = open_study(open_storage(location), "rt", {"tasks": ("bfs", "dfs")})
    first.optimize(lambda trial: 3.0, n_trials=2)
    again = open_study(open_storage(location), "rt", {"tasks": ["bfs", "dfs"]})
    assert [trial.value for trial in again.trials] == [3.0, 3.0]


def test_studies_maximise(tmp_path):
    assert open_study(open_storage(str(tmp_path / "journal")), "rt").direction.name == "MAXIMIZE"


def test_another_protocol_than_the_studys_own_is_refused(tmp_path):
    storage = open_storage(str(tmp_path / "journal"))
    open_study(storage, "rt", {"tasks": ["bfs"], "examples": 32000})
    with pytest.raises(ValueError, match=r"the study 'rt' was begun with examples=32000 \(now 320\); give the new"):
        open_study(storage, "rt", {"tasks": ["bfs"], "examples": 320})


def test_an_unknown_database_driver_is_named_in_one_sentence():
    with pytest.raises(ValueError, match="needs the driver MySQLdb, which is not installed"):
        open_storage("mysql+mysqldb://host/name")


def test_half_a_line_of_a_killed_worker_costs_no_trial(tmp_path):
    path = tmp_path / "journal"
    open_study(open_storage(str(path)), "rt").optimize(lambda trial: 3.0, n_trials=2)
    with path.open("a") as file:
        file.write('{"op_code": 4, "worker_i')
    open_study(open_storage(str(path)), "rt").optimize(lambda trial: 4.0, n_trials=1)
    assert [trial.value for trial in open_study(open_storage(str(path)), "rt").trials] == [3.0, 3.0, 4.0]


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize(
    "content",
    [b"no journal\n", b"no journal", b"\xff\xfe\n", b'{"a":1}', b'{"a":1}\n', b"[]\n", b"{" * 9, b'{"op_code":4'],
)
def test_a_file_that_is_no_journal_is_named_and_left_alone(tmp_path, content: bytes, writing: bool):
    path = tmp_path / "letter"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="letter is not the journal of a search"):
        open_storage(str(path), writing=writing)
    assert path.read_bytes() == content


def test_an_empty_file_is_no_new_search():
    with NamedTemporaryFile() as file, pytest.raises(ValueError, match="is empty: remove it to begin a new search"):
        open_storage(file.name)


@pytest.mark.parametrize("url", ["foo://bar", "sqlite:////proc/there/is/none.db"])
def test_a_database_that_cannot_be_used_is_one_sentence(url: str, monkeypatch):
    monkeypatch.setattr(databases, "ATTEMPTS", 1)
    with pytest.raises(ValueError, match=f"no database can be used at '{url}': .") as error:
        open_storage(url)
    assert "\n" not in str(error.value)


def test_a_journal_is_one_threads_at_a_time(tmp_path):
    path, order = tmp_path / "journal", []
    create_journal(path)

    def wait_for_it():
        with locked(path, writing=True):
            order.append("the other")

    other = threading.Thread(target=wait_for_it)
    with locked(path, writing=True):
        other.start()
        other.join(timeout=0.2)  # time to do it wrong
        order.append("the first")
    other.join()
    assert order == ["the first", "the other"]


def test_who_is_killed_while_writing_holds_up_nobody(tmp_path):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([workers.__name__])
    path, holding = tmp_path / "study.journal", context.Event()
    create_journal(path)
    victim = context.Process(target=workers.hold_the_journal, args=(str(path), holding))
    victim.start()
    assert holding.wait(600)
    victim.kill()
    victim.join()
    assert open_study(open_storage(str(path)), "rt").trials == []
    assert [file.name for file in tmp_path.iterdir()] == ["study.journal"]
