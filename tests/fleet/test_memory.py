"""What is kept for a backward pass, and when it is too much."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from relational_transformer.fleet import graphs as memory
from relational_transformer.fleet.graphs import (
    MemoryTakenError,
    cached_bytes,
    check_room,
    free_bytes,
    is_too_much_to_keep,
    saved_bytes,
)

CPU = torch.device("cpu")


def test_saved_bytes_are_those_that_autograd_keeps():
    weight = torch.ones(1_000, requires_grad=True)
    assert saved_bytes(lambda: (weight * 2.0).exp()) == 4_000  # the result of exp; a constant factor keeps nothing


@pytest.mark.parametrize(("needed", "too_much"), [(599, False), (601, True)])
def test_three_fifths_of_the_memory_may_be_filled(monkeypatch, needed: int, too_much: bool):
    monkeypatch.setattr(memory, "usable_bytes", lambda device: 1_000)
    assert is_too_much_to_keep(needed, CPU) is too_much


def test_how_a_run_is_trained_depends_on_all_memory_and_whether_it_begins_on_what_is_free(monkeypatch):
    card = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=1_000))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 100}.__getitem__)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    for device in (CPU, card):
        assert [is_too_much_to_keep(needed, device) for needed in (599, 601)] == [False, True]
    check_room(90, card)
    with pytest.raises(
        MemoryTakenError, match=r"training needs 0\.0 GiB of cuda:0, of which others have left 0\.0 GiB"
    ):
        check_room(91, card)


def test_memory_of_runs_that_have_ended_is_given_back_before_another_is_refused(monkeypatch):
    """The pool of a graph that is gone is neither free nor in the cache until the cache is emptied."""
    free = [100]
    monkeypatch.setattr(memory, "free_bytes", lambda device: free[0])
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: free.__setitem__(0, 1_000))
    check_room(900, torch.device("cuda", 0))
    assert free == [1_000]


def test_what_the_caches_of_files_hold_is_free(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda path: "MemFree:  1024 kB\nMemAvailable:    2048 kB\nCached: 1 kB\n")
    assert free_bytes(CPU) == 2048 * 1024


def test_without_linux_pages_that_are_free_are_counted(monkeypatch):
    def fail(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", fail)
    assert free_bytes(CPU) > 0


def test_memory_of_graphs_is_not_free_to_others():
    def segment(device: int, pool: tuple[int, int], total: int, allocated: int) -> dict:
        return {"device": device, "segment_pool_id": pool, "total_size": total, "allocated_size": allocated}

    segments = [segment(0, (0, 0), 100, 60), segment(0, (0, 7), 1_000, 0), segment(1, (0, 0), 500, 0)]
    assert cached_bytes(segments, torch.device("cuda", 0)) == 40
