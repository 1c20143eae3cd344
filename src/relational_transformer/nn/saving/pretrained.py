"""Models as folders, here or on the Hugging Face Hub: weights in safetensors, the constructor's arguments in JSON.

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
from types import ModuleType
from typing import Any, Self, TypedDict

import torch
from torch import Tensor, nn

from relational_transformer.files import write_atomically
from relational_transformer.reading import UnreadableFile, read_json

from ..checks import FLOATS, check_place, shown
from . import hub
from .arguments import as_json, from_json, saved_parameters
from .digest import digest
from .outline import TooLarge, at_most, misfit, outline, shared_names

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
MOST_CONFIG_BYTES = 2**20

SavedConfig = TypedDict("SavedConfig", {"class": str, "arguments": dict[str, Any]})
"""The content of `config.json`."""


class Pretrained(nn.Module):
    """A module that can be saved to a folder and loaded from it.

    A subclass keeps every argument of its constructor as an attribute of the same name, but for `device` and `dtype`.
    An argument is what JSON can hold, or a dataclass of it. The folder has the file names and formats of the Hugging
    Face Hub, `config.json` and `model.safetensors`, and may be on the Hub: `push_to_hub("user/name")`,
    `from_pretrained("user/name")`. The file of weights has a checksum of weights and configuration. Both are loaded
    only if it matches.

    >>> from tempfile import TemporaryDirectory
    >>> from relational_transformer import RelationalTransformerLayer
    >>> layer = RelationalTransformerLayer(node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8)
    >>> with TemporaryDirectory() as folder:
    ...     layer.save_pretrained(folder)
    ...     again = RelationalTransformerLayer.from_pretrained(folder)
    >>> torch.equal(layer.node_output.weight, again.node_output.weight)
    True
    """

    def save_pretrained(self, folder: Path | str) -> None:
        """Write `config.json` and `model.safetensors` into `folder`, which is created if needed."""
        safetensors = _import_safetensors()
        folder = _path("folder", folder)
        empty = [name for name, parameter in self.named_parameters() if nn.parameter.is_lazy(parameter)]
        if empty:
            told = f"{type(self).__name__} has no {empty[0]} yet, whose size its first input says"
            raise ValueError(f"{told}: call it once before it is saved")
        shared = shared_names(self)
        tensors = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.state_dict().items()
            if name not in shared
        }
        config = {"class": type(self).__name__, "arguments": as_json(self)}
        text = json.dumps(config, indent=2, allow_nan=False)
        metadata = {"format": "pt", "sha256": digest(tensors), "config_sha256": _config_digest(json.loads(text))}

        folder.mkdir(parents=True, exist_ok=True)
        # Not `save_file`: it has a temporary file of its own, which a kill would leave behind.
        write_atomically(folder / WEIGHTS, lambda path: path.write_bytes(safetensors.torch.save(tensors, metadata)))
        write_atomically(folder / CONFIG, lambda path: path.write_text(text + "\n"))

    @classmethod
    def from_pretrained(
        cls,
        folder_or_name: Path | str,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        revision: str | None = None,
        token: str | None = None,
        **overrides: Any,
    ) -> Self:
        """Load a saved module, in evaluation mode.

        Args:
            folder_or_name: a folder, or, if there is no such folder, the name of a model on the Hugging Face Hub,
                `"user/name"` (extra `hub`).
            device: the device to load it on; by default the CPU.
            dtype: of all its floating-point tensors; by default as they were saved.
            revision: a branch, tag or commit of the model on the Hub; by default the newest.
            token: for a private model; by default the one of `hf auth login`.
            overrides: arguments of the constructor in place of those that were saved, such as `dropout=0.1`; the saved
                weights must fit them.
        """
        safetensors = _import_safetensors()
        folder = _path("folder_or_name", folder_or_name)
        for name, value in {"revision": revision, "token": token}.items():
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name} must be a string or None, got {type(value).__name__}")
        check_place(device, dtype)
        strangers = sorted(overrides.keys() - saved_parameters(cls).keys())
        if strangers:
            raise ValueError(f"{cls.__name__} takes no {strangers[0]}, which was given to from_pretrained")
        if isinstance(folder_or_name, str) and _could_be_on_the_hub(folder_or_name) and not folder.is_dir():
            folder = hub.download(folder_or_name, (CONFIG, WEIGHTS), revision=revision, token=token)
        for name in (CONFIG, WEIGHTS):
            if not (folder / name).is_file():
                raise ValueError(f"{folder} is not a saved model: it has no {name}")
        config = cls._read_config(folder / CONFIG)
        weights = folder / WEIGHTS
        try:
            with safetensors.safe_open(weights, "pt") as file:
                metadata = file.metadata() or {}
                names = list(file.keys())
                shapes = {name: file.get_slice(name).get_shape() for name in names}
                module = cls._from_config(folder, config, shapes, overrides)
                tensors = {name: file.get_tensor(name) for name in names}
        except safetensors.SafetensorError as error:
            raise ValueError(f"{weights} is damaged ({error})") from None
        if metadata.get("sha256", digest(tensors)) != digest(tensors):  # older files have no checksum
            raise ValueError(f"{weights} is damaged (its checksum does not fit): get the model again")
        if metadata.get("config_sha256", _config_digest(config)) != _config_digest(config):
            raise ValueError(
                f"{folder / CONFIG} is not the configuration that {weights} was saved with: get the model again"
            )
        _check_dtypes(weights, tensors, module)
        shared = shared_names(module)
        module.load_state_dict(tensors | {name: tensors[first] for name, first in shared.items()}, assign=True)
        _share(module, shared)
        return module.to(device=device, dtype=dtype).eval()

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Save the model",
    ) -> str:
        """Save the module on the Hugging Face Hub as `"user/name"`. Returns the URL of the commit. Needs the extra
        `hub`.

        The repository is created if needed (`private` or not), and gets a model card if it has none. Everyone who may
        read it can load the model by `from_pretrained("user/name")`.
        """
        num_parameters = sum(parameter.numel() for parameter in self.parameters())
        card = hub.model_card(name, type(self).__name__, _home_of(type(self)), num_parameters)
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.upload(Path(folder), name, card=card, private=private, token=token, message=commit_message)

    @classmethod
    def _read_config(cls, path: Path) -> SavedConfig:
        try:
            config: SavedConfig = read_json(path, SavedConfig, MOST_CONFIG_BYTES)
        except UnreadableFile as error:
            raise UnreadableFile(f"{error}: it is not the configuration of a saved model") from None
        name = config["class"]
        if name != cls.__name__:
            raise ValueError(
                f"{path.parent} holds a {_word(name)}, not a {cls.__name__}: use {_word(name)}.from_pretrained"
            )
        unknown = sorted(set(config["arguments"]) - saved_parameters(cls).keys())
        if unknown:
            raise ValueError(f"{path} has arguments that {name} does not take: {', '.join(map(_word, unknown))[:200]}")
        return config

    @classmethod
    def _from_config(
        cls, folder: Path, config: SavedConfig, shapes: dict[str, list[int]], overrides: Mapping[str, Any]
    ) -> Self:
        """Build the module after checking that its outline has tensors of these shapes, so that no memory is allocated
        for a wrong one."""
        changes = "".join(f" with {name}={shown(value)}" for name, value in overrides.items())
        wrong = f"{folder / WEIGHTS} does not fit {folder / CONFIG}{changes}"
        saved_numbers = sum(math.prod(shape) for shape in shapes.values())
        try:
            arguments = from_json(cls, config["arguments"]) | dict(overrides)
            # Weights that are shared are registered more than once, and a module may make some that it then replaces.
            most_tensors = 10 * len(shapes) + 1000
            with at_most(most_tensors):
                drawn = outline(lambda: cls(**arguments))
            reason = None if drawn is None else misfit(drawn, shapes)
            with at_most(most_tensors, 10 * saved_numbers + 100_000):
                module = None if reason else cls(**arguments)
        except TooLarge as error:
            raise ValueError(f"{wrong}: {error}, and {len(shapes)} tensors of {saved_numbers} are saved") from None
        except (TypeError, ValueError, RuntimeError, ArithmeticError) as error:
            words = _word(str(error), 300)
            raise ValueError(f"{folder / CONFIG}{changes} does not fit {cls.__name__}: {words}") from None
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


def _import_safetensors() -> ModuleType:
    try:
        import safetensors.torch
    except ModuleNotFoundError:
        message = "saved models need safetensors: pip install '.[saving]' in a checkout"
        raise ModuleNotFoundError(message, name="safetensors") from None
    return safetensors
