"""The folder of a worker says whether the worker lives, and is removed when it is known to be dead, and only then."""

import multiprocessing
import os
import shutil

import optuna
import pytest
from optuna.trial import TrialState

from relational_transformer.tuning import LostTrials
from relational_transformer.tuning.workplace import ATTRIBUTE, LOCK, abandoned, workplace
from tests.tuning import workers


def is_known_to_be_dead(claim):
    with abandoned(claim) as folder:
        return folder is not None


@pytest.fixture
def claim(tmp_path, monkeypatch):
    """The claim of a worker that was killed, with a run in its folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([workers.__name__])
    receiver, sender = context.Pipe(duplex=False)
    victim = context.Process(target=workers.take_a_workplace, args=(str(tmp_path), sender))
    victim.start()
    claim = receiver.recv()
    assert not is_known_to_be_dead(claim)
    victim.kill()
    victim.join()
    return claim


def test_a_killed_workers_trial_is_lost_at_once_and_its_folder_removed(claim):
    study = optuna.create_study()
    study.ask().set_user_attr(ATTRIBUTE, claim)
    assert LostTrials(study).fail() == [0]
    assert study.trials[0].state is TrialState.FAIL
    assert not os.path.exists(claim["folder"])


def test_a_folder_that_was_left_between_two_trials_is_removed_too(claim):
    study = optuna.create_study()
    trial = study.ask()
    trial.set_user_attr(ATTRIBUTE, claim)
    study.tell(trial, 1.0)
    assert LostTrials(study).fail() == []
    assert not os.path.exists(claim["folder"])
    assert study.trials[0].value == 1.0


def test_what_a_folder_links_to_is_kept(claim, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "letter").write_text("kept")
    os.symlink(precious, f"{claim['folder']}/link")
    study = optuna.create_study()
    study.ask().set_user_attr(ATTRIBUTE, claim)
    assert LostTrials(study).fail() == [0]
    assert not os.path.lexists(claim["folder"])
    assert (precious / "letter").read_text() == "kept"


@pytest.mark.parametrize(
    "changes",
    [{"token": "0" * 32}, {"machine": "another"}, {"folder": "rt-tune-relative"}, {"folder": 7}, {"folder": "/\0"}],
)
def test_a_claim_that_is_not_shown_to_be_true_is_not_believed(claim, changes):
    assert not is_known_to_be_dead({**claim, **changes})
    assert os.path.exists(claim["folder"])


@pytest.mark.parametrize("claim", [None, "x", [], {}, {"folder": "/"}])
def test_a_claim_may_be_anything(claim):
    study = optuna.create_study()
    study.ask().set_user_attr(ATTRIBUTE, claim)
    assert LostTrials(study).fail() == []
    assert not is_known_to_be_dead(claim)


def test_a_folder_of_another_name_or_behind_a_link_is_nobodys(claim, tmp_path):
    other = tmp_path / "home"
    shutil.copytree(claim["folder"], other)
    assert not is_known_to_be_dead({**claim, "folder": str(other)})
    link = tmp_path / "rt-tune-link"
    link.symlink_to(other)
    assert not is_known_to_be_dead({**claim, "folder": str(link)})
    assert (other / LOCK).exists()


def test_a_lock_that_is_a_fifo_is_not_waited_for(claim):
    lock = f"{claim['folder']}/{LOCK}"
    os.unlink(lock)
    os.mkfifo(lock)
    assert not is_known_to_be_dead(claim)


def test_a_worker_that_ends_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with workplace() as here:
        (here.folder / "run").mkdir()
    assert list(tmp_path.iterdir()) == []
