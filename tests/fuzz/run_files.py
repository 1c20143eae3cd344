"""Damaged and foreign files in the folders of runs, in the cache of data and among levels.

Each attempt damages one file of a copy and goes through one of the doors that read it: evaluation, training that goes
on, the result shown again, the report, the cache, the levels. It must be refused in one sentence that names the file or
its folder, or answer as if nothing had happened; an older checkpoint may be used where that is said. Nothing outside of
the copy may change.
"""

import json
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, get_args
from unittest import mock

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from relational_transformer.clrs import canonical
from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.molecules import qm9
from tests.fuzz import runs
from tests.fuzz.damages import Damage, copy_within, cut_off, flip_bits, insert, no_file, overwrite, take_out
from tests.fuzz.hang import Hang, no_longer_than
from tests.fuzz.outcome import Outcome
from tests.molecules.made_up import make_molecules, write_files
from tests.sokoban.small import small_config

MOST_SECONDS = 600
SLOW = 0.05
"""How often a door is taken that takes long."""
CHECKPOINTS = ("checkpoint.safetensors", "checkpoint.previous.safetensors")
FILES = ("config.json", "metrics.jsonl", *CHECKPOINTS, ".lock")
ODD_VALUES = (
    None, True, False, 0, 1, -1, 0.5, 2.0, 10**6, 2**63, 10**400, 1e308, "", "x", "ü\n", [], [1], [[1], 2], {},
    {"a": 1},
)  # fmt: skip


class Door(NamedTuple):
    """What reads `files` of a folder, and what it answers where they are whole.

    Where a checkpoint is damaged, and this is said, it may answer as it does `instead`.
    """

    name: str
    folder: Path
    files: tuple[str, ...]
    read: Callable[[Path], object]
    answer: object
    instead: tuple[object, ...] = ()
    is_slow: bool = False


def assault(tries: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """So many attempts, the same for the same seed. Nothing is written outside of `folder`."""
    torch.set_num_threads(1)
    files = write_files(folder / "qm9pack", make_molecules(60))
    with (
        mock.patch.dict(os.environ, {"RT_CACHE": str(folder / "cache of runs")}),
        mock.patch.object(qm9, "find_files", return_value=files),
    ):
        known = [*_doors_of_runs(folder), *_doors_of_data(folder)]
        for number in range(tries):
            chance = random.Random(f"{seed} {number}")
            door = chance.choice([one for one in known if chance.random() < SLOW or not one.is_slow])
            yield _attempt(door, chance, folder, f"{seed}:{number}")


def _doors_of_runs(folder: Path) -> Iterator[Door]:
    for task in runs.tasks(folder):
        finished, unfinished, before = (folder / f"{task.name} {name}" for name in ("finished", "unfinished", "before"))
        runs.finish(task, finished)
        runs.leave_unfinished(task, unfinished)
        shutil.copytree(unfinished, before)
        (before / CHECKPOINTS[1]).replace(before / CHECKPOINTS[0])
        files = (*FILES, ".levels.json") if task.kind == "sokoban" else FILES
        more = (runs.score_hints, runs.draw) if task.kind == "clrs" else ()
        for read in (runs.load, runs.evaluate, runs.show, runs.report, *more):
            yield _door(task, read, folder / "copy", finished, (*files, "result.json"))
        for read in (runs.load, runs.evaluate, runs.look, *more):
            yield _door(task, read, folder / "copy", unfinished, files, before)
        yield _door(task, runs.go_on, folder / "copy", unfinished, files, before, folder / "there is none yet")


def _door(
    task: runs.Task, read: Callable[[runs.Task, Path], object], place: Path, source: Path, files: tuple[str, ...],
    *instead: Path,
) -> Door:  # fmt: skip
    def enter(place: Path) -> object:
        return read(task, place)

    answer, *older = (_undamaged(enter, one, place) for one in (source, *instead))
    is_slow = read in (runs.evaluate, runs.show, runs.draw, runs.score_hints) or task.kind == "sokoban"
    return Door(f"{read.__name__} {source.name}", source, files, enter, answer, tuple(older), is_slow)


def _doors_of_data(folder: Path) -> Iterator[Door]:
    for protocol in get_args(ProtocolName):
        cache = folder / f"cache of {protocol} data"

        def read_cache(place: Path, protocol: ProtocolName = protocol) -> str:
            return canonical("insertion_sort", "val", num_samples=3, cache=place, protocol=protocol).digest()

        answer = read_cache(cache)
        files = tuple(str(path.relative_to(cache)) for path in cache.rglob("*.clrs"))
        yield Door(f"cache of {protocol} data", cache, files, read_cache, answer)
    cache = folder / "cache of molecules"

    def read_molecules(place: Path) -> object:
        return [(name, np.asarray(array).tolist()) for name, array in vars(qm9.load_qm9(place)).items()]

    answer = read_molecules(cache)
    files = tuple(str(path.relative_to(cache)) for path in cache.rglob("*.npz"))
    yield Door("cache of molecules", cache, files, read_molecules, answer)
    levels = folder / "levels"
    config = small_config(str(levels))

    def read_levels(place: Path) -> str:
        return config.load("test", place).digest

    yield Door("levels", levels, ("test/000.txt",), read_levels, read_levels(levels))


def _undamaged(enter: Callable[[Path], object], source: Path, place: Path) -> object:
    if source.exists():
        shutil.copytree(source, place)
    try:
        return enter(place)
    finally:
        shutil.rmtree(place)


class Words(logging.Handler):
    """What was said in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def _attempt(door: Door, chance: random.Random, folder: Path, label: str) -> Outcome:
    place, outside = folder / "copy", folder / "outside"
    shutil.copytree(door.folder, place)
    shutil.copytree(door.folder, outside)
    name = chance.choice(door.files)
    damages = [*DAMAGES, *MORE_DAMAGES.get(Path(name).suffix, ())]
    damage = chance.choice(damages)
    (place / name).touch()
    damage(place / name, chance)
    before = _state(outside)
    words, log = Words(), logging.getLogger("relational_transformer")
    log.addHandler(words)
    try:
        with no_longer_than(MOST_SECONDS):
            outcome = _outcome(door, place, name, words)
    except Hang as hang:
        outcome = Outcome("", "hang", str(hang))
    finally:
        log.removeHandler(words)
    if _state(outside) != before or not Path("/dev/null").is_char_device():
        outcome = Outcome("", "silent difference", "something outside was written to")
    shutil.rmtree(place)
    shutil.rmtree(outside)
    return outcome._replace(attempt=f"{label} {door.name}: {damage.__name__} of {name}")


def _outcome(door: Door, place: Path, name: str, words: Words) -> Outcome:
    try:
        found = door.read(place)
    except (ValueError, OSError) as error:
        told = str(place) in str(error) and "\n" not in str(error)
        return Outcome("", "refused" if told else "traceback", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome("", "traceback", f"{type(error).__name__}: {error}")
    if any("\n" in sentence for sentence in words.said):
        return Outcome("", "traceback", f"no sentence: {words.said}")
    if found == door.answer:
        return Outcome("", "accepted")
    is_told = any(str(place) in sentence for sentence in words.said)
    gone = not os.path.lexists(place / name)
    if name in CHECKPOINTS and found in door.instead and (is_told or gone):
        return Outcome("", "accepted", "an older checkpoint")
    if name == "metrics.jsonl" and is_told and door.name.startswith("show"):
        return Outcome("", "accepted", "no curves")
    if name in ("result.json", "metrics.jsonl") and gone and door.name.startswith("report"):
        return Outcome("", "accepted", "nothing to report")
    return Outcome("", "silent difference", f"{found} for {door.answer}")


def _state(folder: Path) -> object:
    return sorted((str(path), path.lstat().st_mode, path.read_bytes()) for path in folder.rglob("*") if path.is_file())


def foreign_file(path: Path, chance: random.Random) -> None:
    depth = chance.choice([900, 2000, 100_000])
    contents = [
        b"", b"\n", b"{}", b"{}\n", b"[]", b"null", b"1", b'"x"', b"a letter", b"\xff\xfe\n", b'{"a": 1}', b"9" * 5000,
        b"NaN", b"1e999", b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"\0" * 5000,
        b'{"config": {}, "seeds": [], "hardware": ""}', b'{"examples": 1, "loss": [], "validation": []}\n',
        (2**62).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"{}", chance.randbytes(1000),
    ]  # fmt: skip
    path.write_bytes(chance.choice(contents))


def file_of_another_run(path: Path, chance: random.Random) -> None:
    """Of the same name, or any; of a run of the same configuration only where a result knows its own files."""
    others = [one for one in path.parent.parent.glob(f"*/{chance.choice([path.name, '*'])}") if one.is_file()]
    if not (path.parent / "result.json").exists():
        others = [one for one in others if _config_beside(one) != _config_beside(path)]
    content = chance.choice(sorted(others)).read_bytes() if others else b""
    path.write_bytes(content)


def _config_beside(path: Path) -> bytes:
    config = path.parent / "config.json"
    return config.read_bytes() if config.exists() else b""


def link(path: Path, chance: random.Random) -> None:
    """To what it was, outside; or to a device."""
    outside = path.parent.parent / "outside" / path.name
    path.unlink()
    path.symlink_to(chance.choice([outside, outside, "/dev/zero", "/dev/null"]))


def other_value(path: Path, chance: random.Random) -> None:
    """In one of the JSON values of a file: another, one less, or one more."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    index = chance.randrange(len(lines))
    content = place = json.loads(lines[index] or "{}")
    key: str | int | None = None
    while isinstance(place, dict | list) and place and (key is None or chance.random() < 0.7):
        parent, key = place, chance.choice(sorted(place)) if isinstance(place, dict) else chance.randrange(len(place))
        place = parent[key]
    if key is not None:
        what = chance.choice(("other", "other", "less", "more"))
        if what == "other":
            parent[key] = chance.choice(ODD_VALUES)
        elif what == "less":
            del parent[key]
        elif isinstance(parent, dict):
            parent["more"] = chance.choice(ODD_VALUES)
        else:
            parent.append(chance.choice(ODD_VALUES))
    lines[index] = json.dumps(content)
    path.write_text("\n".join(lines) + "\n")


def other_words(path: Path, chance: random.Random) -> None:
    """Beside the tensors of a checkpoint, of which some may be missing or others."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata())
    key = chance.choice([*metadata, "tensor", "tensor"])
    if key == "tensor":
        name = chance.choice(sorted(tensors))
        changed = chance.choice([None, torch.zeros(()), torch.zeros_like(tensors[name])])
        tensors = {one: tensor for one, tensor in tensors.items() if one != name}
        tensors |= {} if changed is None else {name: changed}
    elif key == "progress":
        progress = json.loads(metadata[key])
        progress[chance.choice(sorted(progress))] = chance.choice([0, 1, 10**9, -1, None, "x"])
        metadata[key] = json.dumps(progress)
    else:
        metadata[key] = chance.choice(["", "{}", "1", "2", "[" * 10_000])
    save_file(tensors, path, metadata=metadata)


def _if_not_empty(damage: Damage) -> Damage:
    def careful(path: Path, chance: random.Random) -> None:
        if path.stat().st_size < 2:
            path.write_bytes(b"{}")
        damage(path, chance)

    careful.__name__ = damage.__name__
    return careful


DAMAGES: list[Damage] = [
    *map(_if_not_empty, (flip_bits, flip_bits, cut_off, overwrite, insert, take_out, copy_within)),
    foreign_file, file_of_another_run, no_file, link,
]  # fmt: skip
MORE_DAMAGES: dict[str, list[Damage]] = {
    ".json": [other_value] * 4, ".jsonl": [other_value] * 4, ".safetensors": [other_words] * 4,
}  # fmt: skip
