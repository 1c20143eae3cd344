"""Models that can be saved, loaded and shared."""

from pathlib import Path
from typing import Any, Self

import torch
from torch import nn


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
        from . import folders  # here, as below: most programs save no model

        folders.save(self, folder)

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
        from . import folders

        options: dict[str, Any] = {"device": device, "dtype": dtype, "revision": revision, "token": token}
        return folders.load(cls, folder_or_name, **options, overrides=overrides)

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
        from . import folders

        return folders.push(self, name, private=private, token=token, message=commit_message)
