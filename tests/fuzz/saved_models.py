"""Damaged and foreign folders for `from_pretrained`.

Each attempt damages a copy of a saved model. It must be refused, in a sentence that names a file of the folder, or give
back the very model that was saved.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from relational_transformer import RelationalTransformer, RelationalTransformerLayer
from relational_transformer.molecules import MoleculeRegressor
from relational_transformer.nn import LayerOptions, Pretrained
from relational_transformer.nn.saving.arguments import as_json
from relational_transformer.pyg import RelationalGraphModel, RelationalTransformerConv

from .outcome import Outcome

FILES = ("config.json", "model.safetensors")
SIZES = {"node_size": 6, "edge_size": 5, "num_heads": 2, "head_size": 3, "node_hidden_size": 7}
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, 1, 3, -1, 2.0, 60_000, 9_999, 10**6, 10**30, 1e308, "x", "", "cat", [], [1], [4, 3], [[1], 2], {},
    {"a": 1}, ["a"], "ü\n",
)  # fmt: skip

Damage = Callable[[Path, random.Random], str]


def assault(tries: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """So many attempts, the same for the same seed. Nothing is written outside of `folder`."""
    torch.manual_seed(0)
    models: list[Pretrained] = [
        RelationalTransformerLayer(**SIZES),
        RelationalTransformerLayer(**SIZES, options=LayerOptions(True, "rms", "swiglu", 0.1, 8)),
        RelationalGraphModel(4, 1, edge_dim=(3, 2), num_layers=1, node_size=8, num_heads=2),
        RelationalTransformer(4, 3, 2, **SIZES, num_layers=2),
        RelationalTransformerConv(4, 6, heads=2, edge_dim=3),
        MoleculeRegressor(atom_size=5, bond_size=2, num_layers=1, distance_size=4, **SIZES),
    ]
    saved = [folder / f"{number} {type(model).__name__}" for number, model in enumerate(models)]
    for model, place in zip(models, saved, strict=True):
        model.save_pretrained(place)
    for number in range(tries):
        chance = random.Random(f"{seed} {number}")
        index, damaged = chance.randrange(len(models)), folder / "damaged"
        shutil.copytree(saved[index], damaged)
        path = damaged / chance.choice(FILES)
        done = chance.choice(DAMAGES if path.suffix == ".safetensors" else (*DAMAGES, *[change_value] * 6))(
            path, chance
        )
        yield load(models[index], damaged, f"{seed}:{number} {type(models[index]).__name__} {path.name}: {done}")
        shutil.rmtree(damaged)


def load(model: Pretrained, damaged: Path, tried: str) -> Outcome:
    """What comes of loading a damaged folder."""
    try:
        again = type(model).from_pretrained(damaged)
    except (ValueError, OSError) as error:
        told = str(damaged) in str(error) and "\n" not in str(error)
        return Outcome(tried, "refused" if told else "traceback", f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # what Rust calls a panic is not even an Exception
        return Outcome(tried, "traceback", f"{type(error).__name__}: {error}")
    before, after = model.state_dict(), again.state_dict()
    same = before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    same = same and as_json(model) == as_json(again)
    return Outcome(tried, "accepted" if same else "silent difference")


def cut(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    kept = chance.randrange(len(content))
    path.write_bytes(content[:kept])
    return f"cut to {kept} bytes"


def zeros(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    first = chance.randrange(len(content))
    length = min(len(content) - first, chance.choice((1, 8, 64, 512, 4096)))
    content[first : first + length] = bytes(length)
    path.write_bytes(content)
    return f"{length} zeros at {first}"


def flips(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    places = [chance.randrange(len(content)) for _ in range(chance.choice((1, 1, 2, 20)))]
    for place in places:
        content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return f"flipped bits at {places}"


def header_flip(path: Path, chance: random.Random) -> str:
    """In what a safetensors file says of its tensors, or the beginning of any other."""
    content = bytearray(path.read_bytes())
    place = chance.randrange(min(len(content), 1200))
    content[place] = chance.randrange(256)
    path.write_bytes(content)
    return f"another byte at {place}"


def inserted(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    place, length = chance.randrange(len(content) + 1), chance.choice((1, 8, 1000))
    path.write_bytes(content[:place] + chance.randbytes(length) + content[place:])
    return f"{length} bytes more at {place}"


def noise(path: Path, chance: random.Random) -> str:
    length = chance.choice((0, 1, 7, 8, 9, 1000))
    path.write_bytes(chance.randbytes(length))
    return f"{length} bytes of noise"


def nested(path: Path, chance: random.Random) -> str:
    depth = chance.choice((100, 100_000))
    text = "[" * depth + "]" * depth
    path.write_text(text if chance.random() < 0.5 else '{"class": "x", "arguments": ' + text + "}")
    return f"{depth} lists in each other"


def other_file(path: Path, chance: random.Random) -> str:
    folders = sorted(one for one in path.parent.parent.iterdir() if one != path.parent and one.is_dir())
    source = chance.choice(folders) / chance.choice(FILES)
    shutil.copy(source, path)
    return f"{source.parent.name}/{source.name} in its place"


def no_file(path: Path, chance: random.Random) -> str:
    kind = chance.choice(("missing", "folder", "fifo", "circle", "device", "dangling"))
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.symlink_to({"circle": path.name, "device": "/dev/zero", "dangling": "nowhere"}[kind])
    return f"a {kind} in its place"


def change_value(path: Path, chance: random.Random) -> str:
    """In a configuration: another value, a key less or a key more."""
    config = json.loads(path.read_text())
    place = config if chance.random() < 0.2 else config["arguments"]
    key = chance.choice(sorted(place))
    how = chance.choice(("value", "value", "value", "less", "more"))
    value = chance.choice(ODD_VALUES)
    if how == "less":
        del place[key]
    else:
        place[key if how == "value" else "more"] = value
    path.write_text(json.dumps(config))
    return f"{key} {how} {value!r:.40}"


DAMAGES: tuple[Damage, ...] = (
    cut,
    zeros,
    zeros,
    flips,
    flips,
    header_flip,
    inserted,
    noise,
    nested,
    other_file,
    no_file,
)
