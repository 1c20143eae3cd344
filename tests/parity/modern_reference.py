"""Files of `modern/`: numbers computed with the authors' implementation of the modern protocol (dm-clrs 2.0.3)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from relational_transformer.clrs.spec import FeatureSpec, Location, Spec, Stage, Type
from relational_transformer.processors import Settings
from relational_transformer.reasoning import Batch, Network, build_network
from tests.parity.published_places import load_published

FOLDER = Path(__file__).parent / "modern"


def meta_of(file: Path) -> dict[str, Any]:
    """What a file says of itself; nothing if it says nothing."""
    with np.load(file) as arrays:
        return json.loads(str(arrays["meta_json"])) if "meta_json" in arrays.files else {}


FILES = {file: meta_of(file) for file in sorted(FOLDER.glob("*.npz"))}
OF_NETWORKS = [file for file, meta in FILES.items() if "spec" in meta]
OF_OPTIMISERS = [file for file, meta in FILES.items() if "start" in meta]
OF_UNITS = [file for file, meta in FILES.items() if not meta]


def narrow(kind: str, data: Tensor) -> Tensor:
    """Data in the form that `clrs.sample` gives it."""
    if kind == Type.SCALAR:
        return data
    return data.to(torch.int16 if kind == Type.POINTER else torch.int8)


TIE = 2e-7
"""The largest of several numbers and others so near to it may be equal in float32, and then share its gradient."""


class _TiedMaximum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, axis: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        largest = values.max(axis, keepdim=True).values
        ctx.save_for_backward(values >= largest - TIE)
        ctx.axis = axis
        return largest.squeeze(axis)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (tied,) = ctx.saved_tensors
        return tied / tied.sum(ctx.axis, keepdim=True) * gradient.unsqueeze(ctx.axis), None


@contextmanager
def messages_tied_as_in_float32() -> Iterator[None]:
    """Share the gradient of the largest message with those that float32 cannot tell from it.

    In insertion_sort two messages are 1.1e-7 apart, and the file was computed with half of the gradient for each.
    """
    plain = Tensor.amax

    def tied(values: Tensor, axis: Any = None, keepdim: bool = False) -> Tensor:
        is_of_messages = axis == -3 and not keepdim
        return _TiedMaximum.apply(values, axis) if is_of_messages else plain(values, axis, keepdim)  # pyright: ignore[reportReturnType]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "amax", tied)
        yield


class Arrays:
    """The arrays of one file as tensors; floating-point numbers in the dtype that is asked for."""

    def __init__(self, file: Path, dtype: torch.dtype) -> None:
        with np.load(file) as arrays:
            self.arrays = {key: arrays[key] for key in arrays.files if key != "meta_json"}
        self.dtype = dtype

    def __getitem__(self, key: str) -> Tensor:
        return torch.from_numpy(self.arrays[key]).to(self.dtype)

    def __contains__(self, key: str) -> bool:
        return key in self.arrays

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Those whose key starts with a prefix, by the rest of the key."""
        return {key.removeprefix(prefix): self[key] for key in self.arrays if key.startswith(prefix)}

    def batch(self, network: Network, prefix: str = "") -> Batch:
        """The batch whose keys start with a prefix."""
        stages = []
        for stage in ("input", "hint", "output"):
            features = {}
            for key, value in self.under(f"{prefix}{stage}|").items():
                name, _, kind = key.split("|")
                features[name] = narrow(kind, value)
            stages.append(features)
        return network.pack(*stages, torch.from_numpy(self.arrays[f"{prefix}lengths"]).int())


class Reference(Arrays):
    """A file of a network: its parameters, a batch, and what comes of it."""

    def __init__(self, file: Path, dtype: torch.dtype) -> None:
        super().__init__(file, dtype)
        meta = FILES.get(file) or meta_of(file)
        self.algorithm: str = meta["algorithm"]
        settings = Settings(
            processor=meta["processor"], num_layers=1, hidden_size=meta["hidden_size"], pointers_from_edges=False
        )
        self.spec = self._spec(meta["spec"])
        network = build_network(self.spec, settings, hint_feedback=meta["hint_repred_mode"])
        self.network = network.to(dtype)
        load_published(self.network, self.under("param|"), modern=True)

    def _spec(self, described: dict[str, list[str]]) -> Spec:
        spec = {}
        for name, (stage, location, kind) in described.items():
            shape = self.arrays[f"{stage}|{name}|{location}|{kind}"].shape
            classes = shape[-1] if kind == Type.CATEGORICAL else None
            spec[name] = FeatureSpec(Stage(stage), Location(location), Type(kind), classes)
        return spec

    @property
    def num_steps(self) -> int:
        return max(1, len(next(iter(self.under("hint|").values()))) - 1)

    def example_batch(self, noise: bool = False) -> Batch:
        batch = self.batch(self.network)
        return batch._replace(noise=self["gumbel_noise"].unsqueeze(-1)) if noise else batch

    def never_forced(self) -> Tensor:
        hints = next(iter(self.under("hint|").values()))
        return torch.zeros(len(hints) - 1, hints.shape[1], dtype=torch.bool)
