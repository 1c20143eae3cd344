"""The search that docs/tuning.md tells about can be read, and says what it is told to say."""

import re
import shutil
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

from relational_transformer.tuning import GRIDS, analyse, open_storage  # noqa: E402

JOURNAL = Path(__file__).parents[2] / "results" / "tuning" / "rt-bellman_ford-binary_search.journal"


def test_the_recorded_search_of_rt_has_forty_runs(tmp_path):
    copy = tmp_path / JOURNAL.name
    shutil.copy(JOURNAL, copy)
    study = optuna.load_study(study_name="rt on bellman_ford, binary_search", storage=open_storage(str(copy)))
    search = analyse(study, GRIDS["rt"])
    assert (search.runs, search.converged) == (40, False)
    assert search.best is not None
    assert search.best.mean == pytest.approx(0.5936, abs=5e-5)
    best = search.configuration(search.best)
    assert {name: best[name] for name in ("num_layers", "batch_size", "learning_rate", "global_mode")} == {
        "num_layers": 2,
        "batch_size": 8,
        "learning_rate": 0.00016,
        "global_mode": "cat",
    }


def test_every_figure_of_the_guide_is_in_the_search(tmp_path):
    copy = tmp_path / JOURNAL.name
    shutil.copy(JOURNAL, copy)
    study = optuna.load_study(study_name="rt on bellman_ford, binary_search", storage=open_storage(str(copy)))
    scores: dict[tuple, list[float]] = {}
    for trial in study.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        scores.setdefault(tuple(trial.params[name] for name in GRIDS["rt"]), []).append(trial.value)
    guide = (JOURNAL.parents[2] / "docs" / "tuning.md").read_text().partition("## A recorded search of RT")[2]
    runs, configurations = re.findall(r"stopped after (\d+) runs of (\d+) configurations", guide)[0]
    assert (sum(map(len, scores.values())), len(scores)) == (int(runs), int(configurations))
    (told,) = re.findall(r"four runs of one configuration scored ([\d., and]+)%", guide)
    repeated = max(scores.values(), key=len)
    assert re.findall(r"\d+\.\d", told) == [f"{100 * score:.1f}" for score in repeated]
