"""A file of trajectories that is mapped into memory, not read: raw arrays, a description of them, and a checksum.

    8 bytes    the format's name, b"RTCLRS01"
    8 bytes    length of the description, little endian
    ...        the description, JSON: what was asked for, and stage, name, type, shape and offset of every array
    ...        the arrays, each at a multiple of 64 bytes
    32 bytes   SHA-256 of all that comes before

Files are written atomically, also by several processes at once (`relational_transformer.files`).
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.files import remove_abandoned, write_atomically
from relational_transformer.reading import UnreadableFile, open_regular, parse_json

FORMAT = b"RTCLRS01"
ALIGNMENT = 64
CHECKSUM_BYTES = 32
BLOCK_BYTES = 2**22


class DamagedFileError(Exception):
    """A file is damaged, or holds other examples than requested."""


class Entry(TypedDict):
    """An array in the description; its offset is relative to the first array."""

    stage: Literal["inputs", "hints", "outputs", "lengths"]
    name: str
    dtype: Literal["<f4", "|i1", "<i2", "<i4"]
    shape: tuple[int, ...]
    offset: int


class Description(TypedDict):
    """The description before the arrays."""

    request: dict[str, Any]
    arrays: list[Entry]


def save(path: Path, trajectories: Trajectories, request: Mapping[str, Any]) -> None:
    """Write trajectories to `path` atomically. `request` says what they are, and is checked on loading."""
    arrays = list(_arrays(trajectories))
    entries, offset = [], 0
    for stage, name, array in arrays:
        entry = {"stage": stage, "name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": offset}
        entries.append(entry)
        offset = _aligned(offset + array.nbytes)
    description = json.dumps({"request": dict(request), "arrays": entries}).encode()

    def fill(partial: Path) -> None:
        sha = hashlib.sha256()
        with partial.open("wb") as file:

            def write(data: bytes | memoryview) -> None:
                sha.update(data)
                file.write(data)

            write(FORMAT + len(description).to_bytes(8, "little") + description)
            for _, _, array in arrays:
                write(bytes(_aligned(file.tell()) - file.tell()))
                write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            file.write(sha.digest())

    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent)
    write_atomically(path, fill)


def load(path: Path, request: Mapping[str, Any]) -> Trajectories:
    """Map a file written by `save` into memory, after checking its checksum and request."""
    try:
        descriptor = open_regular(path)
    except UnreadableFile as error:
        raise DamagedFileError(str(error)) from None
    with open(descriptor, "rb") as file:
        data = np.memmap(file, np.uint8, mode="r") if os.fstat(descriptor).st_size else np.empty(0, np.uint8)
    if len(data) < len(FORMAT) + 8 + CHECKSUM_BYTES or data[: len(FORMAT)].tobytes() != FORMAT:
        raise DamagedFileError("it is not a file of trajectories")
    content, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:].tobytes()
    sha = hashlib.sha256()
    for first in range(0, len(content), BLOCK_BYTES):
        sha.update(content[first : first + BLOCK_BYTES].data)
    if sha.digest() != checksum:
        raise DamagedFileError("its checksum is wrong")

    first = len(FORMAT) + 8
    last = first + int.from_bytes(data[len(FORMAT) : first].tobytes(), "little")
    try:
        text = content[first:last].tobytes().decode()
        description: Description = parse_json(text, "its description", Description)
    except ValueError as error:
        raise DamagedFileError(str(error)) from None
    if description["request"] != dict(request):
        raise DamagedFileError("it holds other examples than its name says")
    stages: dict[str, dict[str, np.ndarray]] = {"inputs": {}, "hints": {}, "outputs": {}, "lengths": {}}
    for entry in description["arrays"]:
        stages[entry["stage"]][entry["name"]] = _array(content, _aligned(last), entry)
    if not all(stages.values()) or "lengths" not in stages["lengths"]:
        raise DamagedFileError("its description lacks arrays")
    return Trajectories(stages["inputs"], stages["hints"], stages["outputs"], stages["lengths"]["lengths"])


def _array(content: np.ndarray, start: int, entry: Entry) -> np.ndarray:
    """The array that an entry describes, as a view."""
    dtype, shape, first = np.dtype(entry["dtype"]), tuple(entry["shape"]), start + entry["offset"]
    last = first + dtype.itemsize * math.prod(shape)
    if min([entry["offset"], *shape]) < 0 or last > len(content):
        raise DamagedFileError(f"its array {entry['name'][:80]} does not lie within it")
    return np.asarray(content[first:last]).view(dtype).reshape(shape)


def _arrays(trajectories: Trajectories) -> Iterator[tuple[str, str, np.ndarray]]:
    stages = {"inputs": trajectories.inputs, "hints": trajectories.hints, "outputs": trajectories.outputs}
    for stage, arrays in {**stages, "lengths": {"lengths": trajectories.lengths}}.items():
        for name, array in arrays.items():
            yield stage, name, array


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
