"""Our networks against numbers computed with the authors' implementation, one file for each processor and algorithm."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from relational_transformer.processors import Settings
from relational_transformer.reasoning import Batch, Network, build_network
from relational_transformer.reasoning.published import load_published, published_places

FILES = sorted(Path(__file__).parent.glob("*.npz"))
PROCESSORS = {"deepsets": "deep_sets", "pgn_mask": "pgn_masked"}


class Reference:
    """One file: the configuration, the published parameters, a batch and what the published model makes of it."""

    def __init__(self, file: Path, dtype: torch.dtype) -> None:
        arrays = np.load(file)
        self.arrays = {key: arrays[key] for key in arrays.files}
        self.dtype = dtype
        meta = json.loads(str(self.arrays["meta_json"]))
        settings = Settings(
            processor=PROCESSORS.get(meta["processor"], meta["processor"]),
            num_layers=meta["num_layers"],
            hidden_size=meta["hidden_size"],
            num_heads=meta["num_heads"] or 1,
            node_hidden_size=meta["node_hidden"],
            edge_hidden_sizes=(meta["edge_hidden_1"], meta["edge_hidden_2"]),
            global_mode=meta["graph_vector"],
            update_edges=meta["edge_updates"],
            pointers_from_edges=meta["pointers_from_edges"],
        )
        self.network = build_network(meta["algorithm"], settings).to(dtype)
        load_published(self.network, self.tensors("param|"))

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Arrays whose key starts with a prefix, by the rest of the key."""
        return {
            key.removeprefix(prefix): torch.from_numpy(array).to(self.dtype)
            for key, array in self.arrays.items()
            if key.startswith(prefix)
        }

    def batch(self) -> Batch:
        stages = []
        for stage in ("input", "hint", "output"):
            features = {}
            for key, value in self.tensors(f"{stage}|").items():
                name, _, kind = key.split("|")
                features[name] = value if kind == "scalar" else value.to(_narrow(kind))
            stages.append(features)
        return self.network.pack(*stages, torch.from_numpy(self.arrays["lengths"]).int())


def _narrow(kind: str) -> torch.dtype:
    return torch.int16 if kind in ("pointer", "should_be_permutation") else torch.int8


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def reference(request: pytest.FixtureRequest) -> Reference:
    return Reference(request.param, torch.float32)


def _loss(network: Network, batch: Batch, teacher_forced: bool) -> Tensor:
    steps, size = next(iter(batch.hints.values())).shape[0] - 1, batch.lengths.shape[0]
    return network(batch, torch.full((steps, size), teacher_forced)).total


def _assert_gradient_norms(reference: Reference, loss: Tensor, expected: dict[str, Tensor], absolute: float) -> None:
    parameters = dict(reference.network.named_parameters())
    gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    for name, place in published_places(reference.network).items():
        norm = place.take(gradients[place.parameter]).norm()
        torch.testing.assert_close(norm, expected[name], rtol=1e-5, atol=absolute, msg=lambda text, n=name: f"{n}: {text}")


def test_reference_files_are_there() -> None:
    assert len(FILES) == 33


def test_loss_and_gradients_with_every_hint_teacher_forced(reference: Reference) -> None:
    loss = _loss(reference.network, reference.batch(), teacher_forced=True)
    torch.testing.assert_close(loss.item(), float(reference.arrays["loss_noise0"]), rtol=2e-6, atol=0)
    _assert_gradient_norms(reference, loss, reference.tensors("grad_norm_noise0|"), absolute=2e-7)


def test_loss_and_gradients_on_own_hints(reference: Reference) -> None:
    loss = _loss(reference.network, reference.batch(), teacher_forced=False)
    torch.testing.assert_close(loss.item(), float(reference.arrays["loss_noise1"]), rtol=2e-6, atol=0)
    _assert_gradient_norms(reference, loss, reference.tensors("grad_norm_noise1|"), absolute=1e-5)


def test_predictions_on_own_hints(reference: Reference) -> None:
    batch = reference.batch()
    first_hints = {key: hint[0] for key, hint in batch.hints.items()}
    num_steps = next(iter(batch.hints.values())).shape[0] - 1
    with torch.no_grad():
        prediction = reference.network.predict(
            batch.inputs, first_hints, batch.lengths, num_steps=num_steps, keep_hints=True
        )
    assert prediction.hints is not None
    for logits, prefix in ((prediction.outputs, "eval_output_logits|"), (prediction.hints, "eval_hint_logits|")):
        expected = reference.tensors(prefix)
        assert logits.keys() == expected.keys()
        for name, value in expected.items():
            scale = value.abs().max().item()
            torch.testing.assert_close(logits[name], value, rtol=0, atol=5e-6 * scale, msg=lambda t, n=name: f"{n}: {t}")
