"""A journal in which nothing is lost, doubled or changed unnoticed, and which several processes write at once."""

import json
import os
import threading

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from relational_transformer.tuning import load_study, open_storage, open_study
from relational_transformer.tuning.storages.journal import Journal, create_journal
from relational_transformer.tuning.storages.journal_format import FirstLine

DAMAGED = "damaged"


@pytest.fixture
def path(tmp_path):
    """A journal of two runs."""
    path = tmp_path / "study.journal"
    open_study(open_storage(str(path)), "rt").optimize(lambda trial: trial.suggest_int("x", 0, 9), n_trials=2)
    return path


def values_in(path):
    return [trial.value for trial in load_study(str(path), "rt").trials]


def old_journal(path):
    """As earlier versions wrote it."""
    storage = JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name="rt", direction="maximize")
    study.optimize(lambda trial: 3.0, n_trials=2)


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def test_every_line_that_is_doubled_is_noticed(path):
    lines = lines_of(path)
    for index, line in enumerate(lines):
        path.write_bytes(b"".join([*lines[: index + 1], line, *lines[index + 1 :]]))
        with pytest.raises(ValueError, match=DAMAGED):
            load_study(str(path), "rt")


def test_every_line_that_is_lost_is_noticed(path):
    lines = lines_of(path)
    for index in range(len(lines)):
        path.write_bytes(b"".join([*lines[:index], *lines[index + 1 :]]))
        with pytest.raises(ValueError, match=DAMAGED):
            load_study(str(path), "rt")


def test_every_truncation_is_noticed(path):
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"damaged|no complete line|is empty"):
            load_study(str(path), "rt")
        assert path.stat().st_size == size


def test_lines_in_another_order_are_noticed(path):
    first, second, third, *others = lines_of(path)
    path.write_bytes(b"".join([first, third, second, *others]))
    with pytest.raises(ValueError, match=r"line 2: it does not follow from the lines before it\); use an earlier copy"):
        load_study(str(path), "rt")


def test_a_worker_notices_what_is_lost_while_it_works(path):
    study = open_study(open_storage(str(path)), "rt")
    os.truncate(path, path.stat().st_size - 10)
    with pytest.raises(ValueError, match="its last lines are missing"):
        study.optimize(lambda trial: 1.0, n_trials=1)


def test_killed_between_a_record_and_the_first_line_it_can_be_read_and_goes_on(path):
    before = lines_of(path)[0]
    study = open_study(open_storage(str(path)), "rt")
    study.tell(study.ask(), 7.0)
    with path.open("rb+") as file:
        file.write(before)
    assert values_in(path)[2:] == [7.0]
    open_study(open_storage(str(path)), "rt").optimize(lambda trial: 8.0, n_trials=1)
    assert values_in(path)[2:] == [7.0, 8.0]
    first_line = FirstLine.decode(lines_of(path)[0])
    assert first_line is not None
    assert first_line.lines == len(lines_of(path)) - 1


def test_half_a_line_of_a_worker_that_is_killed_while_others_work_is_cut_by_the_next_who_writes(path):
    study = open_study(open_storage(str(path)), "rt")
    with path.open("ab") as file:
        file.write(b'{"op_code": 4, "worker_i')
    study.optimize(lambda trial: 4.0, n_trials=1)
    assert values_in(path)[2:] == [4.0]


def test_to_look_at_half_a_line_does_not_cut_it(path):
    with path.open("ab") as file:
        file.write(b'{"op_code": 4, "worker_i')
    content = path.read_bytes()
    assert len(values_in(path)) == 2
    assert path.read_bytes() == content


def test_optuna_itself_reads_it_and_what_optuna_appends_is_read_here(path):
    theirs = optuna.load_study(study_name="rt", storage=JournalStorage(JournalFileBackend(str(path))))
    ours = values_in(path)
    assert [trial.value for trial in theirs.trials] == ours
    theirs.optimize(lambda trial: 5.0, n_trials=1)
    assert values_in(path) == [*ours, 5.0]
    open_study(open_storage(str(path)), "rt").optimize(lambda trial: 6.0, n_trials=1)
    assert values_in(path) == [*ours, 5.0, 6.0]


def test_journals_of_older_versions_are_read_and_what_is_added_is_guarded(tmp_path):
    path = tmp_path / "old.journal"
    old_journal(path)
    assert values_in(path) == [3.0, 3.0]
    open_study(open_storage(str(path)), "rt").optimize(lambda trial: 4.0, n_trials=1)
    assert values_in(path) == [3.0, 3.0, 4.0]
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines[:2], *lines[1:]]))
    with pytest.raises(ValueError, match=DAMAGED):
        load_study(str(path), "rt")


def test_many_threads_write_at_once_and_nothing_is_lost(tmp_path):
    path = tmp_path / "study.journal"
    create_journal(path)

    def write(worker):
        journal = Journal(path)
        for number in range(20):
            journal.append_logs([{"op_code": 1, "worker_id": str(worker), "study_id": number}])

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = list(Journal(path, writing=False).read_logs(1))
    for worker in range(4):
        assert [one["study_id"] for one in records if one["worker_id"] == str(worker)] == list(range(20))


def test_to_create_what_is_there_leaves_it_alone(path):
    content = path.read_bytes()
    create_journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "record",
    [
        {"op_code": 99, "worker_id": ""},
        {"op_code": 4, "worker_id": ""},
        {"op_code": "4", "worker_id": ""},
        {"op_code": 4, "worker_id": "", "study_id": 0, "datetime_start": "soon"},
        {"op_code": 0, "worker_id": "", "study_name": "x", "directions": [9]},
        {"op_code": 8, "worker_id": "", "trial_id": 0, "user_attr": []},
        {
            "op_code": 5,
            "worker_id": "",
            "trial_id": 0,
            "param_name": "x",
            "param_value_internal": 1,
            "distribution": "?",
        },
    ],
)
@pytest.mark.parametrize("writing", [True, False])
def test_a_record_that_optuna_could_not_read_is_one_sentence(tmp_path, record, writing: bool):
    path = tmp_path / "old.journal"
    create = {"op_code": 4, "worker_id": "", "study_id": 0, "datetime_start": None}
    study = {"op_code": 0, "worker_id": "", "study_name": "rt", "directions": [2]}
    path.write_text("".join(json.dumps(one) + "\n" for one in (study, create, record)))
    with pytest.raises(ValueError, match=r"old\.journal") as error:
        open_storage(str(path), writing=writing)
    assert "\n" not in str(error.value)


def test_what_is_nested_too_deeply_is_one_sentence(tmp_path):
    path = tmp_path / "deep.journal"
    path.write_text("[" * 100_000 + "]" * 100_000 + "\n")
    with pytest.raises(ValueError, match=r"deep\.journal is not the journal .*nested too deeply"):
        open_storage(str(path))


@pytest.mark.parametrize("writing", [True, False])
def test_folders_fifos_devices_and_links_in_circles_are_refused(tmp_path, writing: bool):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "fifo", tmp_path / "circle", tmp_path / "folder", "/dev/null", "/dev/zero"):
        with pytest.raises(ValueError, match=r"is not a regular file|cannot be read"):
            open_storage(str(path), writing=writing)
