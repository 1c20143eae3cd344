"""A real Ray cluster of two nodes on this machine, one of which is killed in the middle."""

import importlib
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import RayEngine, ray_cluster
from relational_transformer.sweeps.engines.engine import Ended
from relational_transformer.sweeps.engines.ray_cluster import check_shared
from relational_transformer.training import RunFolder
from tests.sweeps.small import impossible_cell, rows_of, scores_alone, scores_of, small_cell, small_runs
from tests.training.small import small_config

pytest.importorskip("ray")

PARTS = 40
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture
def cluster(one_thread, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """A cluster whose head takes no run, and one node that takes one at a time."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray leaves sockets and processes to the end of the interpreter
        utilities = importlib.import_module("ray.cluster_utils")
        cluster = utilities.Cluster(
            initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False}
        )
        try:
            cluster.add_node(**NODE)
            yield cluster
        finally:
            importlib.import_module("ray").shutdown()
            cluster.shutdown()


@pytest.mark.slow
def test_a_killed_node_loses_nothing_and_nothing_is_done_twice(cluster, tmp_path: Path):
    cells = small_cell(seeds=(0,), parts=PARTS), small_cell(seeds=(1, 2))
    first, second = runs = small_runs(tmp_path / "ray", *cells)
    engine = RayEngine(cluster.address, checkpoint_seconds=0.0)
    assert (engine.device, engine.slots) == ("cpu", 1)
    events: list[tuple[Run, str]] = []
    rows: list[int] = []
    killed = []

    def replace_the_node_when_the_first_run_has_begun() -> None:
        rows.append(rows_of(first))
        if rows[-1] and not killed:
            killed.extend(cluster.worker_nodes)
            cluster.remove_node(killed[0], allow_graceful=False)
            cluster.add_node(**NODE)

    outcome = sweep(
        runs,
        engine,
        report=lambda event: events.append((event.run, event.what)),
        tick=replace_the_node_when_the_first_run_has_begun,
        tick_seconds=0.05,
    )
    assert (outcome.done, outcome.given_up) == ((first, second), {})
    assert Counter(events) == {(first, "lost"): 1, (first, "done"): 1, (second, "done"): 1}
    assert rows == sorted(rows), "the lost run began anew"
    assert (rows_of(first), rows_of(second)) == (PARTS, 4)
    assert scores_of(runs) == scores_alone(tmp_path / "alone", *cells)

    (impossible,) = small_runs(tmp_path / "ray", impossible_cell())
    engine.submit(impossible)
    while not (ended := engine.wait(1.0)):
        pass
    assert ended[0].error == "ValueError: num_heads must divide hidden_size=8, got num_heads=3"
    assert not ended[0].lost


def test_no_cluster_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch):
    ray = importlib.import_module("ray")

    def refuse(**options) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nStart one.")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ValueError, match=r"no Ray cluster at 'auto': Could not find any running Ray instance\.$"):
        RayEngine("auto")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999"])
def test_nobody_at_the_address_is_one_clear_sentence_at_once(address: str):
    with pytest.raises(ValueError, match=f"no Ray cluster at '{address}': "):
        RayEngine(address)


def ended_with(result: Path, run: Run, seconds: float) -> Ended:
    """What becomes of a run whose result is shown so many seconds after its end."""
    engine = RayEngine.__new__(RayEngine)
    engine._ray = SimpleNamespace(get=lambda reference: None)
    timer = threading.Timer(seconds, result.write_text, ["{}"])
    timer.start()
    try:
        return engine._judge(None, run)
    finally:
        timer.join()


def test_a_result_that_a_network_file_system_shows_late_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = Run("clrs", small_config(), tmp_path)
    assert ended_with(RunFolder(tmp_path).result, run, 0.2).error is None
    RunFolder(tmp_path).result.unlink()
    monkeypatch.setattr(ray_cluster, "SECONDS_TO_APPEAR", 0.0)
    assert "its result is not in" in (ended_with(RunFolder(tmp_path).result, run, 0.2).error or "")


def test_storage_that_is_not_shared_is_named(tmp_path: Path):
    check_shared(tmp_path)
    with pytest.raises(ValueError, match=r"sees no .*/elsewhere: --out must be a folder that all machines share"):
        check_shared(tmp_path / "elsewhere", patience=0.0)


def test_a_missing_ray_names_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[cluster\]'"):
        RayEngine("auto")
