"""Trials of killed workers are noticed; those of live ones are left alone."""

import optuna
import pytest
from optuna.trial import TrialState

from relational_transformer.tuning import LostTrials
from relational_transformer.tuning.heartbeat import ATTRIBUTE


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def study():
    return optuna.create_study()


def test_a_trial_whose_heartbeat_changes_lives_and_one_whose_does_not_is_lost(study, clock):
    silent, alive = study.ask(), study.ask()
    lost = LostTrials(study, grace=100, clock=clock)
    for trial in (silent, alive):
        trial.set_user_attr(ATTRIBUTE, 1.0)
    assert lost.fail() == []
    clock.now = 101
    alive.set_user_attr(ATTRIBUTE, 2.0)
    assert lost.fail() == [silent.number]
    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.RUNNING]


@pytest.mark.parametrize("other_clock", [-1e12, 0.0, 1e12])
def test_the_clock_of_the_other_machine_does_not_matter(study, clock, other_clock: float):
    trial = study.ask()
    lost = LostTrials(study, grace=100, clock=clock)
    for beat in range(5):
        clock.now = 60.0 * beat
        trial.set_user_attr(ATTRIBUTE, other_clock - beat * 1e6)  # and runs backwards
        assert lost.fail() == []
    clock.now += 99
    assert lost.fail() == []
    clock.now += 2
    assert lost.fail() == [0]


def test_a_trial_without_any_heartbeat_is_given_the_grace_too(study, clock):
    study.ask()
    lost = LostTrials(study, grace=100, clock=clock)
    assert lost.fail() == []
    clock.now = 101
    assert lost.fail() == [0]


def test_a_worker_that_has_just_come_takes_nobody_for_dead(study, clock):
    study.ask().set_user_attr(ATTRIBUTE, 0.0)
    clock.now = 1e9
    assert LostTrials(study, grace=100, clock=clock).fail() == []


def test_finished_trials_are_left_alone(study, clock):
    study.tell(study.ask(), 1.0)
    lost = LostTrials(study, grace=100, clock=clock)
    lost.fail()
    clock.now = 1000
    assert lost.fail() == []
    assert study.trials[0].value == 1.0


@pytest.mark.parametrize("heartbeat", ["soon", None, [1], {"a": {}}])
def test_a_heartbeat_may_be_anything(study, clock, heartbeat):
    study.ask().set_user_attr(ATTRIBUTE, heartbeat)
    assert LostTrials(study, clock=clock).fail() == []
