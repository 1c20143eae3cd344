"""Writes a model as a folder, here or on the Hugging Face Hub: weights in safetensors, the constructor's arguments in
JSON; and reads it.

Nothing is ever unpickled.
"""

import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from relational_transformer.files import write_atomically
from relational_transformer.reading import UnreadableFile, read_json

from ..checks import FLOATS, check_place, shown
from . import hub
from .arguments import as_json, from_json, saved_parameters
from .digest import digest, import_safetensors
from .outline import TooLarge, at_most, misfit, outline, shared_names

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
MOST_CONFIG_BYTES = 2**20

Model = TypeVar("Model", bound=nn.Module)

SavedConfig = TypedDict("SavedConfig", {"class": str, "arguments": dict[str, Any]})
"""The content of `config.json`."""


def save(model: nn.Module, folder: Path | str) -> None:
    """`Pretrained.save_pretrained`."""
    safetensors = import_safetensors()
    folder = _path("folder", folder)
    empty = [name for name, parameter in model.named_parameters() if nn.parameter.is_lazy(parameter)]
    if empty:
        told = f"{type(model).__name__} has no {empty[0]} yet, whose size its first input says"
        raise ValueError(f"{told}: call it once before it is saved")
    shared = shared_names(model)
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in model.state_dict().items()
        if name not in shared
    }
    config = {"class": type(model).__name__, "arguments": as_json(model)}
    text = json.dumps(config, indent=2, allow_nan=False)
    metadata = {"format": "pt", "sha256": digest(tensors), "config_sha256": _config_digest(json.loads(text))}

    folder.mkdir(parents=True, exist_ok=True)
    # Not `save_file`: it has a temporary file of its own, which a kill would leave behind.
    write_atomically(folder / WEIGHTS, lambda path: path.write_bytes(safetensors.torch.save(tensors, metadata)))
    write_atomically(folder / CONFIG, lambda path: path.write_text(text + "\n"))


def load(
    kind: type[Model],
    folder_or_name: Path | str,
    *,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
    revision: str | None,
    token: str | None,
    overrides: Mapping[str, Any],
) -> Model:
    """`Pretrained.from_pretrained`, for a class."""
    safetensors = import_safetensors()
    folder = _path("folder_or_name", folder_or_name)
    for name, value in {"revision": revision, "token": token}.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} must be a string or None, got {type(value).__name__}")
    check_place(device, dtype)
    strangers = sorted(overrides.keys() - saved_parameters(kind).keys())
    if strangers:
        raise ValueError(f"{kind.__name__} takes no {strangers[0]}, which was given to from_pretrained")
    if isinstance(folder_or_name, str) and _could_be_on_the_hub(folder_or_name) and not folder.is_dir():
        folder = hub.download(folder_or_name, (CONFIG, WEIGHTS), revision=revision, token=token)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not a saved model: it has no {name}")
    config = _read_config(kind, folder / CONFIG)
    weights = folder / WEIGHTS
    try:
        with safetensors.safe_open(weights, "pt") as file:
            metadata = file.metadata() or {}
            names = list(file.keys())
            shapes = {name: file.get_slice(name).get_shape() for name in names}
            module = _build(kind, folder, config, shapes, overrides)
            tensors = {name: file.get_tensor(name) for name in names}
    except safetensors.SafetensorError as error:
        raise ValueError(f"{weights} is damaged ({error})") from None
    if not metadata.keys() >= {"sha256", "config_sha256"}:
        raise ValueError(
            f"{weights} has no checksum of its weights and its configuration: load its tensors with safetensors into a "
            f"{kind.__name__}, and save that with save_pretrained"
        )
    if metadata["sha256"] != digest(tensors):
        raise ValueError(f"{weights} is damaged (its checksum does not fit): get the model again")
    if metadata["config_sha256"] != _config_digest(config):
        raise ValueError(
            f"{folder / CONFIG} is not the configuration that {weights} was saved with: get the model again"
        )
    _check_dtypes(weights, tensors, module)
    shared = shared_names(module)
    module.load_state_dict(tensors | {name: tensors[first] for name, first in shared.items()}, assign=True)
    _share(module, shared)
    return module.to(device=device, dtype=dtype).eval()


def push(model: Any, name: str, *, private: bool | None, token: str | None, message: str) -> str:
    """`Pretrained.push_to_hub`."""
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    card = hub.model_card(name, type(model).__name__, _home_of(type(model)), num_parameters)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return hub.upload(Path(folder), name, card=card, private=private, token=token, message=message)


def _read_config(kind: type, path: Path) -> SavedConfig:
    try:
        config: SavedConfig = read_json(path, SavedConfig, MOST_CONFIG_BYTES)
    except UnreadableFile as error:
        raise UnreadableFile(f"{error}: it is not the configuration of a saved model") from None
    name = config["class"]
    if name != kind.__name__:
        raise ValueError(
            f"{path.parent} holds a {_word(name)}, not a {kind.__name__}: use {_word(name)}.from_pretrained"
        )
    unknown = sorted(set(config["arguments"]) - saved_parameters(kind).keys())
    if unknown:
        raise ValueError(f"{path} has arguments that {name} does not take: {', '.join(map(_word, unknown))[:200]}")
    return config


def _build(
    kind: type[Model], folder: Path, config: SavedConfig, shapes: dict[str, list[int]], overrides: Mapping[str, Any]
) -> Model:
    """Build the module after checking that its outline has tensors of these shapes, so that no memory is allocated
    for a wrong one."""
    changes = "".join(f" with {name}={shown(value)}" for name, value in overrides.items())
    wrong = f"{folder / WEIGHTS} does not fit {folder / CONFIG}{changes}"
    saved_numbers = sum(math.prod(shape) for shape in shapes.values())
    try:
        arguments = from_json(kind, config["arguments"]) | dict(overrides)
        # Weights that are shared are registered more than once, and a module may make some that it then replaces.
        most_tensors = 10 * len(shapes) + 1000
        with at_most(most_tensors):
            drawn = outline(lambda: kind(**arguments))
        reason = None if drawn is None else misfit(drawn, shapes)
        with at_most(most_tensors, 10 * saved_numbers + 100_000):
            module = None if reason else kind(**arguments)
    except TooLarge as error:
        raise ValueError(f"{wrong}: {error}, and {len(shapes)} tensors of {saved_numbers} are saved") from None
    except (TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        words = _word(str(error), 300)
        raise ValueError(f"{folder / CONFIG}{changes} does not fit {kind.__name__}: {words}") from None
    reason = misfit(module, shapes) if module is not None else reason
    if module is None or reason is not None:
        raise ValueError(f"{wrong}: {reason}")
    return module


def _share(module: nn.Module, shared: dict[str, str]) -> None:
    """Share the tensors that were loaded under several names."""
    state = module.state_dict(keep_vars=True)
    for name, first in shared.items():
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, state[first])


def _check_dtypes(path: Path, tensors: dict[str, Tensor], module: nn.Module) -> None:
    """Weights may have any floating-point dtype; all other tensors must have the dtype that they have in the module."""
    for name, expected in module.state_dict(keep_vars=True).items():
        if name in tensors:
            allowed = FLOATS if expected.is_floating_point() else (expected.dtype,)
            if tensors[name].dtype not in allowed:
                wanted = " or ".join(map(str, allowed))
                raise ValueError(f"{path} is not what it should be ({name} is {tensors[name].dtype}, not {wanted})")


def _config_digest(config: SavedConfig | dict[str, Any]) -> str:
    """A checksum that does not depend on spaces and the order of keys."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _word(text: str, most: int = 80) -> str:
    """A name from a file, in one line, of printable characters and cut to a maximal length."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))[:most]


def _path(name: str, path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise ValueError(f"{name} must be a string or a path, got {shown(path)}")
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise ValueError(f"{name} must be the name of a folder, got {shown(path)}")
    return Path(path)


def _home_of(cls: type) -> str:
    """The shortest name to import `cls` from: the first package above its module that has it."""
    parts = cls.__module__.split(".")
    packages = (".".join(parts[:count]) for count in range(1, len(parts)))
    having = (name for name in packages if getattr(sys.modules.get(name), cls.__name__, None) is cls)
    return next(having, cls.__module__)


def _could_be_on_the_hub(name: str) -> bool:
    """`user/name`: one slash, between two names."""
    return all(name.split("/")) and name.count("/") == 1 and not name.startswith((".", "~"))
