"""Real Ray clusters of two nodes on this machine, one of which is killed in the middle, or all of which stop."""

import gc
import importlib
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from relational_transformer.runs import RunFolder
from relational_transformer.runs.checkpoint import read_checkpoint, save_checkpoint
from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import EngineOptions, LocalEngine, RayEngine, open_engine, ray_cluster
from relational_transformer.sweeps.engines.ray_cluster import check_shared
from relational_transformer.sweeps.execution import wait_until_free
from tests.sweeps.small import impossible_cell, rows_of, scores_alone, scores_of, small_cell, small_runs
from tests.training.small import small_config
from tests.traps.trap import Traps

pytest.importorskip("ray")

PARTS = 10
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "dashboard_agent_listen_port": 0}  # any that is free
DAY = 24 * 60 * 60.0
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # else runs wait for whatever else the machine does
    "RAY_memory_monitor_refresh_ms": "0",  # else runs are killed when others have filled the machine's memory
    # Five questions without an answer make a node dead. One that is killed refuses each at once; one that is alive may
    # take ten minutes for each, and other processes as long for theirs.
    "RAY_health_check_period_ms": "500",
    **dict.fromkeys(
        (
            "RAY_health_check_timeout_ms", "RAY_agent_register_timeout_ms", "RAY_grpc_keepalive_timeout_ms",
            "RAY_grpc_client_keepalive_timeout_ms",
        ),
        "600000",
    ),
    **dict.fromkeys(
        (
            "RAY_gcs_server_port_wait_time_s", "RAY_gcs_rpc_server_connect_timeout_s", "RAY_py_gcs_connect_timeout_s",
            "RAY_gcs_server_request_timeout_seconds", "RAY_raylet_start_wait_time_s",
            "RAY_worker_register_timeout_seconds",
        ),
        "600",
    ),
}  # fmt: skip
"""Of Ray's processes: no machine is too slow, or too full."""


def give_nodes_time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process waits for a node for thirty seconds; on a busy machine one took twenty."""
    slow = SimpleNamespace(**{**vars(time), "monotonic": lambda: time.monotonic() / 20})
    monkeypatch.setattr(importlib.import_module("ray._private.node"), "time", slow)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, one_thread, traps: Traps, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Two nodes that take a run each; with the parameter 0, the head takes none."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    give_nodes_time_to_start(monkeypatch)
    head = {**NODE, "num_cpus": getattr(request, "param", 1), "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray leaves sockets and processes to the end of the interpreter
        utilities = importlib.import_module("ray.cluster_utils")
        cluster = utilities.Cluster(initialize_head=True, head_node_args=head)
        try:
            cluster.add_node(**NODE)
            yield cluster
        finally:
            importlib.import_module("ray").shutdown()
            cluster.shutdown()
            del cluster
            gc.collect()  # here, where what is left open is not told


def add_a_day(run: Run) -> int:
    """Let the checkpoint of a run say that it took a day longer, and return the parts that are behind it.

    A run that goes on from there has taken more than a day in the end; one that begins anew has not.
    """
    wait_until_free(run.folder, patience=600.0)  # who was killed may be dying still
    folder = RunFolder(run.folder)
    tensors, progress, config = read_checkpoint(folder.checkpoint)
    save_checkpoint(folder, config, tensors, {**progress, "seconds": progress["seconds"] + DAY})
    return progress["steps"]


def seconds_of(run: Run) -> float:
    """How long a run took, earlier sittings included."""
    result = RunFolder(run.folder).read_result()
    assert result is not None
    return result["seconds"]


@pytest.mark.slow
def test_a_run_whose_node_is_killed_goes_on_from_its_checkpoint_on_the_node_that_is_left(
    cluster, traps: Traps, tmp_path: Path
):
    """Both wait with their third checkpoint behind them; one is killed, and then the other goes on."""
    cells = [small_cell(seeds=(seed,), parts=PARTS) for seed in (0, 1)]
    runs = small_runs(tmp_path / "ray", *cells)
    waiting = {run: traps.lay(RunFolder(run.folder).metrics, 3) for run in runs}
    engine = RayEngine(cluster.address, checkpoint_seconds=0.0)
    assert (engine.device, engine.slots) == ("cpu", 2)
    events: list[tuple[Run, str]] = []
    parts_kept: dict[Run, int] = {}
    metrics_kept: dict[Run, list] = {}

    def kill_a_node_when_both_have_saved() -> None:
        if cluster.worker_nodes and all(trap.is_sprung for trap in waiting.values()):
            (killed,) = cluster.worker_nodes
            cluster.remove_node(killed, allow_graceful=False)

    def report(event) -> None:
        events.append((event.run, event.what))
        if event.what == "lost":
            parts_kept[event.run] = add_a_day(event.run)
            metrics_kept[event.run] = RunFolder(event.run.folder).read_metrics()
            (other,) = (run for run in runs if run != event.run)
            waiting[other].release()

    outcome = sweep(runs, engine, report=report, tick=kill_a_node_when_both_have_saved, tick_seconds=0.05)
    assert (outcome.done, outcome.given_up) == (tuple(runs), {})
    while engine.slots != 1:  # a run is lost as soon as its machine does not answer; the cluster strikes it off later
        time.sleep(0.05)

    assert Counter(what for _, what in events) == {"lost": 1, "done": 2}
    (lost,) = parts_kept
    (kept,) = (run for run in runs if run != lost)
    assert {run for run, what in events if what == "done"} == {lost, kept}
    assert (len(metrics_kept[lost]), parts_kept[lost]) == (2, 3)
    assert seconds_of(kept) < DAY < seconds_of(lost), "the lost run began anew"
    assert RunFolder(lost.folder).read_metrics()[: len(metrics_kept[lost])] == metrics_kept[lost]
    assert [rows_of(run) for run in runs] == [PARTS] * 2

    local = small_runs(tmp_path / "local", *cells)
    sweep(local, LocalEngine(["cpu", "cpu"]))
    assert scores_of(runs) == scores_of(local)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [0], indirect=True)
def test_a_node_that_joins_goes_on_with_what_a_killed_one_began(cluster, traps: Traps, tmp_path: Path):
    cells = small_cell(seeds=(0,), parts=PARTS), small_cell(seeds=(1, 2))
    first, second = runs = small_runs(tmp_path / "ray", *cells)
    engine = RayEngine(cluster.address, checkpoint_seconds=0.0)
    assert engine.slots == 1
    events: list[tuple[Run, str]] = []
    rows: list[int] = []
    killed, trap = [], traps.lay(RunFolder(first.folder).metrics, 3)

    def replace_the_node_when_the_first_run_has_begun() -> None:
        rows.append(rows_of(first))
        if trap.is_sprung and not killed:
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


@pytest.mark.slow
def test_runs_that_are_stopped_save_themselves_and_the_same_sweep_goes_on_from_there(
    cluster, traps: Traps, tmp_path: Path
):
    """No run would save itself within the hour, were it not stopped, which two are at their first step. The third waits
    for a node."""
    cells = [small_cell(seeds=(seed,), parts=parts) for seed, parts in enumerate((PARTS, PARTS, 4))]
    *begun, waiting = runs = small_runs(tmp_path / "ray", *cells)
    beginning = [traps.lay(RunFolder(run.folder).config) for run in begun]
    options = EngineOptions("ray", address=cluster.address, checkpoint_seconds=3600.0)
    engine = open_engine(options)
    assert isinstance(engine, RayEngine)
    assert (engine.device, engine.slots, engine.checkpoint_seconds) == ("cpu", 2, 3600.0)

    def stop_when_two_have_begun() -> None:
        if all(trap.is_sprung for trap in beginning):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped, saved everything"):
        sweep(runs, engine, tick=stop_when_two_have_begun, tick_seconds=0.05)
    assert not any(run.is_done for run in runs)
    assert not RunFolder(waiting.folder).config.exists()
    parts_kept = [add_a_day(run) for run in begun]
    assert parts_kept == [rows_of(run) for run in begun]
    assert all(0 < parts < PARTS for parts in parts_kept)

    events: list[tuple[Run, str]] = []
    engine = open_engine(options)
    sweep(runs, engine, report=lambda event: events.append((event.run, event.what)))
    engine.close()
    assert Counter(events) == {(run, "done"): 1 for run in runs}
    assert all(seconds_of(run) > DAY for run in begun), "a stopped run began anew"
    assert scores_of(runs) == scores_alone(tmp_path / "alone", *cells)

    with pytest.raises(ValueError, match=f"no machine of the cluster at {cluster.address} has the 2 CPU that a run"):
        open_engine(EngineOptions("ray", address=cluster.address, cpus_per_run=2))


def test_no_cluster_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch):
    ray = importlib.import_module("ray")

    def refuse(**options) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nStart one.")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ValueError, match=r"no Ray cluster at 'auto': Could not find any running Ray instance\.$"):
        RayEngine("auto")


def test_a_password_in_an_address_is_not_printed(monkeypatch: pytest.MonkeyPatch):
    def refuse(address: str, **options) -> None:
        raise ConnectionError(f"cannot reach {address}")

    monkeypatch.setattr(importlib.import_module("ray"), "init", refuse)
    with pytest.raises(ValueError, match=r"no Ray cluster at 'ray://me:\*\*\*@10\.0\.0\.1:10001'") as error:
        RayEngine("ray://me:hunter2@10.0.0.1:10001")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999"])
def test_nobody_at_the_address_is_one_clear_sentence_at_once(address: str):
    with pytest.raises(ValueError, match=f"no Ray cluster at '{address}': "):
        RayEngine(address)


def test_a_result_that_a_network_file_system_shows_late_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run, result = Run("clrs", small_config(), tmp_path), RunFolder(tmp_path).result
    engine = RayEngine.__new__(RayEngine)
    engine._ray = SimpleNamespace(get=lambda reference: None)
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: result.write_text("{}"))
    monkeypatch.setattr(ray_cluster, "time", clock)  # the result comes after the first look
    assert engine._judge(None, run).error is None
    result.unlink()
    monkeypatch.setattr(ray_cluster, "SECONDS_TO_APPEAR", 0.0)
    assert "its result is not in" in (engine._judge(None, run).error or "")


def test_storage_that_is_not_shared_is_named(tmp_path: Path):
    check_shared(tmp_path)
    with pytest.raises(ValueError, match=r"sees no .*/elsewhere: --out must be a folder that all machines share"):
        check_shared(tmp_path / "elsewhere", patience=0.0)


def test_a_missing_ray_names_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[cluster\]'"):
        RayEngine("auto")
