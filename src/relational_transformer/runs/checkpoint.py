"""Checkpoints: safetensors files with a checksum. The checkpoint before the newest is kept. Nothing is ever unpickled.

The checksum covers the tensors, the progress and the configuration of the run. Older formats, whose checksum covered
the tensors alone, are refused.
"""

import hashlib
import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from relational_transformer.files import write_atomically
from relational_transformer.fleet.pieces import Parameters
from relational_transformer.nn.saving.digest import digest, import_safetensors
from relational_transformer.reading import check, open_regular, parse_json

from .run_folder import RunFolder, differences
from .task import Task

log = logging.getLogger(__name__)

FORMAT = "2"
TEXTS = ("format", "config", "progress")
"""The texts beside the tensors, in the order in which the checksum reads them."""

State = dict[str, Tensor]


class Checkpoint(NamedTuple):
    """Tensors by name, the progress of the run, and its configuration."""

    tensors: State
    progress: dict[str, Any]
    config: dict[str, Any]


def save_checkpoint(
    folder: RunFolder, config: Mapping[str, Any], state: Mapping[str, Tensor], progress: Mapping[str, Any]
) -> None:
    """Write tensors by name and `progress` (JSON), keeping the checkpoint before as `checkpoint.previous`."""
    safetensors = import_safetensors()
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    metadata = {"format": FORMAT, "config": json.dumps(config), "progress": json.dumps(progress, allow_nan=False)}
    metadata["sha256"] = _checksum(tensors, metadata)

    def write(path: Path) -> None:
        # Not `save_file`: it has a temporary file of its own, which a kill would leave behind.
        path.write_bytes(safetensors.torch.save(tensors, metadata))

    def keep_previous() -> None:
        if folder.checkpoint.exists():
            os.replace(folder.checkpoint, folder.previous_checkpoint)

    write_atomically(folder.checkpoint, write, before_replacing=keep_previous)


def resume(
    folder: RunFolder,
    config: Mapping[str, Any],
    state: Mapping[str, Tensor],
    progress: type,
    at_most: Mapping[str, float],
) -> dict[str, Any] | None:
    """Copy the newest checkpoint into the tensors of `state` and return its progress; None where there is no
    checkpoint.

    A checkpoint that is damaged or does not fit is renamed to `*.damaged`, so that it never replaces a good one. A
    warning says so, and the checkpoint before it is used.

    Args:
        folder: the folder of the run, which this process has opened.
        config: the configuration of the run; a checkpoint with another one does not fit.
        state: tensors by name; those of the checkpoint must have the same names, shapes and dtypes.
        progress: the TypedDict that the progress must fit.
        at_most: by the name of a number of the progress, its largest valid value; the smallest is 0.
    """

    def check_fit(found: Checkpoint) -> None:
        _check_config(found, config)
        _check_same(*({name: _kind(one) for name, one in tensors.items()} for tensors in (state, found.tensors)))
        check(found.progress, progress)
        for name, most in at_most.items():
            if not 0 <= found.progress[name] <= most:
                raise ValueError(f"{name} is {found.progress[name]}, expected 0 to {most}")

    import_safetensors()  # if it is missing, that is told before the training and not after its first part
    found = _newest(folder, check_fit, put_aside=True)
    if found is None:
        return None
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(found[1].tensors[name])
    return found[1].progress


def read_best(folder: RunFolder, config: Mapping[str, Any], model: nn.Module, num_seeds: int) -> tuple[State, State]:
    """The best parameters of a run's seeds, [S, *shape] by name as in `model`, and the other tensors of its checkpoint.

    A run that has its result is read from the checkpoint that the result was made with, and from no other. A run
    without a result may be read from the checkpoint before the newest; a warning says so.
    """
    prefix = "best."
    shapes = {f"{prefix}{name}": [num_seeds, *parameter.shape] for name, parameter in model.named_parameters()}

    def check_fit(found: Checkpoint) -> None:
        _check_config(found, config)
        _check_same(
            shapes, {name: list(tensor.shape) for name, tensor in found.tensors.items() if name.startswith(prefix)}
        )

    result = folder.read_result()
    if result is not None and "files" in result:
        remedy = f"delete {folder.result} and run rt train again, which continues from the newest checkpoint"
        if not os.path.lexists(folder.checkpoint):
            raise ValueError(f"{folder.checkpoint}, which {folder.result} was made with, is missing: {remedy}")
        try:
            found = folder.checkpoint, _read_fitting(folder.checkpoint, check_fit)
        except ValueError as error:
            raise ValueError(f"{error}: {remedy}") from None
        if not folder.is_of(result, folder.checkpoint):
            raise ValueError(f"{folder.checkpoint} is not the one that {folder.result} was made with: {remedy}")
    else:
        found = _newest(folder, check_fit)
    if found is None:
        raise ValueError(f"there is no readable checkpoint in {folder.path}")
    path, checkpoint = found
    if path == folder.previous_checkpoint:
        log.warning("The scores are those of %s: the checkpoint after it is missing or damaged", path)
    tensors = checkpoint.tensors
    best = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return best, {name: tensor for name, tensor in tensors.items() if not name.startswith(prefix)}


class Trained(NamedTuple):
    """A trained run, read from its newest checkpoint.

    Attributes:
        best: the best parameters of its seeds, [S, *shape] by name.
        good: which seeds did not fail.
    """

    folder: RunFolder
    task: Task[Any]
    best: Parameters
    good: list[bool]

    @property
    def config(self) -> Any:
        return self.task.config

    def number_of(self, seed: int | None) -> int:
        """The position of a seed among those of the run; by default that of the first seed that did not fail.
        ValueError where the seed failed."""
        seeds = self.config.seeds
        if seed is not None and seed not in seeds:
            raise ValueError(f"the run in {self.folder.path} has the seeds {list(seeds)}, not {seed}")
        number = (self.good.index(True) if any(self.good) else None) if seed is None else seeds.index(seed)
        if number is None or not self.good[number]:
            failed = "all seeds" if not any(self.good) else f"seed {seed}"
            raise ValueError(f"{failed} of the run in {self.folder.path} failed: there is no model")
        return number

    def model_of(self, number: int) -> Any:
        """The model of the seed at this position, with its best parameters."""
        own = {name: values[number] for name, values in self.best.items()}
        model = self.task.build().to(next(iter(own.values())).dtype)
        model.load_state_dict(own)
        return model

    def scores(self, score: Callable[[Parameters], Tensor], device: torch.device) -> dict[int, float | None]:
        """Scores [S] of the best parameters, by seed; None for a seed that failed, or whose score is no finite
        number."""
        scores = score({name: tensor.to(device) for name, tensor in self.best.items()}).tolist()
        rows = zip(self.config.seeds, scores, self.good, strict=True)
        return {seed: one if is_good and math.isfinite(one) else None for seed, one, is_good in rows}


def load_trained(kind: type[Task[Any]], run: RunFolder | Path | str) -> Trained:
    """Read the run of a kind of task in a folder."""
    folder = run if isinstance(run, RunFolder) else RunFolder(run)
    config = folder.read_config(kind.config_type.from_dict)
    task = kind(config)
    with torch.device("meta"):
        model = task.build()
    best, others = read_best(folder, config.as_dict(), model, len(config.seeds))
    return Trained(folder, task, best, (others["finite"] & others["best_scores"].isfinite()).tolist())


def read_checkpoint(path: Path) -> Checkpoint:
    """Read one file; ValueError where it is damaged."""
    safetensors = import_safetensors()
    os.close(open_regular(path))  # refuses a FIFO, on which safetensors would block
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{path} is not a checkpoint of this version")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error})") from None
    if not metadata.keys() >= {*TEXTS, "sha256"} or metadata["sha256"] != _checksum(tensors, metadata):
        raise ValueError(f"{path} is damaged (its checksum does not fit)")
    progress, config = (parse_json(metadata[name], f"the {name} in {path}") for name in ("progress", "config"))
    return Checkpoint(tensors, progress, config)


def _newest(
    folder: RunFolder, check_fit: Callable[[Checkpoint], None], put_aside: bool = False
) -> tuple[Path, Checkpoint] | None:
    """The newest checkpoint that is intact and fits, with its path, or None. A warning names each one that is not."""
    for path in (folder.checkpoint, folder.previous_checkpoint):
        if os.path.lexists(path):
            try:
                return path, _read_fitting(path, check_fit)
            except ValueError as error:
                log.warning("%s; the checkpoint before it is used if there is one", error)
                if put_aside:
                    os.replace(path, path.with_name(f"{path.name}.damaged"))
    return None


def _read_fitting(path: Path, check_fit: Callable[[Checkpoint], None]) -> Checkpoint:
    found = read_checkpoint(path)
    try:
        check_fit(found)
    except ValueError as error:
        raise ValueError(f"{path} is of another run ({error})") from None
    return found


def _check_same(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse tensors that are not the expected ones, both given as shapes or kinds by name."""
    for name in sorted(wanted.keys() | given.keys()):
        if wanted.get(name) != given.get(name):
            raise ValueError(f"{name[:80]} is {given.get(name)}, expected {wanted.get(name)}")


def _check_config(found: Checkpoint, config: Mapping[str, Any]) -> None:
    changes = list(differences(found.config, json.loads(json.dumps(config))))
    if changes:
        raise ValueError("; ".join(changes))


def _checksum(tensors: State, texts: Mapping[str, str]) -> str:
    """The SHA-256 of all that a checkpoint holds."""
    return hashlib.sha256("\n".join([*(texts[name] for name in TEXTS), digest(tensors)]).encode()).hexdigest()


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
