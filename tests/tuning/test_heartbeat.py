"""Trials of killed workers are noticed; those of live ones are left alone."""

import time

import optuna
from optuna.trial import TrialState

from relational_transformer.tuning import Heartbeat, fail_stale_trials
from relational_transformer.tuning.heartbeat import ATTRIBUTE


def running_trial(study, last_beat=None):
    trial = study.ask()
    if last_beat is not None:
        trial.set_user_attr(ATTRIBUTE, last_beat)
    return trial.number


def test_a_trial_silent_for_longer_than_the_grace_is_failed_and_a_live_one_is_not():
    study = optuna.create_study()
    silent = running_trial(study, last_beat=time.time() - 1000)
    alive = running_trial(study, last_beat=time.time())
    assert fail_stale_trials(study, grace=500) == [silent]
    assert study.trials[silent].state is TrialState.FAIL
    assert study.trials[alive].state is TrialState.RUNNING


def test_a_trial_without_a_heartbeat_is_judged_by_its_start():
    study = optuna.create_study()
    number = running_trial(study)
    assert fail_stale_trials(study, grace=500) == []
    assert fail_stale_trials(study, grace=-1) == [number]


def test_finished_trials_are_left_alone():
    study = optuna.create_study()
    study.tell(running_trial(study, last_beat=0.0), 1.0)
    assert fail_stale_trials(study) == []
    assert study.trials[0].value == 1.0


def test_the_heartbeat_goes_on_while_the_trial_runs():
    trial = optuna.create_study().ask()
    with Heartbeat(trial, interval=0.01):
        first = trial.user_attrs[ATTRIBUTE]
        while trial.user_attrs[ATTRIBUTE] == first:
            time.sleep(0.01)
    assert trial.user_attrs[ATTRIBUTE] > first


def test_the_heartbeat_stops_quietly_when_others_have_failed_the_trial():
    study = optuna.create_study()
    trial = study.ask()
    with Heartbeat(trial, interval=0.01) as heartbeat:
        fail_stale_trials(study, grace=-1)
        heartbeat._thread.join()
    assert study.trials[0].state is TrialState.FAIL


def test_a_storage_that_fails_once_gets_the_next_beat(monkeypatch):
    trial = optuna.create_study().ask()
    write, beats = trial.set_user_attr, []

    def failing_at_first(name, value):
        beats.append(value)
        if len(beats) == 2:
            raise ConnectionError("the database is away")
        write(name, value)

    monkeypatch.setattr(trial, "set_user_attr", failing_at_first)
    with Heartbeat(trial, interval=0.01):
        while len(beats) < 3:
            time.sleep(0.01)
    assert trial.user_attrs[ATTRIBUTE] >= beats[2]
