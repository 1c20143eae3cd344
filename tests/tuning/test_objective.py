"""What a trial trains, and what it keeps of it."""

import optuna

from relational_transformer.tuning import Objective

GRID = {"x": [0, 1, 2]}


def test_the_callable_gets_the_trials_configuration_and_its_score_is_the_value():
    study = optuna.create_study(direction="maximize")
    study.optimize(Objective(GRID, lambda configuration, seed: 10.0 * configuration["x"]), n_trials=5)
    assert [trial.value for trial in study.trials] == [10.0 * trial.params["x"] for trial in study.trials]


def test_every_trial_has_a_seed_of_its_own_which_is_kept():
    seeds = []
    study = optuna.create_study()
    study.optimize(Objective(GRID, lambda configuration, seed: seeds.append(seed) or 0.0), n_trials=5)
    assert [trial.user_attrs["seed"] for trial in study.trials] == seeds
    assert len(set(seeds)) == 5


def test_scores_of_several_tasks_are_kept_and_their_mean_is_the_value():
    study = optuna.create_study()
    study.optimize(Objective(GRID, lambda configuration, seed: {"bfs": 0.9, "heapsort": 0.3}), n_trials=1)
    trial = study.trials[0]
    assert trial.value == 0.6
    assert trial.user_attrs["score of bfs"] == 0.9
    assert trial.user_attrs["score of heapsort"] == 0.3
