"""A file of trajectories that is mapped into memory, not read: raw arrays, a description of them, and a checksum.

    8 bytes    the format's name, b"RTCLRS01"
    8 bytes    length of the description, little endian
    ...        the description, JSON: what was asked for, and stage, name, type, shape and offset of every array
    ...        the arrays, each at a multiple of 64 bytes
    32 bytes   SHA-256 of all that comes before

A file that is there is a whole one, and two processes that write the same file at once do each other no harm
(`relational_transformer.files`).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.files import remove_abandoned, write_atomically

FORMAT = b"RTCLRS01"
ALIGNMENT = 64
CHECKSUM_BYTES = 32
BLOCK_BYTES = 2**22


class DamagedFileError(Exception):
    """A file is not what was written, or not what is asked for."""


def save(path: Path, trajectories: Trajectories, request: Mapping[str, Any]) -> None:
    """Write trajectories to `path`, whole or not at all; `request` says what they are, and is checked on loading."""
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
    """Map a file written by `save` into memory, once its checksum has been found right and the request the same."""
    data = np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
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
    description = json.loads(data[first:last].tobytes())
    if description["request"] != dict(request):
        raise DamagedFileError("it holds other examples than its name says")
    stages: dict[str, dict[str, np.ndarray]] = {"inputs": {}, "hints": {}, "outputs": {}, "lengths": {}}
    start = _aligned(last)
    for entry in description["arrays"]:
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        offset = start + entry["offset"]
        raw = data[offset : offset + dtype.itemsize * int(np.prod(shape))]
        stages[entry["stage"]][entry["name"]] = np.asarray(raw).view(dtype).reshape(shape)
    return Trajectories(stages["inputs"], stages["hints"], stages["outputs"], stages["lengths"]["lengths"])


def _arrays(trajectories: Trajectories) -> Iterator[tuple[str, str, np.ndarray]]:
    stages = {"inputs": trajectories.inputs, "hints": trajectories.hints, "outputs": trajectories.outputs}
    for stage, arrays in {**stages, "lengths": {"lengths": trajectories.lengths}}.items():
        for name, array in arrays.items():
            yield stage, name, array


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
