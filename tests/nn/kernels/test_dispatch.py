"""When the kernels take over."""

import pytest
import torch

from relational_transformer.nn import kernels
from relational_transformer.nn.kernels import dispatch


def test_attention_and_edge_update_take_the_plain_path_unless_asked():
    assert not kernels.enabled(torch.zeros(1))
    with kernels.use_kernels("auto"):
        assert not kernels.enabled(torch.zeros(1))


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
