"""Checkpoints: tensors in a safetensors file, with a checksum; the one before is kept. Nothing is ever unpickled."""

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from relational_transformer.files import write_atomically
from relational_transformer.fleet.over_seeds import Parameters

from .run_folder import RunFolder
from .task import Task

log = logging.getLogger(__name__)

State = dict[str, Tensor]


def save_checkpoint(folder: RunFolder, state: State, progress: dict[str, Any]) -> None:
    """Write tensors by name and `progress` (JSON), keeping the checkpoint before as `checkpoint.previous`."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    metadata = {"progress": json.dumps(progress), "sha256": _digest(tensors)}

    def write(path: Path) -> None:
        try:
            save_file(tensors, path, metadata=metadata)
        except SafetensorError as error:  # how the library reports a full disk
            raise OSError(None, str(error)) from error

    def keep_previous() -> None:
        if folder.checkpoint.exists():
            os.replace(folder.checkpoint, folder.previous_checkpoint)

    write_atomically(folder.checkpoint, write, before_replacing=keep_previous)


def load_checkpoint(folder: RunFolder, put_aside: bool = False) -> tuple[State, dict[str, Any]] | None:
    """The newest checkpoint that is whole, or None. A damaged one is said so.

    Who is going to write checkpoints must put it aside (as `*.damaged`), or it might take the place of a good one.
    """
    for path in (folder.checkpoint, folder.previous_checkpoint):
        if path.exists():
            try:
                return read_checkpoint(path)
            except ValueError as error:
                log.warning("%s; the one before is used if there is one", error)
                if put_aside:
                    os.replace(path, path.with_name(f"{path.name}.damaged"))
    return None


class Trained(NamedTuple):
    """A run that was trained, read from its newest checkpoint.

    Attributes:
        best: the best parameters of its seeds, [S, *shape] by name.
        good: which seeds did not fail.
    """

    folder: RunFolder
    config: Any
    best: Parameters
    good: list[bool]

    def number_of(self, seed: int | None) -> int:
        """The place of a seed among those of the run, checked to be one that did not fail; the first such seed where
        none is named."""
        seeds = self.config.seeds
        if seed is not None and seed not in seeds:
            raise ValueError(f"the run in {self.folder.path} has the seeds {list(seeds)}, not {seed}")
        number = (self.good.index(True) if any(self.good) else None) if seed is None else seeds.index(seed)
        if number is None or not self.good[number]:
            failed = "all seeds" if not any(self.good) else f"seed {seed}"
            raise ValueError(f"{failed} of the run in {self.folder.path} failed: there is no model")
        return number

    def parameters_of(self, number: int) -> Parameters:
        """Those of one seed, by name."""
        return {name: values[number] for name, values in self.best.items()}


def load_trained(kind: type[Task[Any]], run: RunFolder | Path | str) -> Trained:
    """The run of a kind of task in a folder."""
    folder = run if isinstance(run, RunFolder) else RunFolder(run)
    config = kind.read_config(folder.read_config())
    found = load_checkpoint(folder)
    if found is None:
        raise ValueError(f"{folder.path} has no checkpoint that can be read")
    tensors, prefix = kind.renamed(found[0]), "best."
    best = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return Trained(folder, config, best, (tensors["finite"] & tensors["best_scores"].isfinite()).tolist())


def read_checkpoint(path: Path) -> tuple[State, dict[str, Any]]:
    """Tensors and progress of one file; ValueError where it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error})") from None
    if metadata.get("sha256") != _digest(tensors):
        raise ValueError(f"{path} is damaged (its checksum does not fit)")
    return tensors, json.loads(metadata["progress"])


def _digest(tensors: State) -> str:
    sha = hashlib.sha256()
    for name in sorted(tensors):
        sha.update(f"{name} {tensors[name].dtype} {list(tensors[name].shape)}\n".encode())
        sha.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()
