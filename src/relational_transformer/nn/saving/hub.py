"""Folders of saved models, to and from the Hugging Face Hub."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

CARD = "README.md"


def upload(folder: Path, repository: str, *, card: str, private: bool | None, token: str | None, message: str) -> str:
    """Upload the files of `folder` to a model repository of the Hub, which is created if needed. Returns the URL of the
    commit.

    `card` becomes its README, unless the repository has one of its own.
    """
    api = _import_hub().HfApi(token=token)
    try:
        repository = api.create_repo(repository, private=private, exist_ok=True).repo_id
        if not api.file_exists(repository, CARD):
            (folder / CARD).write_text(card)
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    except (OSError, ValueError) as error:  # the errors of the Hub's client derive from these
        raise ValueError(f"the Hub refused {repository!r}: {_one_line(error)}") from error
    return commit.commit_url


def download(repository: str, files: Sequence[str], *, revision: str | None, token: str | None) -> Path:
    """The folder in the Hub's cache that holds `files` of a model repository, downloaded if needed."""
    try:
        hub = _import_hub()
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"there is no folder {repository!r}, and {error}", name=error.name) from None
    try:
        return Path(hub.snapshot_download(repository, revision=revision, token=token, allow_patterns=list(files)))
    except (OSError, ValueError) as error:
        reason = _one_line(error)
        raise ValueError(f"there is no folder {repository!r}, and no such model on the Hub: {reason}") from error


def model_card(repository: str, class_name: str, module: str, num_parameters: int) -> str:
    """The model card of a repository that has none: what the model is, and how to load it.

    >>> print(model_card("you/bonds", "RelationalTransformer", "relational_transformer", 1234).split("---")[2].strip())
    # bonds
    <BLANKLINE>
    A `RelationalTransformer` of 1,234 parameters
    ([Relational Attention](https://arxiv.org/abs/2210.05062), Diao & Loynd, ICLR 2023).
    <BLANKLINE>
    ```python
    from relational_transformer import RelationalTransformer
    <BLANKLINE>
    model = RelationalTransformer.from_pretrained("you/bonds")
    ```
    """
    return f"""---
library_name: relational-attention
tags:
- graph-ml
- relational-transformer
---
# {repository.rpartition("/")[2]}

A `{class_name}` of {num_parameters:,} parameters
([Relational Attention](https://arxiv.org/abs/2210.05062), Diao & Loynd, ICLR 2023).

```python
from {module} import {class_name}

model = {class_name}.from_pretrained("{repository}")
```
"""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _import_hub() -> ModuleType:
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        message = "models of the Hub need huggingface_hub: pip install '.[hub]' in a checkout"
        raise ModuleNotFoundError(message, name="huggingface_hub") from None
    return huggingface_hub
