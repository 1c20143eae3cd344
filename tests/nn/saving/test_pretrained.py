import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from relational_transformer import LayerOptions, RelationalTransformer, RelationalTransformerLayer
from relational_transformer.nn import Pretrained
from relational_transformer.nn.saving.digest import digest
from relational_transformer.pyg import RelationalTransformerConv
from tests.nn.graphs import SIZES, make_graph, make_layer, make_stack, randomise

pytest.importorskip("safetensors")

SAVED = (RelationalTransformer, RelationalTransformerLayer, RelationalTransformerConv)


def assert_same(again: torch.nn.Module, before: torch.nn.Module, *inputs: torch.Tensor) -> None:
    """The same parameters to the bit, and the same outputs but for rounding: some processors add in another order where
    a tensor lies elsewhere in memory."""
    states = again.state_dict(), before.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    for got, expected in zip(again(*inputs), before.eval()(*inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


class TestRoundTrip:
    @pytest.mark.parametrize("changes", [{}, {"update_edges": False}, {"dropout": 0.5}])
    def test_layer(self, tmp_path: Path, changes: dict):
        layer, graph = make_layer(**changes), make_graph(2)
        layer.save_pretrained(tmp_path)
        assert_same(RelationalTransformerLayer.from_pretrained(tmp_path), layer, *graph)

    @pytest.mark.parametrize("global_mode", ["cat", "core", "att"])
    def test_transformer(self, tmp_path: Path, global_mode: str):
        model = RelationalTransformer(4, 3, 2, **SIZES, edge_hidden_sizes=(4, 3), num_layers=2, global_mode=global_mode)
        randomise(model)
        inputs = torch.randn(3, 4), torch.randn(3, 3, 3), torch.randn(2)
        model.save_pretrained(tmp_path / "new" / "folder")
        assert_same(RelationalTransformer.from_pretrained(str(tmp_path / "new" / "folder")), model, *inputs)

    @pytest.mark.parametrize("mode", ["sparse", "complete"])
    def test_conv_with_sizes_from_its_first_input(self, tmp_path: Path, mode: str):
        conv = RelationalTransformerConv(-1, 8, heads=2, edge_dim=-1, mode=mode)
        graph = torch.randn(3, 5), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 4)
        conv(*graph)
        conv.save_pretrained(tmp_path)
        assert_same(RelationalTransformerConv.from_pretrained(tmp_path), conv, *graph)

    def test_keeps_the_dtype(self, tmp_path: Path):
        make_layer().bfloat16().save_pretrained(tmp_path)
        again = RelationalTransformerLayer.from_pretrained(tmp_path)
        assert {parameter.dtype for parameter in again.parameters()} == {torch.bfloat16}

    def test_can_be_trained_further(self, tmp_path: Path):
        make_layer(dropout=0.5).save_pretrained(tmp_path)
        again = RelationalTransformerLayer.from_pretrained(tmp_path)
        assert not again.training
        assert all(parameter.requires_grad for parameter in again.parameters())

    def test_saving_again_replaces_what_was_there(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        layer = make_layer(node_size=9)
        layer.save_pretrained(tmp_path)
        assert RelationalTransformerLayer.from_pretrained(tmp_path).node_size == 9
        assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("cls", SAVED, ids=lambda cls: cls.__name__)
def test_every_argument_of_a_constructor_is_kept(cls: type[Pretrained], tmp_path: Path):
    """Saved with values that differ from every default, so that an argument that is lost shows."""
    needed = {
        "node_input_size": 4, "edge_input_size": 3, "node_size": 6, "edge_size": 5, "num_heads": 2, "head_size": 3,
        "node_hidden_size": 7, "in_channels": 4, "out_channels": 6,
    }  # fmt: skip
    changed = {
        "global_input_size": 2, "edge_hidden_sizes": (4, 3), "num_layers": 2, "global_mode": "att",
        "update_edges": False, "dropout": 0.25, "global_size": 2, "heads": 3, "edge_dim": 5, "edge_channels": 7,
        "head_channels": 4, "hidden_channels": 9, "edge_hidden_channels": (4, 3), "mode": "complete",
        "return_edges": False, "options": LayerOptions(norm="rms", attention_dropout=0.5),
    }  # fmt: skip
    parameters = {
        name: one for name, one in inspect.signature(cls).parameters.items() if name not in ("device", "dtype")
    }
    arguments = {name: {**needed, **changed}[name] for name in parameters}
    assert all(parameter.default != arguments[name] for name, parameter in parameters.items())
    cls(**arguments).save_pretrained(tmp_path)
    again = cls.from_pretrained(tmp_path)
    assert {name: getattr(again, name) for name in parameters} == arguments


class Classifier(Pretrained):
    """What a user may write around a layer."""

    def __init__(self, sizes: dict[str, int], classes: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.classes = classes
        self.layer = RelationalTransformerLayer(**sizes)
        self.readout = torch.nn.Linear(self.layer.node_size, classes)


class Forgetful(Pretrained):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(size, size)


def test_a_model_around_a_layer_is_saved_as_well(tmp_path: Path):
    model = Classifier(SIZES, classes=3)
    model.save_pretrained(tmp_path)
    again = Classifier.from_pretrained(tmp_path)
    assert again.sizes == SIZES
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


class Recurrent(Pretrained):
    """One layer three times, and a readout that has its weight in two places."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.layers = torch.nn.ModuleList([torch.nn.Linear(size, size)] * 3)
        self.readout, self.readin = torch.nn.Linear(size, size), torch.nn.Linear(size, size)
        self.readin.weight = self.readout.weight


class Open(Pretrained):
    def __init__(self, size: int, **options: float) -> None:
        super().__init__()
        self.size, self.options = size, options


def test_shared_weights_stay_shared(tmp_path: Path):
    model = Recurrent(3)
    model.save_pretrained(tmp_path)
    again = Recurrent.from_pretrained(tmp_path)
    assert again.readin.weight is again.readout.weight
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_the_files_are_as_readable_as_others(tmp_path: Path):
    make_layer().save_pretrained(tmp_path)
    (tmp_path / "other").touch()
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def change_config(folder: Path, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["arguments"].update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def change_weights(path: Path, change: Callable[[torch.Tensor], torch.Tensor], lost: Sequence[str] = ()) -> None:
    """Write other tensors with a checksum that fits, and without some of the metadata."""
    safetensors = pytest.importorskip("safetensors.torch")
    with safetensors.safe_open(path, "pt") as file:
        tensors, metadata = {name: change(file.get_tensor(name)) for name in file.keys()}, file.metadata()  # noqa: SIM118
    metadata["sha256"] = digest(tensors)
    safetensors.save_file(tensors, path, metadata={key: text for key, text in metadata.items() if key not in lost})


class TestWhatIsNotAsItWasSaved:
    def test_a_hole_in_the_weights(self, tmp_path: Path):
        """As a disk leaves one that was full, or switched off."""
        make_layer().save_pretrained(tmp_path)
        weights = tmp_path / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-200:-100] = bytes(100)
        weights.write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.safetensors is damaged \(its checksum does not fit\)"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    def test_a_configuration_of_the_same_sizes(self, tmp_path: Path):
        """Two heads of three or three of two: the same weights, another model."""
        make_layer(num_heads=2, head_size=3).save_pretrained(tmp_path)
        change_config(tmp_path, num_heads=3, head_size=2)
        with pytest.raises(ValueError, match=r"config\.json is not the configuration that .* was saved with"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    def test_a_configuration_with_other_spaces_is_the_same(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        change_config(tmp_path)
        RelationalTransformerLayer.from_pretrained(tmp_path)

    @pytest.mark.parametrize("lost", [["sha256"], ["config_sha256"], ["format", "sha256", "config_sha256"]])
    def test_a_checksum_is_missing(self, tmp_path: Path, lost: list[str]):
        make_layer().save_pretrained(tmp_path)
        change_weights(tmp_path / "model.safetensors", lambda tensor: tensor, lost)
        with pytest.raises(
            ValueError, match=r"model\.safetensors has no checksum of .* with save_pretrained$"
        ) as caught:
            RelationalTransformerLayer.from_pretrained(tmp_path)
        assert "\n" not in str(caught.value)

    def test_weights_of_another_type(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        change_weights(tmp_path / "model.safetensors", torch.Tensor.long)
        with pytest.raises(ValueError, match=r"model\.safetensors is not what it should be .* is torch\.int64"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    @pytest.mark.parametrize("num_layers", [9_999, 10**6, 10**30, -1, 2.0, True, "2", None, [2]])
    def test_no_memory_is_taken_for_layers_that_are_not_saved(
        self, tmp_path: Path, num_layers: object, monkeypatch: pytest.MonkeyPatch
    ):
        make_stack().save_pretrained(tmp_path)
        change_config(tmp_path, num_layers=num_layers)
        built: list[torch.device] = []
        monkeypatch.setattr(RelationalTransformerLayer, "reset_parameters", lambda layer: built.append(place_of(layer)))
        with pytest.raises(ValueError, match=r"config\.json"):
            RelationalTransformer.from_pretrained(tmp_path)
        assert {device.type for device in built} <= {"meta"}
        assert len(built) < 200

    def test_no_memory_is_taken_for_vectors_that_are_not_saved(self, tmp_path: Path):
        make_stack().save_pretrained(tmp_path)
        change_config(tmp_path, node_size=60_000, node_hidden_size=60_000)  # 14 GB a weight
        with pytest.raises(ValueError, match=r"does not fit .*config\.json: node_input\.weight has shape \[6, 4\]"):
            RelationalTransformer.from_pretrained(tmp_path)

    @pytest.mark.parametrize("kept", [0, 1, 8, 100, 0.5])
    def test_weights_that_are_cut_off(self, tmp_path: Path, kept: float):
        make_layer().save_pretrained(tmp_path)
        weights = tmp_path / "model.safetensors"
        content = weights.read_bytes()
        weights.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
        with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    def test_a_configuration_that_is_no_text(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        (tmp_path / "config.json").write_bytes(b'{"class": "\xff\xfe"}')
        with pytest.raises(ValueError, match=r"config\.json is not text"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    def test_folders_that_are_none(self, tmp_path: Path):
        for folder in (None, 3, b"folder", "", "a\0b", ["folder"]):
            with pytest.raises(ValueError, match="folder_or_name must be"):
                RelationalTransformerLayer.from_pretrained(folder)  # pyright: ignore[reportArgumentType]
            with pytest.raises(ValueError, match="folder must be"):
                make_layer().save_pretrained(folder)  # pyright: ignore[reportArgumentType]

    def test_a_module_that_looks_into_its_tensors(self, tmp_path: Path):
        """It has no outline, and is built at once."""
        Looking(3).save_pretrained(tmp_path)
        assert Looking.from_pretrained(tmp_path).linear.weight.shape == (3, 3)

    def test_a_module_without_an_outline_fills_no_memory_either(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        Looking(3).save_pretrained(tmp_path)
        change_config(tmp_path, size=2000)
        filled: list[torch.Tensor] = []
        monkeypatch.setattr(torch.nn.Linear, "reset_parameters", lambda linear: filled.append(linear.weight))
        with pytest.raises(ValueError, match=r": it has more than 100120 numbers, and 2 tensors of 12 are saved"):
            Looking.from_pretrained(tmp_path)
        assert all(weight.is_meta for weight in filled)

    def test_a_name_that_cannot_be_printed(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        (tmp_path / "config.json").write_text('{"class": "\\ud800\\u001b[2J", "arguments": {}}')
        with pytest.raises(ValueError, match=r"holds a \?\?\[2J, not a") as caught:
            RelationalTransformerLayer.from_pretrained(tmp_path)
        str(caught.value).encode()


def place_of(layer: torch.nn.Module) -> torch.device:
    return next(layer.parameters()).device


class Looking(Pretrained):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.linear = size, torch.nn.Linear(size, size)
        assert self.linear.weight.sum().item() < 1e9


class TestOptions:
    OPTIONS = LayerOptions(pre_norm=True, norm="rms", activation="swiglu", attention_dropout=0.25)

    def test_are_kept(self, tmp_path: Path):
        model = make_stack(options=self.OPTIONS)
        model.save_pretrained(tmp_path)
        again = RelationalTransformer.from_pretrained(tmp_path)
        assert again.options == again.layers[1].options == self.OPTIONS
        assert_same(again, model, torch.randn(3, 4), torch.randn(3, 3, 3))

    def test_of_the_published_layer_leave_the_file_as_it_was_without_them(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        arguments = json.loads((tmp_path / "config.json").read_text())["arguments"]
        assert list(arguments) == [
            "node_size", "edge_size", "num_heads", "head_size", "node_hidden_size", "edge_hidden_sizes",
            "update_edges", "dropout", "global_size",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"norm": "batch"}, "in options, norm is 'batch', not one of 'layer', 'rms'"),
            ({"pre_norm": 1}, "in options, pre_norm is an integer, not true or false"),
            ({"attention_dropout": 1.5}, "in options, attention_dropout must be at least 0 and less than 1, got 1.5"),
            ({"colour": "red"}, "in options, colour is unknown"),
            ("rms", "options must be LayerOptions, got str"),
            ([], "options must be LayerOptions, got tuple"),
        ],
    )
    def test_that_are_wrong_are_named(self, tmp_path: Path, options: object, message: str):
        make_layer().save_pretrained(tmp_path)
        change_config(tmp_path, options=options)
        with pytest.raises(ValueError, match=rf"config\.json does not fit RelationalTransformerLayer: {message}"):
            RelationalTransformerLayer.from_pretrained(tmp_path)


class TestLoadingDifferently:
    def test_in_another_dtype(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        again = RelationalTransformerLayer.from_pretrained(tmp_path, device="cpu", dtype=torch.float64)
        assert {parameter.dtype for parameter in again.parameters()} == {torch.float64}

    def test_on_another_device(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        again = RelationalTransformerLayer.from_pretrained(tmp_path, device="meta")
        assert all(parameter.is_meta for parameter in again.parameters())

    def test_with_other_arguments(self, tmp_path: Path):
        layer = make_layer()
        layer.save_pretrained(tmp_path)
        options = LayerOptions(attention_dropout=0.5, gradient_checkpointing=True)
        again = RelationalTransformerLayer.from_pretrained(tmp_path, dropout=0.5, options=options)
        assert (again.dropout, again.edge_update.dropout, again.attention.dropout) == (0.5, 0.5, 0.5)
        assert_same(again, layer, *make_graph(2))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"node_hidden_size": 9},
                r"does not fit .* with node_hidden_size=9: node_feed_forward_in\.weight has shape \[7, 6\], expected",
            ),
            (
                {"node_hidden_size": -1},
                r"with node_hidden_size=-1 does not fit .*: node_hidden_size must be a positive integer, got -1",
            ),
            ({"options": LayerOptions(norm="rms")}, r"does not fit .*: .*norm\.bias is unknown"),
            ({"droput": 0.5}, "RelationalTransformerLayer takes no droput, which was given to from_pretrained"),
            ({"device": "nowhere"}, "device must be one that is here, got 'nowhere'"),
            ({"device": "hpu"}, "device must be one that is here, got 'hpu'"),
            ({"dtype": torch.int8}, r"dtype must be a floating-point dtype, got torch\.int8"),
        ],
    )
    def test_what_cannot_be_is_named(self, tmp_path: Path, changes: dict, message: str):
        make_layer().save_pretrained(tmp_path)
        with pytest.raises(ValueError, match=message):
            RelationalTransformerLayer.from_pretrained(tmp_path, **changes)


def test_safetensors_alone_is_enough(tmp_path: Path):
    """The extra `saving`: neither the command line's packages nor another of an extra."""
    program = f"""
import sys
sys.modules.update(dict.fromkeys(("tyro", "rich", "numba", "huggingface_hub", "torch_geometric", "matplotlib")))
from relational_transformer import RelationalTransformerLayer
layer = RelationalTransformerLayer(node_size=8, edge_size=4, num_heads=2)
layer.save_pretrained({str(tmp_path)!r})
print(RelationalTransformerLayer.from_pretrained({str(tmp_path)!r}).node_hidden_size)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "16\n"


class TestMistakesAreToldInOneSentence:
    def test_a_model_whose_sizes_are_not_known_yet(self, tmp_path: Path):
        conv = RelationalTransformerConv(-1, 8, heads=2)
        with pytest.raises(ValueError, match=r"has no node_input\.weight yet, .*: call it once before it is saved"):
            conv.save_pretrained(tmp_path / "new")
        assert not (tmp_path / "new").exists()

    def test_a_model_that_takes_any_argument(self, tmp_path: Path):
        with pytest.raises(TypeError, match="Open must name all arguments it takes"):
            Open(3, dropout=0.5).save_pretrained(tmp_path)

    def test_a_configuration_that_lacks_an_argument(self, tmp_path: Path):
        Recurrent(3).save_pretrained(tmp_path)
        (tmp_path / "config.json").write_text('{"class": "Recurrent", "arguments": {}}')
        with pytest.raises(ValueError, match=r"config\.json does not fit Recurrent: .* 'size'"):
            Recurrent.from_pretrained(tmp_path)

    def test_a_model_that_does_not_keep_its_arguments(self, tmp_path: Path):
        with pytest.raises(TypeError, match="Forgetful must keep as attributes its arguments size"):
            Forgetful(3).save_pretrained(tmp_path)

    def test_another_class(self, tmp_path: Path):
        make_stack().save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="holds a RelationalTransformer, not a RelationalTransformerLayer"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    @pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
    def test_a_missing_file(self, tmp_path: Path, name: str):
        make_layer().save_pretrained(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(ValueError, match=f"is not a saved model: it has no {name}"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"class": "RelationalTransformerLayer"}', '{"class": "", "arguments": null}']
    )
    def test_a_configuration_of_something_else(self, tmp_path: Path, text: str):
        make_layer().save_pretrained(tmp_path)
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match="is not the configuration of a saved model"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    def test_damaged_weights(self, tmp_path: Path):
        make_layer().save_pretrained(tmp_path)
        weights = tmp_path / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-10])
        with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
            RelationalTransformerLayer.from_pretrained(tmp_path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [({"node_hidden_size": 99}, "does not fit"), ({"num_heats": 2}, "does not take: num_heats")],
    )
    def test_a_changed_configuration(self, tmp_path: Path, change: dict, message: str):
        make_layer().save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        config["arguments"].update(change)
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match=message) as caught:
            RelationalTransformerLayer.from_pretrained(tmp_path)
        assert "\n" not in str(caught.value)

    def test_safetensors_is_missing(self):
        program = """
import sys
sys.modules["safetensors"] = None
from relational_transformer import RelationalTransformerLayer
try:
    RelationalTransformerLayer.from_pretrained(".")
except ModuleNotFoundError as error:
    print(error)
"""
        finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert finished.stdout == "saved models need safetensors: pip install '.[saving]' in a checkout\n"
