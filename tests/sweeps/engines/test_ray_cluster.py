"""A real Ray cluster of two nodes on this machine, one of which is killed in the middle."""

import importlib
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import LocalEngine, RayEngine
from tests.sweeps.small import impossible_cell, rows_of, scores_of, small_cell, small_runs

pytest.importorskip("ray")

OBJECT_STORE_BYTES = 80 * 2**20
CELLS = [small_cell(seeds=(0, 1), parts=40), small_cell(seeds=(2,), parts=40)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """A cluster of one node with one core; a test adds others."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # Workers of the cluster import the tests' own modules as well.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray leaves sockets and processes to the end of the interpreter
        utilities = importlib.import_module("ray.cluster_utils")
        head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        cluster = utilities.Cluster(initialize_head=True, head_node_args=head)
        try:
            yield cluster
        finally:
            importlib.import_module("ray").shutdown()
            cluster.shutdown()


@pytest.mark.slow
def test_a_killed_node_loses_nothing_and_nothing_is_done_twice(cluster, tmp_path: Path):
    node = cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES)
    good, impossible = small_runs(tmp_path / "ray", *CELLS), small_runs(tmp_path / "ray", impossible_cell())
    engine = RayEngine(cluster.address, checkpoint_seconds=0.0)
    assert (engine.device, engine.slots) == ("cpu", 2)
    events: list[tuple[Run, str]] = []
    rows: dict[Run, list[int]] = {run: [] for run in good}

    def kill_the_node_when_both_have_begun() -> None:
        for run in good:
            rows[run].append(rows_of(run))
        if cluster.worker_nodes and all(rows[run][-1] for run in good):
            cluster.remove_node(node, allow_graceful=False)

    outcome = sweep(
        [*good, *impossible],
        engine,
        report=lambda event: events.append((event.run, event.what)),
        tick=kill_the_node_when_both_have_begun,
        tick_seconds=0.05,
    )
    engine.close()

    assert not cluster.worker_nodes, "no node was killed"
    assert outcome.done == tuple(good)
    happened = Counter(what for run, what in events if run in good)
    assert happened == {"done": 2, "lost": 1}
    assert all(counts == sorted(counts) for counts in rows.values()), "the lost run began anew"
    assert all(rows_of(run) == 40 for run in good)
    (errors,) = outcome.given_up.values()
    assert errors == ("ValueError: num_heads must divide hidden_size=8, got num_heads=3",) * 3

    here = small_runs(tmp_path / "local", *CELLS)
    sweep(here, LocalEngine(["cpu", "cpu"]))
    assert scores_of(good) == scores_of(here)


def test_no_cluster_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = importlib.import_module("ray")

    def refuse(**options) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nStart one.")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ValueError, match=r"no Ray cluster at 'auto': Could not find any running Ray instance\.$"):
        RayEngine("auto")


def test_a_missing_ray_names_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(importlib.import_module("sys").modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'relational-transformer\[cluster\]'"):
        RayEngine("auto")
