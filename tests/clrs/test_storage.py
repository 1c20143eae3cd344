"""Files of trajectories are whole or not there, and say so when they were touched."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from relational_transformer import files
from relational_transformer.clrs import sample, storage
from relational_transformer.clrs.storage import DamagedFileError, load, save

REQUEST = {"algorithm": "bridges", "seed": 1}


@pytest.fixture
def data():
    return sample("bridges", 4, 6, seed=1)


@pytest.fixture
def path(tmp_path, data):
    path = tmp_path / "folder" / "data.clrs"
    save(path, data, REQUEST)
    return path


def test_what_is_loaded_is_what_was_saved_mapped_and_aligned(path, data):
    loaded = load(path, REQUEST)
    assert loaded.digest() == data.digest()
    for stage in ("inputs", "hints", "outputs"):
        for name, array in getattr(loaded, stage).items():
            assert array.dtype == getattr(data, stage)[name].dtype
            assert not array.flags.owndata
            assert not array.flags.writeable
            assert array.ctypes.data % storage.ALIGNMENT == 0
    np.testing.assert_array_equal(loaded.lengths, data.lengths)


def test_file_holds_no_pickle_and_little_more_than_the_arrays(path, data):
    content = path.read_bytes()
    assert content.startswith(storage.FORMAT)
    assert len(content) < data.nbytes + 10_000


@pytest.mark.parametrize("place", [0, 9, 40, 2000, -40, -1])
def test_a_changed_byte_is_noticed(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFileError):
        load(path, REQUEST)


@pytest.mark.parametrize("size", [0, 7, 100, -1])
def test_a_truncated_file_is_noticed(path, size):
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DamagedFileError):
        load(path, REQUEST)


def test_a_file_under_a_wrong_name_is_noticed(path):
    with pytest.raises(DamagedFileError, match="other examples"):
        load(path, {"algorithm": "bridges", "seed": 2})


def describe(path, change):
    """Another description in a file whose checksum is right all the same."""
    content = path.read_bytes()
    length = int.from_bytes(content[8:16], "little")
    text = change(json.loads(content[16 : 16 + length])).encode()
    content = content[:8] + len(text).to_bytes(8, "little") + text + content[16 + length : -32]
    path.write_bytes(content + hashlib.sha256(content).digest())


def with_first_array(**changes):
    return lambda content: json.dumps({**content, "arrays": [{**content["arrays"][0], **changes}]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: "[" * 100_000, "nested too deeply"),
        (lambda content: "\x00", "its description is not JSON"),
        (lambda content: json.dumps({"request": REQUEST}), "arrays is missing"),
        (lambda content: json.dumps({"request": REQUEST, "arrays": []}), "lacks arrays"),
        (with_first_array(dtype="|O"), r"arrays\[0\].dtype is '\|O', not one of"),
        (with_first_array(shape=[10**30]), "does not lie within it"),
        (with_first_array(shape=[-1]), "does not lie within it"),
        (with_first_array(offset=-8), "does not lie within it"),
        (with_first_array(stage="none"), "stage is 'none', not one of"),
    ],
)
def test_a_description_that_is_none_is_told(path, change, words):
    describe(path, change)
    with pytest.raises(DamagedFileError, match=words):
        load(path, REQUEST)


def test_what_is_no_regular_file_is_neither_waited_for_nor_read(path):
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DamagedFileError, match=f"{path} is not a regular file"):
        load(path, REQUEST)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(DamagedFileError, match=f"{path} is not a regular file"):
        load(path, REQUEST)


def test_failing_midway_leaves_nothing(tmp_path, data, monkeypatch):
    monkeypatch.setattr(files.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path / "data.clrs", data, REQUEST)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept_away_and_a_living_ones_is_not(tmp_path, data):
    killed = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
                import os, pathlib, signal, socket
                name = f".data.clrs.{{socket.gethostname()}}.{{os.getpid()}}.0.writing"
                pathlib.Path({str(tmp_path)!r}, name).write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            """),
        ],
        check=False,
    )
    assert killed.returncode < 0
    assert len(list(tmp_path.iterdir())) == 1
    living = tmp_path / f".data.clrs.{socket.gethostname()}.1.0.writing"
    living.write_bytes(b"half")
    save(tmp_path / "data.clrs", data, REQUEST)
    assert sorted(path.name for path in tmp_path.iterdir()) == [living.name, "data.clrs"]
