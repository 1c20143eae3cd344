"""Trajectories that share, without a compiler; and what is left of them."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from relational_transformer.training import fleet_methods
from relational_transformer.training.hoisted import plan, shared_steps


@pytest.fixture
def uncompiled(monkeypatch) -> None:
    """What would be compiled is traced for the compiler, but runs as it is."""
    for module in (plan, fleet_methods):
        monkeypatch.setattr(module, "compiled_for", lambda function, device: function)


@pytest.fixture(params=[True, False], ids=["side by side", "added up"])
def side_by_side(request, monkeypatch) -> bool:
    """Whether gradients are made as on CUDA, of what all steps have left side by side, or step by step."""
    monkeypatch.setattr(plan, "lie_side_by_side", lambda device, dtype: request.param)
    return request.param


@pytest.fixture
def shared(monkeypatch) -> Iterator[list[weakref.ref[shared_steps._Shared]]]:
    """What trajectories from now on share, as long as somebody keeps it: no garbage is collected."""
    kept: list[weakref.ref[shared_steps._Shared]] = []
    begin = shared_steps._Shared.__init__

    def noted(one: shared_steps._Shared, *arguments) -> None:
        kept.append(weakref.ref(one))
        begin(one, *arguments)

    monkeypatch.setattr(shared_steps._Shared, "__init__", noted)
    gc.collect()
    gc.disable()
    try:
        yield kept
    finally:
        gc.enable()
