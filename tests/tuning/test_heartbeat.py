"""A running trial shows that its worker lives."""

import time

import optuna
from optuna.trial import TrialState

from relational_transformer.tuning import Heartbeat
from relational_transformer.tuning.heartbeat import ATTRIBUTE


def test_the_heartbeat_goes_on_while_the_trial_runs():
    trial = optuna.create_study().ask()
    with Heartbeat(trial, interval=0.01):
        first = trial.user_attrs[ATTRIBUTE]
        while trial.user_attrs[ATTRIBUTE] == first:
            time.sleep(0.01)
    assert trial.user_attrs[ATTRIBUTE] != first


def test_the_heartbeat_stops_quietly_when_others_have_failed_the_trial():
    study = optuna.create_study()
    trial = study.ask()
    with Heartbeat(trial, interval=0.01) as heartbeat:
        study.tell(trial.number, state=TrialState.FAIL)
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
