"""Arrays inside a page: all of them in one compressed block of text, and a table of what lies where."""

import base64
import zlib
from typing import Any

import numpy as np

KINDS = {"f4": "float32", "i1": "int8", "i2": "int16", "u1": "uint8"}
ALIGNMENT = 4
"""Bytes. A browser reads numbers in place only where they begin at a multiple of their size."""


class Packer:
    """Collects arrays; `add` gives back what a page needs to know to find one again.

    >>> packer = Packer()
    >>> packer.add(np.array([[1, 2, 3]], dtype=np.int8)), packer.add(np.zeros(2, dtype=np.float32))
    ({'at': 0, 'kind': 'i1', 'shape': [1, 3]}, {'at': 4, 'kind': 'f4', 'shape': [2]})
    >>> unpack({'at': 0, 'kind': 'i1', 'shape': [1, 3]}, zlib.decompress(base64.b64decode(packer.text()))).tolist()
    [[1, 2, 3]]
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, array: np.ndarray) -> dict[str, Any]:
        kind = next(name for name, dtype in KINDS.items() if array.dtype == dtype)
        place = {"at": len(self._bytes), "kind": kind, "shape": list(array.shape)}
        self._bytes += np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
        self._bytes += bytes(-len(self._bytes) % ALIGNMENT)
        return place

    def text(self) -> str:
        """Base64 of all bytes, compressed."""
        return base64.b64encode(zlib.compress(bytes(self._bytes), 9)).decode()


def unpack(place: dict[str, Any], content: bytes) -> np.ndarray:
    """The array at a place of all bytes."""
    count = int(np.prod(place["shape"]))
    return np.frombuffer(content, f"<{place['kind']}", count, place["at"]).reshape(place["shape"])
