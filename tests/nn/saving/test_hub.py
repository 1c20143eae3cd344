"""Models go to the Hugging Face Hub and come back: tested against a hub of one folder, without any network."""

import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from relational_transformer import RelationalTransformer, RelationalTransformerLayer
from relational_transformer.nn import Pretrained
from relational_transformer.pyg import RelationalTransformerConv
from tests.nn.graphs import make_layer

pytest.importorskip("safetensors")
huggingface_hub = pytest.importorskip("huggingface_hub")


class FolderHub:
    """As much of `huggingface_hub` as is used, on a folder; it notes what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.created: dict[str, Any] = {}
        self.token: str | None = None

    def api(self, token: str | None) -> "FolderHub":
        self.token = token
        return self

    def create_repo(self, repo_id: str, private: bool | None, exist_ok: bool) -> SimpleNamespace:
        assert exist_ok
        self.created = {"repo_id": repo_id, "private": private}
        (self.folder / repo_id).mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(repo_id=repo_id)

    def file_exists(self, repo_id: str, filename: str) -> bool:
        return (self.folder / repo_id / filename).is_file()

    def upload_folder(self, repo_id: str, folder_path: Path, commit_message: str) -> SimpleNamespace:
        shutil.copytree(folder_path, self.folder / repo_id, dirs_exist_ok=True)
        return SimpleNamespace(commit_url=f"https://hub/{repo_id}/commit/1", message=commit_message)

    def snapshot_download(
        self, repo_id: str, revision: str | None, token: str | None, allow_patterns: list[str]
    ) -> str:
        if not (self.folder / repo_id).is_dir():
            raise huggingface_hub.errors.LocalEntryNotFoundError("cannot be found\nanywhere")
        snapshot = self.folder / "cache" / (revision or "main") / repo_id
        snapshot.mkdir(parents=True)
        for name in allow_patterns:
            shutil.copy(self.folder / repo_id / name, snapshot)
        return str(snapshot)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    hub = FolderHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", hub.api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    return hub


def test_the_real_hub_takes_the_same_arguments():
    """What `FolderHub` stands for, in the version that is installed."""
    pairs = (
        (FolderHub.create_repo, huggingface_hub.HfApi.create_repo),
        (FolderHub.file_exists, huggingface_hub.HfApi.file_exists),
        (FolderHub.upload_folder, huggingface_hub.HfApi.upload_folder),
        (FolderHub.snapshot_download, huggingface_hub.snapshot_download),
    )
    for ours, theirs in pairs:
        assert set(inspect.signature(ours).parameters) - {"self"} <= set(inspect.signature(theirs).parameters)


def test_a_model_comes_back_as_it_went(hub: FolderHub):
    layer = make_layer()
    address = layer.push_to_hub("you/layer", private=True, token="secret")
    assert address == "https://hub/you/layer/commit/1"
    assert (hub.created, hub.token) == ({"repo_id": "you/layer", "private": True}, "secret")
    again = RelationalTransformerLayer.from_pretrained("you/layer")
    assert again.state_dict().keys() == layer.state_dict().keys()
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in layer.state_dict().items())
    assert not again.training


def test_another_revision_is_asked_for_by_name(hub: FolderHub):
    make_layer().push_to_hub("you/layer")
    RelationalTransformerLayer.from_pretrained("you/layer", revision="v1")
    assert (hub.folder / "cache" / "v1" / "you" / "layer" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (make_layer(), "from relational_transformer import RelationalTransformerLayer"),
        (RelationalTransformerConv(4, 8), "from relational_transformer.pyg import RelationalTransformerConv"),
    ],
    ids=["layer", "conv"],
)
def test_the_card_says_how_to_load_it(hub: FolderHub, model: Pretrained, line: str):
    model.push_to_hub("you/mine")
    card = (hub.folder / "you" / "mine" / "README.md").read_text()
    assert line in card
    assert f'{type(model).__name__}.from_pretrained("you/mine")' in card
    assert f"of {sum(parameter.numel() for parameter in model.parameters()):,} parameters" in card
    assert card.startswith("---\nlibrary_name: relational-attention\n")


def test_a_card_that_is_there_stays(hub: FolderHub):
    make_layer().push_to_hub("you/layer")
    card = hub.folder / "you" / "layer" / "README.md"
    card.write_text("My own words.")
    make_layer().push_to_hub("you/layer")
    assert card.read_text() == "My own words."


def test_a_folder_goes_before_the_hub(hub: FolderHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    make_layer().push_to_hub("you/layer")
    make_layer(node_size=9).save_pretrained("you/layer")
    assert RelationalTransformerLayer.from_pretrained("you/layer").node_size == 9


class TestMistakesAreToldInOneSentence:
    def test_a_name_that_is_nowhere(self, hub: FolderHub):
        message = "there is no folder 'you/nothing', and no such model on the Hub: cannot be found anywhere"
        with pytest.raises(ValueError, match=message):
            RelationalTransformer.from_pretrained("you/nothing")

    @pytest.mark.parametrize("folder", ["nothing", "./nothing", "a/b/c", "/you/nothing", Path("you/nothing")])
    def test_what_can_only_be_a_folder_is_not_looked_for_on_the_hub(self, hub: FolderHub, folder: Path | str):
        with pytest.raises(ValueError, match=r"is not a saved model: it has no config\.json"):
            RelationalTransformer.from_pretrained(folder)

    def test_a_name_the_hub_refuses(self, hub: FolderHub, monkeypatch: pytest.MonkeyPatch):
        def refuse(*_: object, **__: object) -> None:
            raise huggingface_hub.errors.HFValidationError("no such\nuser")

        monkeypatch.setattr(hub, "create_repo", refuse)
        with pytest.raises(ValueError, match="the Hub refused 'you/layer': no such user"):
            make_layer().push_to_hub("you/layer")

    def test_huggingface_hub_is_missing(self):
        program = """
import sys
sys.modules["huggingface_hub"] = None
from relational_transformer import RelationalTransformerLayer as Layer
layer = Layer(node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8)
for call in (lambda: Layer.from_pretrained("you/layer"), lambda: layer.push_to_hub("you/layer")):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
"""
        finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        message = "models of the Hub need huggingface_hub: pip install '.[hub]' in a checkout"
        assert finished.stdout.splitlines() == [f"there is no folder 'you/layer', and {message}", message]
