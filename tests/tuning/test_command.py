"""`rt tune`, with training replaced by a formula."""

import io
from pathlib import Path
from typing import ClassVar

import optuna
import pytest
from optuna.trial import TrialState
from rich.console import Console

from relational_transformer.clrs import CORE_TASKS
from relational_transformer.commands import tune
from relational_transformer.commands.tune import TuneArguments, find_tasks, run
from relational_transformer.sweeps.engines import EngineOptions
from relational_transformer.sweeps.sweep import Outcome
from relational_transformer.training import PROTOCOLS
from relational_transformer.tuning import GRIDS, analyse, configuration_of, open_storage, settings_of


class Formula:
    """Stands in for training: the further from the paper's configuration, the worse."""

    trained: ClassVar[list] = []

    def __init__(self, model, tasks, protocol, num_seeds, device, watch, folder):
        self.model, self.tasks, self.protocol, self.watch = model, tasks, protocol, watch

    def __call__(self, configuration, seed):
        Formula.trained.append((self.tasks, self.protocol))
        self.watch(self.tasks[0], 1)
        grid, paper = GRIDS[self.model], configuration_of(self.model)
        steps = sum(abs(grid[name].index(configuration[name]) - grid[name].index(paper[name])) for name in grid)
        return dict.fromkeys(self.tasks, 1.0 - 0.01 * steps)


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "TaskTraining", Formula)
    monkeypatch.setattr(Formula, "trained", [])
    return str(tmp_path / "tuning.journal")


@pytest.mark.parametrize("name", ["trials", "minimum_runs", "seeds", "examples"])
def test_a_search_of_nothing_is_refused_and_not_begun(storage, name: str):
    with pytest.raises(ValueError, match=f"{name.replace('_', '-')} must be at least 1, got 0"):
        run(TuneArguments(storage=storage, **{name: 0}))
    assert not Path(storage).exists()


@pytest.mark.parametrize("name", ["trials", "minimum_runs", "seeds", "examples", "winner_seeds", "evaluation_examples"])
@pytest.mark.parametrize("number", [-1, 10**9 + 1, 2**63, 10**30])
def test_numbers_that_mean_nothing_are_refused_before_anything_is_made(storage, name: str, number: int):
    if name == "examples" and number == 10**9 + 1:
        number = 10**12 + 1
    with pytest.raises(ValueError, match=rf"{name.replace('_', '-')} must be at (least|most) [\d,]+, got {number}"):
        run(TuneArguments(storage=storage, **{name: number}))
    assert not Path(storage).exists()


def test_waiting_for_others_is_said_once():
    console = Console(file=io.StringIO(), width=120)
    study = optuna.create_study()
    study.ask()
    wait = tune.Waiting(console, pause=lambda: None)
    for _ in range(3):
        wait(analyse(study, {"x": [1]}))
    said = "waiting for 1 trials of other workers, to run one again if its worker dies\n"
    assert console.file.getvalue() == said


def test_a_name_may_hold_what_looks_like_markup(storage, capsys):
    run(TuneArguments("mpnn", trials=1, storage=storage, study="[/x] [bold]"))
    assert "[/x] [bold]: 1 runs" in capsys.readouterr().out


def trials_in(storage, name):
    return optuna.load_study(study_name=name, storage=open_storage(storage)).trials


def test_it_searches_the_papers_grid_by_the_tuning_protocol(storage):
    run(TuneArguments("mpnn", trials=3, storage=storage))
    tasks, protocol = Formula.trained[0]
    assert tasks == CORE_TASKS
    assert (protocol.examples, protocol.minimum_evaluation_examples) == (32_000, 100)
    trials = trials_in(storage, "mpnn on core")
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 3
    assert all(set(trial.params) == set(GRIDS["mpnn"]) for trial in trials)
    assert "score of bellman_ford" in trials[0].user_attrs


def test_started_again_it_goes_on_with_the_same_search(storage):
    run(TuneArguments("mpnn", trials=3, storage=storage))
    run(TuneArguments("mpnn", trials=5, storage=storage))
    assert len(trials_in(storage, "mpnn on core")) == 5


def test_it_stops_once_converged_at_the_best_configuration(storage, capsys):
    run(TuneArguments("mpnn", tasks=("bfs",), trials=1000, storage=storage))
    output = capsys.readouterr().out
    assert "Converged" in output
    assert "Not converged" not in output


def test_a_search_may_start_at_the_papers_values(storage):
    run(TuneArguments("rt", trials=1, storage=storage, start="paper"))
    (trial,) = trials_in(storage, "rt on core")
    assert trial.value >= 0.9  # at most one step away in each of ten hyperparameters


@pytest.mark.parametrize("options", [{"engine": "ray"}, {"at_once": 2}, {"checkpoint_seconds": 5.0}])
def test_a_search_refuses_flags_that_it_would_ignore(storage, options):
    (flag,) = options
    with pytest.raises(ValueError, match=f"--{flag.replace('_', '-')} has no effect without --winner"):
        run(TuneArguments("mpnn", trials=1, storage=storage, where=EngineOptions(**options)))
    assert Formula.trained == []


def test_show_prints_the_search_and_trains_nothing(storage, capsys):
    run(TuneArguments("gat", tasks=("bfs", "dfs"), trials=4, storage=storage))
    capsys.readouterr()
    Formula.trained.clear()
    run(TuneArguments("gat", tasks=("bfs", "dfs"), storage=storage, show=True))
    assert "4 runs of" in capsys.readouterr().out
    assert Formula.trained == []


def test_to_show_what_is_not_there_is_one_clear_sentence(storage):
    with pytest.raises(ValueError, match=r"no search has been begun in .*tuning.journal"):
        run(TuneArguments(storage=storage, show=True))
    run(TuneArguments("mpnn", trials=1, storage=storage))
    with pytest.raises(ValueError, match=r"no search is called 'gat on core' in .*; there are: mpnn on core"):
        run(TuneArguments("gat", storage=storage, show=True))


def test_another_budget_for_a_search_under_way_is_refused(storage):
    run(TuneArguments("mpnn", trials=1, storage=storage))
    with pytest.raises(ValueError, match=r"begun with examples=32000 \(now 640\)"):
        run(TuneArguments("mpnn", trials=2, storage=storage, examples=640))


def test_the_winner_is_trained_afresh_by_the_papers_protocol(storage, monkeypatch, tmp_path, capsys):
    carried_out = []

    def carry_out(runs, where) -> Outcome:
        carried_out.extend(runs)
        return Outcome(tuple(runs), {})

    monkeypatch.setattr(tune, "carry_out", carry_out)
    run(TuneArguments("mpnn", tasks=("bfs", "dfs"), trials=4, storage=storage))
    trials = trials_in(storage, "mpnn on bfs, dfs")
    best = max(trials, key=lambda trial: (trial.value, trial.number))
    Formula.trained.clear()
    run(TuneArguments("mpnn", tasks=("bfs", "dfs"), storage=storage, winner=True, winner_seeds=3, out=tmp_path))
    assert Formula.trained == []
    assert [(one.config.task, one.config.seeds) for one in carried_out] == [("bfs", (0, 1, 2)), ("dfs", (0, 1, 2))]
    assert all(one.config.protocol == PROTOCOLS["paper"] for one in carried_out)
    assert all(one.config.settings == settings_of("mpnn", best.params) for one in carried_out)
    assert "Best configuration" in capsys.readouterr().out


def test_to_look_and_to_train_exclude_each_other(storage):
    with pytest.raises(ValueError, match="--show trains nothing, --winner trains"):
        run(TuneArguments("mpnn", storage=storage, show=True, winner=True))


def test_a_search_without_a_run_has_no_winner(storage):
    optuna.create_study(storage=open_storage(storage), study_name="mpnn on core", direction="maximize")
    with pytest.raises(ValueError, match="no run of this search has ended yet, so it has no winner"):
        run(TuneArguments("mpnn", storage=storage, winner=True))


def test_when_a_run_of_the_winner_is_given_up_the_command_fails(storage, monkeypatch, tmp_path):
    monkeypatch.setattr(tune, "carry_out", lambda runs, where: Outcome((), {runs[0]: ("broken",) * 3}))
    run(TuneArguments("mpnn", tasks=("bfs",), trials=1, storage=storage))
    with pytest.raises(SystemExit, match="1"):
        run(TuneArguments("mpnn", tasks=("bfs",), storage=storage, winner=True, out=tmp_path))


def test_wrong_names_list_the_right_ones(storage):
    with pytest.raises(ValueError, match="no model called 'gcn'; it tuned rt, deep_sets"):
        run(TuneArguments("gcn", storage=storage))
    with pytest.raises(ValueError, match="there is no task 'bogosort'; the tasks are core, articulation_points"):
        run(TuneArguments("rt", tasks=("bogosort",), storage=storage))


def test_tasks_are_spelt_out_once_each():
    assert find_tasks(("bfs", "core", "bellman_ford")) == ("bfs", *CORE_TASKS)
