"""Damages that any file can have."""

import os
import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, random.Random], object]


def flip_bits(path: Path, generator: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(generator.choice([1, 1, 1, 2, 8])):
        content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)


def cut_off(path: Path, generator: random.Random) -> None:
    os.truncate(path, generator.randrange(path.stat().st_size))


def overwrite(path: Path, generator: random.Random) -> None:
    content = path.read_bytes()
    start, length = generator.randrange(len(content)), generator.choice([1, 16, 512, 4096, len(content)])
    block = generator.choice([bytes, generator.randbytes])(len(content[start : start + length]))
    path.write_bytes(content[:start] + block + content[start + length :])


def insert(path: Path, generator: random.Random) -> None:
    content = path.read_bytes()
    start = generator.randrange(len(content) + 1)
    block = generator.choice([b"\n", b"\r\n", b"\0", b"}{", generator.randbytes(generator.randrange(1, 600))])
    path.write_bytes(content[:start] + block + content[start:])


def take_out(path: Path, generator: random.Random) -> None:
    content = path.read_bytes()
    start = generator.randrange(len(content))
    path.write_bytes(content[:start] + content[start + generator.choice([1, 2, 100, 4096]) :])


def copy_within(path: Path, generator: random.Random) -> None:
    content = path.read_bytes()
    start, target, length = (generator.randrange(1, len(content)) for _ in range(3))
    path.write_bytes((content[:target] + content[start : start + length])[: len(content)] + content[target + length :])


def no_file(path: Path, generator: random.Random) -> None:
    path.unlink()
    make: list[Callable[[], object]] = [
        lambda: None,
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to("nowhere"),
        lambda: path.symlink_to("."),
        lambda: (os.mkfifo(path.with_name("fifo")), path.symlink_to("fifo")),
    ]
    generator.choice(make)()
