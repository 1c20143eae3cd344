"""Models as folders, here or on the Hugging Face Hub: weights in safetensors, the constructor's arguments in JSON.

Nothing is ever unpickled.
"""

import inspect
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Self

import torch
from torch import nn

from relational_transformer.files import write_atomically

from . import hub

CONFIG = "config.json"
WEIGHTS = "model.safetensors"


class Pretrained(nn.Module):
    """A module that can be saved to a folder and made again from it.

    A subclass keeps every argument of its constructor as an attribute of the same name. The folder has the names and
    formats of the Hugging Face Hub, `config.json` and `model.safetensors`, and can be there as well:
    `push_to_hub("user/name")`, `from_pretrained("user/name")`.

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
        """Write `config.json` and `model.safetensors` into `folder`, which is made if it is not there."""
        safetensors = _import_safetensors()
        folder = Path(folder)
        repeated = _repeated(self)
        tensors = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.state_dict().items()
            if name not in repeated
        }
        config = json.dumps({"class": type(self).__name__, "arguments": self._constructor_arguments()}, indent=2)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(
            folder / WEIGHTS, lambda path: safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
        )
        write_atomically(folder / CONFIG, lambda path: path.write_text(config + "\n"))

    @classmethod
    def from_pretrained(
        cls, folder_or_name: Path | str, *, revision: str | None = None, token: str | None = None
    ) -> Self:
        """The module that was saved: on the CPU, in the dtypes it was saved in, in evaluation mode.

        Args:
            folder_or_name: a folder, or, where there is no such folder, the name of a model on the Hugging Face Hub,
                `"user/name"` (extra `hub`).
            revision: a branch, tag or commit of the model on the Hub; the newest if not given.
            token: for a private model; by default what `hf auth login` keeps.
        """
        safetensors = _import_safetensors()
        folder = Path(folder_or_name)
        if isinstance(folder_or_name, str) and _could_be_on_the_hub(folder_or_name) and not folder.is_dir():
            folder = hub.download(folder_or_name, (CONFIG, WEIGHTS), revision=revision, token=token)
        module = cls._from_config(folder / CONFIG)
        if not (folder / WEIGHTS).is_file():
            raise ValueError(f"{folder} is no saved model: it has no {WEIGHTS}")
        try:
            tensors = safetensors.torch.load_file(folder / WEIGHTS)
        except safetensors.SafetensorError as error:
            raise ValueError(f"{folder / WEIGHTS} is damaged ({error})") from None
        repeated = _repeated(module)
        tensors |= {name: tensors[first] for name, first in repeated.items() if first in tensors}
        try:
            module.load_state_dict(tensors, assign=True)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{folder / WEIGHTS} does not fit {folder / CONFIG}: {reason}") from None
        _repeat(module, repeated)
        return module.eval()

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Save the model",
    ) -> str:
        """Save the module on the Hugging Face Hub as `"user/name"`; returns the address of the commit. Extra `hub`.

        The repository is made if it is not there (`private` or not), and gets a model card if it has none. Whoever may
        read it loads the model by `from_pretrained("user/name")`.
        """
        num_parameters = sum(parameter.numel() for parameter in self.parameters())
        card = hub.model_card(name, type(self).__name__, _home_of(type(self)), num_parameters)
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.upload(Path(folder), name, card=card, private=private, token=token, message=commit_message)

    @classmethod
    def _from_config(cls, path: Path) -> Self:
        if not path.is_file():
            raise ValueError(f"{path.parent} is no saved model: it has no {CONFIG}")
        try:
            config = json.loads(path.read_text())
            name, arguments = config["class"], config["arguments"]
            unknown = sorted(set(arguments) - set(_constructor_names(cls)))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not the configuration of a saved model ({error!r})") from None
        if name != cls.__name__:
            raise ValueError(f"{path.parent} holds a {name}, not a {cls.__name__}: use {name}.from_pretrained")
        if unknown:
            raise ValueError(f"{path} has arguments that {name} does not take: {', '.join(unknown)}")
        try:  # JSON knows lists alone.
            return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()})
        except TypeError as error:
            raise ValueError(f"{path} does not fit {name}: {error}") from None

    def _constructor_arguments(self) -> dict[str, Any]:
        names = _constructor_names(type(self))
        kinds = {parameter.kind for parameter in inspect.signature(type(self)).parameters.values()}
        if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise TypeError(f"to be saved, {type(self).__name__} must name all arguments it takes, without * and **")
        lost = [name for name in names if not hasattr(self, name)]
        if lost:
            raise TypeError(
                f"to be saved, {type(self).__name__} must keep as attributes its arguments {', '.join(lost)}"
            )
        return {name: getattr(self, name) for name in names}


def _constructor_names(cls: type) -> list[str]:
    return list(inspect.signature(cls).parameters)


def _repeated(module: nn.Module) -> dict[str, str]:
    """Names in the state of tensors that have another name there before, and that name: weights that are shared."""
    first: dict[int, str] = {}
    return {
        name: first[id(tensor)]
        for name, tensor in module.state_dict(keep_vars=True).items()
        if first.setdefault(id(tensor), name) != name
    }


def _repeat(module: nn.Module, repeated: dict[str, str]) -> None:
    """Make one of what is loaded under several names."""
    state = module.state_dict(keep_vars=True)
    for name, first in repeated.items():
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, state[first])


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
        message = "saved models need safetensors: pip install '.[train]' in a checkout"
        raise ModuleNotFoundError(message, name="safetensors") from None
    return safetensors
