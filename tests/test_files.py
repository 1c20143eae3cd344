"""A file is whole or not there, whatever happens while it is written."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from relational_transformer.files import (
    remove_abandoned,
    remove_unfinished,
    write_atomically,
    write_json,
    write_json_lines,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("old")
    seen = []

    def write(temporary: Path) -> None:
        temporary.write_text("new")
        seen.append(path.read_text())

    write_atomically(path, write, before_replacing=lambda: seen.append(path.read_text()))
    assert seen == ["old", "old"]
    assert path.read_text() == "new"
    assert names(tmp_path) == ["notes.txt"]


def test_a_new_file_may_be_read_by_whom_the_old_one_could(tmp_path: Path):
    path = tmp_path / "file"
    for mode in (0o664, 0o600):
        path.touch()
        path.chmod(mode)
        write_atomically(path, lambda file: file.write_text("new"))
        assert (path.stat().st_mode & 0o777, path.read_text()) == (mode, "new")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("target", ["/dev/null", "file", "nowhere", "link"])
def test_links_are_neither_followed_nor_replaced(tmp_path: Path, target: str):
    (tmp_path / "file").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(FileExistsError, match=f"cannot write {link}: it is a link; remove it, or write elsewhere"):
        write_atomically(link, lambda file: file.write_text("new"))
    assert (os.readlink(link), (tmp_path / "file").read_text(), names(tmp_path)) == (target, "old", ["file", "link"])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in names(tmp_path):
        with pytest.raises(FileExistsError, match=f"cannot write .*/{name}: it is not a regular file"):
            write_atomically(tmp_path / name, lambda file: file.write_text("new"))
    assert names(tmp_path) == ["fifo", "folder"]


def test_the_folder_is_on_the_disk_with_the_name_of_the_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{descriptor}")), (tmp_path / "notes.txt").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    write_atomically(tmp_path / "notes.txt", lambda file: file.write_text("new"))
    (file, was_there), folder = synced
    assert (file.parent, was_there, folder) == (tmp_path, False, (tmp_path, True))


def test_failing_midway_leaves_the_old_file_alone(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["notes.txt"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    path = tmp_path / "nowhere" / "notes.txt"
    with pytest.raises(FileNotFoundError, match=f"cannot write {path}"):
        write_atomically(path, lambda temporary: temporary.write_text("new"))


def test_what_a_killed_process_left_is_recognised_by_its_name(tmp_path: Path):
    """A real process, killed while it writes; its file goes, those of the living and of other machines stay."""
    program = f"""
import os, pathlib, signal
from relational_transformer.files import write_atomically
def write(temporary):
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
write_atomically(pathlib.Path({str(tmp_path)!r}, "notes.txt"), write)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode < 0
    (left,) = names(tmp_path)
    assert left.endswith(".writing")
    mine = tmp_path / f".notes.txt.{socket.gethostname()}.{os.getpid()}.0.writing"
    elsewhere = tmp_path / ".notes.txt.another-machine.4711.0.writing"
    for path in (mine, elsewhere):
        path.touch()
    remove_abandoned(tmp_path)
    assert names(tmp_path) == sorted([mine.name, elsewhere.name])
    remove_unfinished(tmp_path)
    assert names(tmp_path) == []


def test_json_is_readable_and_finite(tmp_path: Path):
    write_json(tmp_path / "a.json", {"score": 0.5})
    assert json.loads((tmp_path / "a.json").read_text()) == {"score": 0.5}
    write_json_lines(tmp_path / "a.jsonl", [{"step": 1}, {"step": 2}])
    assert (tmp_path / "a.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "b.json", {"score": float("nan")})
    assert names(tmp_path) == ["a.json", "a.jsonl"]
