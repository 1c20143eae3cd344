"""When the kernels take over."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from relational_transformer.nn import kernels
from relational_transformer.nn.kernels import dispatch


@pytest.fixture
def hopper(monkeypatch):
    """Tensors may be on a Hopper card, and hold nothing."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(dispatch, "HAS_TRITON", True)
    with FakeTensorMode(), kernels.use_kernels("auto"):
        yield


def edges(num_nodes: int, dtype: torch.dtype = torch.bfloat16, device: str = "cuda") -> torch.Tensor:
    return torch.empty(2, num_nodes, num_nodes, 8, dtype=dtype, device=device)


def test_large_graphs_in_bfloat16_take_the_kernels_of_attention_and_edge_update(hopper):
    assert kernels.enabled(edges(64))
    assert kernels.enabled(edges(256))
    assert not kernels.enabled(edges(63))
    assert not kernels.enabled(edges(64, torch.float32))
    assert not kernels.enabled(edges(64, device="cpu"))


def test_autocast_says_in_what_the_kernels_would_compute(hopper, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.bfloat16)
    assert kernels.enabled(edges(64, torch.float32))
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float16)
    assert not kernels.enabled(edges(64))


def test_cards_on_which_nobody_measured_take_the_plain_path(hopper, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert not kernels.enabled(edges(64))


def test_what_is_exported_has_no_kernels(hopper, monkeypatch):
    monkeypatch.setattr(torch.compiler, "_is_exporting_flag", True)
    assert not kernels.enabled(edges(64))


class SaysWhetherItIsExported(torch.nn.Module):
    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers + 1 if dispatch.is_exporting() else numbers


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_compiled_is_not_exported(strict: bool):
    model, zero = SaysWhetherItIsExported(), torch.zeros(1)
    assert torch.compile(model, backend="eager", fullgraph=True)(zero) == 0
    assert torch.export.export(model, (zero,), strict=strict).module()(zero) == 1


def test_what_is_switched_off_stays_off(hopper):
    with kernels.use_kernels(False):
        assert not kernels.enabled(edges(64))


def test_pointers_are_scored_by_their_kernel_on_hopper(hopper, monkeypatch):
    rows = torch.empty(2, 9, 1, 8, dtype=torch.bfloat16, device="cuda")
    assert kernels.scores_pointers(rows, 16)
    monkeypatch.setattr(torch.compiler, "_is_exporting_flag", True)
    assert not kernels.scores_pointers(rows, 16)


def test_pointers_are_scored_by_their_kernel_where_it_is_asked_for(hopper, monkeypatch):
    rows = torch.empty(2, 9, 1, 8, dtype=torch.bfloat16, device="cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert not kernels.scores_pointers(rows, 16)
    with kernels.use_kernels(True):
        assert kernels.scores_pointers(rows, 16)
        assert kernels.scores_pointers(rows.float(), 128)
        assert not kernels.scores_pointers(rows, 129)
        assert not kernels.scores_pointers(rows.double(), 16)
    with kernels.use_kernels(False):
        assert not kernels.scores_pointers(rows, 16)


def test_the_switch_holds_within_its_block_only():
    before = dispatch._mode
    with kernels.use_kernels("auto"):
        assert dispatch._mode == "auto"
        with kernels.use_kernels(False):
            assert dispatch._mode is False
        assert dispatch._mode == "auto"
    assert dispatch._mode == before


def test_asking_for_kernels_where_there_are_none_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with kernels.use_kernels(True), pytest.raises(RuntimeError, match="need a CUDA device and Triton"):
        kernels.enabled(torch.zeros(1))


def test_double_precision_takes_the_plain_path_always():
    with kernels.use_kernels(True):
        assert not kernels.enabled(torch.zeros(1, dtype=torch.float64))


def test_the_environment_names_the_mode(monkeypatch):
    for name, mode in (("auto", "auto"), ("on", True), ("off", False)):
        monkeypatch.setenv("RT_KERNELS", name)
        assert dispatch.mode_from_environment() == mode
    monkeypatch.setenv("RT_KERNELS", "maybe")
    with pytest.raises(ValueError, match="one of: auto, on, off"):
        dispatch.mode_from_environment()
