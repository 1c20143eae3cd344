"""Fleets side by side: those that train do not wait for one that begins, and all end as they do alone."""

import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from relational_transformer.fleet.graphs import MemoryTakenError
from relational_transformer.runs import RunFolder, Trainer, session, side_by_side
from relational_transformer.runs.session import Stopped, train_together
from relational_transformer.runs.task import Start
from relational_transformer.training import CLRSTask, TrainConfig
from tests.training.small import PROTOCOL as LARGER
from tests.training.small import run_to_the_end, small_config

CPU = torch.device("cpu")
TASKS = ("bfs", "binary_search", "insertion_sort")
PROTOCOL = replace(LARGER, examples=32, validation_interval=8, train_nodes=4, validation_nodes=4, test_nodes=5)
PARTS = PROTOCOL.examples // PROTOCOL.validation_interval

Hook = Callable[[TrainConfig], None]


def runs_in(folder: Path, tasks: tuple[str, ...] = TASKS) -> list[tuple[CLRSTask, str]]:
    return [(CLRSTask(small_config(task=task, seeds=(0,), protocol=PROTOCOL)), str(folder / task)) for task in tasks]


class Alone(NamedTuple):
    """Runs of the tasks, each trained alone."""

    folder: Path
    scores: list[list[dict]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Alone:
    folder = tmp_path_factory.mktemp("alone")
    return Alone(folder, scores([run_to_the_end(task.config, Path(path))[1] for task, path in runs_in(folder)]))


def train_aside(
    runs: list[tuple[CLRSTask, str]], before_beginning: Hook = lambda config: None, *, aside: bool = True, **options
):
    """As on CUDA: fleets that compile nothing may be begun in a thread."""

    class Hooked(CLRSTask):
        def start(self, start: Start) -> None:
            before_beginning(self.config)
            super().start(start)

    hooked = [(Hooked(task.config), folder) for task, folder in runs]
    return train_together(hooked, CPU, aside=aside, **{"report_seconds": 0.0, **options})


def parts_saved(folder: str) -> int:
    path = RunFolder(folder).metrics
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.001)


def scores(results: list[dict]) -> list[list[dict]]:
    return [result["seeds"] for result in results]


def test_fleets_begun_aside_end_as_they_do_alone(tmp_path, alone):
    for at_once in (None, 2):
        runs = runs_in(tmp_path / str(at_once))
        assert scores(train_aside(runs, at_once=at_once)) == alone.scores
        for (_, folder), task in zip(runs, TASKS, strict=True):
            metrics = (RunFolder(path).metrics.read_text() for path in (folder, alone.folder / task))
            assert len(set(metrics)) == 1


def test_a_fleet_trains_while_the_next_one_is_begun(tmp_path):
    runs, reported, threads = runs_in(tmp_path), {}, {}

    def report(trainer: Trainer) -> None:
        reported[trainer.config.task] = trainer.examples

    def begin_slowly(config: TrainConfig) -> None:
        threads[config.task] = threading.current_thread()
        if config.task == "binary_search":
            # For ever, unless the first goes on meanwhile.
            wait_until(lambda: reported.get("bfs", 0) >= config.protocol.examples)

    train_aside(runs, begin_slowly, report=report)
    assert threads["bfs"] is threading.main_thread()  # there is nobody yet who could go on meanwhile
    assert threads["binary_search"] is not threading.main_thread()
    assert reported.keys() == set(TASKS)


@pytest.mark.parametrize("names", [("bfs",), ("bfs", "binary_search")], ids=len)
def test_a_turn_that_captures_again_is_made_aside_and_changes_nothing(tmp_path, alone, names: tuple[str, ...]):
    threads: dict[str, list[threading.Thread]] = {name: [] for name in names}
    reported: dict[str, int] = {}

    class Growing(CLRSTask):
        """The second part of `bfs` needs larger tensors."""

        part = 0

        def load(self, part: int, position: int) -> None:
            super().load(part, position)
            self.part = part

        def start(self, start) -> None:
            super().start(start)
            name = self.config.task

            class GrowingSteps(type(self.steps)):
                @property
                def must_capture(steps) -> bool:
                    return name == "bfs" and self.part == 1

                def make(steps, number: int) -> None:
                    if self.part == 1 and number == 0:
                        threads[name].append(threading.current_thread())
                        if name == "bfs" and len(names) > 1:  # for ever, unless the other goes on meanwhile
                            wait_until(lambda: reported.get(names[1], 0) >= self.config.protocol.examples)
                    super().make(number)

            self.steps.__class__ = GrowingSteps

    def report(trainer: Trainer) -> None:
        reported[trainer.config.task] = trainer.examples

    runs = [(Growing(task.config), folder) for task, folder in runs_in(tmp_path / "together", names)]
    together = train_together(runs, CPU, aside=True, report=report, report_seconds=0.0)
    assert scores(together) == alone.scores[: len(names)]
    is_here = {name: thread is threading.main_thread() for name, (thread,) in threads.items()}
    assert is_here == {"bfs": len(names) == 1, **dict.fromkeys(names[1:], True)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's compiler looks at it
def test_a_fleet_compiled_aside_trains_as_one_that_is_compiled_here(tmp_path, traced, monkeypatch):
    """Beside one that calls no model, as fleets on CUDA."""
    config = small_config(seeds=(0,), protocol=PROTOCOL, compile="on")
    _, alone = run_to_the_end(config, tmp_path / "alone")
    graphs, compiled_in = len(traced), []

    class Recorded:
        """A trainer that makes parts until the other has begun."""

        busy, has_failed, must_capture, examples = False, False, False, 0

        def __init__(self, folder: RunFolder) -> None:
            self.folder = folder

        def run(self):
            yield
            while len(traced) < 2 * graphs and not RunFolder(tmp_path / "aside").result.exists():
                time.sleep(0.001)
                yield

        def save(self) -> None: ...

        def finish(self) -> dict:
            return {"seeds": []}

    def make(task: CLRSTask, folder: RunFolder, device: torch.device) -> Recorded | Trainer:
        if task.config.task == "binary_search":
            return Recorded(folder)
        compiled_in.append(threading.current_thread())
        return Trainer(task, folder, device)

    monkeypatch.setattr(session, "Trainer", make)
    tasks = [CLRSTask(small_config(task="binary_search", protocol=PROTOCOL)), CLRSTask(config)]
    runs = [(task, tmp_path / name) for task, name in zip(tasks, ("recorded", "aside"), strict=True)]
    _, aside = train_together(runs, CPU, aside=True, report_seconds=60.0)
    assert compiled_in[0] is not threading.main_thread()
    assert len(traced) == 2 * graphs, "what was compiled in the thread was compiled again"
    assert aside["seeds"] == alone["seeds"]


def test_the_next_of_the_queue_begins_when_one_has_ended_and_not_before(tmp_path):
    runs, seen = runs_in(tmp_path, (*TASKS, "minimum")), []

    def begin(config: TrainConfig) -> None:
        done = sum(RunFolder(folder).result.exists() for _, folder in runs)
        seen.append((config.task, len(seen) - done))

    train_aside(runs, begin, at_once=2)
    assert [task for task, _ in seen] == [*TASKS, "minimum"]
    assert max(others for _, others in seen) == 1


def test_one_that_is_not_ready_is_left_out_until_it_is(tmp_path):
    runs, begun = runs_in(tmp_path), []

    def is_ready(folder: Path) -> bool:
        return folder.name != "bfs" or len(begun) == 2

    results = train_aside(runs, lambda config: begun.append(config.task), at_once=2, is_ready=is_ready)
    assert begun == ["binary_search", "insertion_sort", "bfs"]
    assert [result["config"]["task"] for result in results] == list(TASKS)


@pytest.mark.parametrize("error", [MemoryTakenError, torch.OutOfMemoryError])
@pytest.mark.parametrize("aside", [True, False])
def test_one_that_finds_too_little_memory_begins_when_another_has_ended(
    tmp_path, alone, aside: bool, error: type[Exception]
):
    runs, seen = runs_in(tmp_path), []

    def begin(config: TrainConfig) -> None:
        others = len(seen) - sum(RunFolder(folder).result.exists() for _, folder in runs)
        if config.task == "binary_search" and others:
            refused.append(others)
            raise error("too little")
        seen.append(config.task)

    refused: list[int] = []
    results = train_aside(runs, begin, aside=aside, at_once=3)
    assert seen == ["bfs", "insertion_sort", "binary_search"]
    assert 1 <= len(refused) <= 2  # once for each of those that were there before it, no more
    assert scores(results) == alone.scores


def test_one_that_finds_too_little_memory_alone_fails(tmp_path):
    def begin(config: TrainConfig) -> None:
        raise MemoryTakenError("training needs more than there is")

    with pytest.raises(MemoryTakenError, match="training needs more") as error:
        train_aside(runs_in(tmp_path, TASKS[:1]), begin)
    assert error.value.__notes__ == [f"while training {tmp_path / 'bfs'}"]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_stopped_while_one_begins_the_others_are_saved_and_go_on_to_the_same_numbers(
    tmp_path, monkeypatch, alone, sent
):
    runs = runs_in(tmp_path)
    (_, first), (_, second), (_, third) = runs
    handler, threads = signal.getsignal(sent), set(threading.enumerate())
    train_on, is_sent = Trainer._train, threading.Event()

    def train_when_it_is_sent(trainer: Trainer, most_steps: int) -> None:
        if trainer.config.task == "bfs" and trainer.part > 1:
            is_sent.wait()  # else it might end before
        train_on(trainer, most_steps)

    def stop_meanwhile(config: TrainConfig) -> None:
        if config.task == "binary_search":
            os.kill(os.getpid(), sent)
            is_sent.set()
            wait_until(lambda: parts_saved(first) > 0)  # saved at once, and not when this one is ready

    monkeypatch.setattr(Trainer, "_train", train_when_it_is_sent)
    with pytest.raises(Stopped, match=f"stopped by {sent.name}, saved {first} at example .*; the same command resumes"):
        train_aside(runs, stop_meanwhile)
    assert (parts_saved(second), parts_saved(third)) == (0, 0)
    assert signal.getsignal(sent) == handler
    assert set(threading.enumerate()) <= threads
    assert scores(train_aside(runs)) == alone.scores


def test_one_that_fails_in_the_thread_ends_all_and_the_others_are_saved(tmp_path):
    (task, first), *others = runs_in(tmp_path)
    endless = replace(task.config, protocol=replace(PROTOCOL, examples=1_000_000), compile="off")
    runs = [(CLRSTask(endless), first), *others]

    def fail(config: TrainConfig) -> None:
        if config.task == "binary_search":
            raise RuntimeError("no such luck")

    with pytest.raises(RuntimeError, match="no such luck") as error:
        train_aside(runs, fail)
    assert error.value.__notes__ == [f"while training {runs[1][1]}"]
    assert parts_saved(runs[0][1]) > 0
    assert not RunFolder(runs[0][1]).result.exists()


def test_one_that_fails_in_a_part_is_not_saved_in_the_middle_of_it(tmp_path, monkeypatch):
    runs, train_on = runs_in(tmp_path), Trainer._train

    def fail_in_the_second(trainer: Trainer, most_steps: int) -> None:
        if trainer.config.task == "binary_search" and trainer.part == 1:
            raise RuntimeError("no such luck")
        train_on(trainer, most_steps)

    monkeypatch.setattr(Trainer, "_train", fail_in_the_second)
    with pytest.raises(RuntimeError, match="no such luck") as error:
        train_together(runs, CPU)
    assert error.value.__notes__ == [f"while training {runs[1][1]}"]
    assert parts_saved(runs[0][1]) > 0
    assert parts_saved(runs[1][1]) == 0


@pytest.mark.parametrize("fails_in", ["start", "_train", "finish"])
def test_one_that_fails_ends_no_other_if_they_are_to_go_on(tmp_path, monkeypatch, caplog, alone, fails_in: str):
    runs = runs_in(tmp_path)
    owner: Any = CLRSTask if fails_in == "start" else Trainer
    done = getattr(owner, fails_in)

    def fail_in_the_second(one: Any, *arguments: Any) -> Any:
        if one.config.task == "binary_search":
            raise RuntimeError("no such luck")
        return done(one, *arguments)

    monkeypatch.setattr(owner, fails_in, fail_in_the_second)
    with pytest.raises(RuntimeError, match="no such luck") as error:
        train_together(runs, CPU, at_once=2, aside=True, goes_on=True)
    assert error.value.__notes__ == [f"while training {runs[1][1]}"]
    assert [RunFolder(folder).result.exists() for _, folder in runs] == [True, False, True]
    assert f"{runs[1][1]} has failed; the others go on" in caplog.text
    monkeypatch.setattr(owner, fails_in, done)
    assert scores(train_together(runs, CPU)) == alone.scores


def test_a_device_that_has_failed_ends_all(tmp_path, monkeypatch):
    runs, begun = runs_in(tmp_path), []

    def begin(config: TrainConfig) -> None:
        begun.append(config.task)
        if config.task == "binary_search":
            raise torch.AcceleratorError("an illegal memory access was encountered")

    with pytest.raises(torch.AcceleratorError, match="illegal memory access"):
        train_aside(runs, begin, at_once=2, goes_on=True)
    assert begun == list(TASKS[:2])


def test_one_that_has_failed_keeps_no_trainer(tmp_path, monkeypatch):
    """A trainer holds the memory of its graphs."""
    runs, made = runs_in(tmp_path), []

    def fail(trainer: Trainer, most_steps: int) -> None:
        made.append(weakref.ref(trainer))
        raise torch.OutOfMemoryError("CUDA out of memory")

    def collected(config: TrainConfig) -> None:
        if config.task == "binary_search":
            gc.collect()
            assert made[0]() is None

    monkeypatch.setattr(Trainer, "_train", fail)
    with pytest.raises(torch.OutOfMemoryError):
        train_aside(runs, collected, at_once=1, goes_on=True)
    assert len(made) == len(runs)


def test_errors_that_are_each_others_cause_are_let_go():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert side_by_side.let_go(first) is first


def test_none_begins_when_it_is_too_late_and_those_under_way_go_on(tmp_path, monkeypatch):
    runs, now = runs_in(tmp_path), [0.0]

    def begin(config: TrainConfig) -> None:
        if config.task == "binary_search":
            now[0] = 2.0

    monkeypatch.setattr(side_by_side.time, "time", lambda: now[0])
    results = train_aside(runs, begin, at_once=2, begin_until=1.0)
    assert [result["config"]["task"] for result in results] == list(TASKS[:2])
    assert not RunFolder(runs[2][1]).checkpoint.exists()


def test_one_that_cannot_be_saved_does_not_cost_the_others_their_work(tmp_path, monkeypatch):
    runs, train_on, save = runs_in(tmp_path), Trainer._train, Trainer.save

    def fail_in_the_third(trainer: Trainer, most_steps: int) -> None:
        if trainer.config.task == "insertion_sort" and trainer.part == 1:
            raise RuntimeError("no such luck")
        train_on(trainer, most_steps)

    def save_all_but_the_first(trainer: Trainer) -> None:
        if trainer.config.task == "bfs":
            raise OSError("no space left")
        save(trainer)

    monkeypatch.setattr(Trainer, "_train", fail_in_the_third)
    monkeypatch.setattr(Trainer, "save", save_all_but_the_first)
    with pytest.raises(RuntimeError, match="no such luck"):
        train_together(runs, CPU)
    assert [parts_saved(folder) > 0 for _, folder in runs] == [False, True, False]


def test_checkpoints_by_the_clock_hold_up_nobody(tmp_path, monkeypatch, alone):
    monkeypatch.setattr(CLRSTask, "steps_at_once", {"cpu": 1})
    train, turns = Trainer._train, []

    def noted(one: Trainer, most_steps: int) -> None:
        turns.append((one.folder.path.name, one.part, most_steps, parts_saved(one.folder.path)))
        train(one, most_steps)

    monkeypatch.setattr(Trainer, "_train", noted)
    runs = runs_in(tmp_path, TASKS[:2])
    often = train_together(runs, CPU, checkpoint_seconds=0.0)
    for _, folder in runs:
        own = [turn for turn in turns if turn[0] == Path(folder).name]
        assert {steps for _, part, steps, _ in own if part > 0} == {1}  # no part was hastened
        assert {(part, saved) for _, part, _, saved in own if part > 0} == {(part, part) for part in range(1, PARTS)}
    assert scores(often) == alone.scores[:2]


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_need_not_wait_for_a_test(tmp_path, monkeypatch, alone, signal_number: int):
    finish = Trainer.finish

    def stopped(one: Trainer) -> dict:
        one.save()
        os.kill(os.getpid(), signal_number)
        time.sleep(60)
        raise AssertionError("the signal has waited for the test")

    runs = runs_in(tmp_path, TASKS[:2])
    monkeypatch.setattr(Trainer, "finish", stopped)
    with pytest.raises(Stopped, match=r"stopped by .*; the same command resumes there"):
        train_together(runs, CPU)
    monkeypatch.setattr(Trainer, "finish", finish)
    assert scores(train_together(runs, CPU)) == alone.scores[:2]


def test_fleets_begin_and_end_while_the_others_wait_if_nothing_is_aside(tmp_path, monkeypatch, alone):
    runs, threads, reported, before, tested = runs_in(tmp_path), set(), {}, [], []
    finish = Trainer.finish

    def report(trainer: Trainer) -> None:
        reported[trainer.config.task] = trainer.examples

    def nobody_trains_on() -> None:
        threads.add(threading.current_thread())
        now = dict(reported)
        time.sleep(0.05)
        assert reported == now

    def begin(config: TrainConfig) -> None:
        before.append(len(reported))
        nobody_trains_on()

    def end(trainer: Trainer) -> dict[str, Any]:
        tested.append(trainer.config.task)
        nobody_trains_on()
        return finish(trainer)

    monkeypatch.setattr(Trainer, "finish", end)
    together = train_aside(runs, begin, report=report, aside=False)
    assert threads == {threading.main_thread()}
    assert before == [0, 1, 2]  # all were under way
    assert sorted(tested) == sorted(task.config.task for task, _ in runs)
    monkeypatch.setattr(Trainer, "finish", finish)
    assert scores(together) == alone.scores


def test_threads_change_at_the_usual_pace_afterwards(tmp_path):
    before, during = sys.getswitchinterval(), []
    train_aside(runs_in(tmp_path, ("bfs",)), lambda config: during.append(sys.getswitchinterval()))
    assert during[0] < sys.getswitchinterval() == before


def test_on_a_cpu_nothing_happens_aside(tmp_path, monkeypatch):
    """What compiles in one thread takes what runs in another for its own."""
    threads, init = set(), Trainer.__init__

    def noted(trainer: Trainer, *arguments) -> None:
        threads.add(threading.current_thread())
        init(trainer, *arguments)

    monkeypatch.setattr(Trainer, "__init__", noted)
    train_together(runs_in(tmp_path), CPU, at_once=2)
    assert threads == {threading.main_thread()}
