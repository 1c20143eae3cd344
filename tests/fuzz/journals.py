"""Damaged and foreign journals and SQLite files, opened as `rt tune --show` opens them.

What is read must be the search as it was recorded, or the file must be refused in one sentence; and nothing may be
written. A search that is read as another one is a silent difference.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
from optuna.storages import RDBStorage

from relational_transformer.tuning import GRIDS, Objective, analyse, load_study, open_storage, open_study
from relational_transformer.tuning.worker import run_trial
from tests.fuzz.damages import Damage, copy_within, cut_off, flip_bits, insert, no_file, overwrite, take_out
from tests.fuzz.hang import Hang, no_longer_than
from tests.fuzz.outcome import Kind, Outcome

STUDY, MODEL, RUNS = "mpnn on bfs", "mpnn", 6
MOST_SECONDS = 600


def assault(tries: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """`tries` damages, each of a fresh copy of a small search."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    schemes = {"study.journal": "", "study.db": "sqlite:///"}
    for name, scheme in schemes.items():
        _record(f"{scheme}{folder / name}")
    expected = {name: _read(f"{scheme}{folder / name}") for name, scheme in schemes.items()}
    for number in range(tries):
        generator = random.Random(f"{seed} {number}")
        name = generator.choice(list(schemes))
        damage = generator.choice(DAMAGES + (LINE_DAMAGES if name == "study.journal" else []))
        place = folder / "damaged"
        place.mkdir()
        shutil.copy(folder / name, place)
        damage(place / name, generator)
        attempt = f"{damage.__name__} of {name} (seed {seed}, number {number})"
        yield _outcome(attempt, place / name, schemes[name], expected[name])
        shutil.rmtree(place)


def _outcome(attempt: str, path: Path, scheme: str, expected: object) -> Outcome:
    kind: Kind
    before = _state(path.parent)
    try:
        with no_longer_than(MOST_SECONDS):
            found = _read(f"{scheme}{path}")
    except ValueError as error:
        kind, said = "refused", str(error)
        if "\n" in said or path.name not in said:
            kind, said = "traceback", f"no sentence that names the file: {said}"
    except Hang as hang:
        kind, said = "hang", str(hang)
    except Exception as error:
        kind, said = "traceback", f"{type(error).__name__}: {error}"
    else:
        kind, said = ("accepted", "") if found == expected else ("silent difference", f"{found} for {expected}")
    if _state(path.parent) != before:
        kind, said = "silent difference", "something was written"
    return Outcome(attempt, kind, said)


def _record(location: str) -> None:
    storage = open_storage(location)
    study = open_study(storage, STUDY, {"tasks": ["bfs"]})
    scores = random.Random(0)
    for _ in range(RUNS):
        run_trial(study, Objective(GRIDS[MODEL], lambda configuration, seed: {"bfs": scores.random()}))
    study.ask()  # one under way
    storage.remove_session()
    if isinstance(storage, RDBStorage):
        storage.engine.dispose()


def _read(location: str) -> object:
    """What `rt tune --show` shows of a search."""
    study = load_study(location, STUDY)
    search = analyse(study, GRIDS[MODEL])
    return search.run_sets, search.ranking, search.trials, search.stable_for, study.direction


def _state(folder: Path) -> object:
    states = [(path.name, path.lstat()) for path in folder.iterdir()]
    return sorted((name, state.st_mode, state.st_size, state.st_mtime_ns) for name, state in states)


def foreign_file(path: Path, generator: random.Random) -> None:
    depth = generator.choice([900, 2000, 100_000])
    contents = [
        b"", b"\n", b"\n\n", b"{}", b"{}\n", b"[]\n", b"null\n", b"1\n", b'"x"\n', b"a letter\n", b"\xff\xfe\n",
        b'{"a":1}', b'{"a":1}\n', b'{"op_code":4}\n', b'{"op_code":0,"worker_id":"","study_name":[],"directions":2}\n',
        b'{"op_code":NaN,"worker_id":""}\n', b'{"op_code":1e999,"worker_id":""}\n', b"9" * 5000 + b"\n",
        b"[" * depth + b"]" * depth + b"\n", b'{"a":' * depth + b"1" + b"}" * depth + b"\n",
        b'{"op_code":2,"worker_id":"","study_id":0,"user_attr":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}\n",
        b"SQLite format 3\0", b"SQLite format 3\0" + bytes(5000), b"SQLite format 3\0" + generator.randbytes(5000),
    ]  # fmt: skip
    path.write_bytes(generator.choice(contents))


def header_of_a_database(path: Path, generator: random.Random) -> None:
    content = bytearray(path.read_bytes())
    start = generator.randrange(16, 100)
    content[:16] = b"SQLite format 3\0"
    for index in range(start, min(start + generator.randrange(1, 5), 100)):
        content[index] = generator.choice([0, 1, 2, 255, generator.randrange(256)])
    path.write_bytes(content)


def something_beside_it(path: Path, generator: random.Random) -> None:
    beside = path.with_name(path.name + generator.choice(["-journal", "-wal", "-shm", ".lock"]))
    make: list[Callable[[], object]] = [
        lambda: beside.write_bytes(b""),
        lambda: beside.write_bytes(generator.randbytes(5000)),
        lambda: beside.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + generator.randbytes(5000)),
        lambda: os.mkfifo(beside),
        beside.mkdir,
        lambda: beside.symlink_to(beside.name),
    ]
    generator.choice(make)()


def _on_lines(change: Callable[[list[bytes], int, random.Random], object]) -> Damage:
    def damage(path: Path, generator: random.Random) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        change(lines, generator.randrange(len(lines)), generator)
        path.write_bytes(b"".join(lines))

    damage.__name__ = change.__name__
    return damage


def double_a_line(lines: list[bytes], index: int, generator: random.Random) -> None:
    lines.insert(generator.choice([index, len(lines), generator.randrange(len(lines))]), lines[index])


def lose_a_line(lines: list[bytes], index: int, generator: random.Random) -> None:
    del lines[index]


def lose_the_last_lines(lines: list[bytes], index: int, generator: random.Random) -> None:
    del lines[index:]


def lose_the_first_lines(lines: list[bytes], index: int, generator: random.Random) -> None:
    del lines[: index + 1]


def exchange_lines(lines: list[bytes], index: int, generator: random.Random) -> None:
    other = generator.randrange(len(lines))
    lines[index], lines[other] = lines[other], lines[index]


def change_a_value(lines: list[bytes], index: int, generator: random.Random) -> None:
    record = json.loads(lines[index])
    key = generator.choice(list(record))
    values = [None, 0, 1, -1, 2**64, 0.5, True, "", "x", [], {}, [1], {"a": 1}]
    record[key] = generator.choice([value for value in values if value != record[key]])
    lines[index] = json.dumps(record, separators=(",", ":")).encode() + b"\n"


def lose_a_value(lines: list[bytes], index: int, generator: random.Random) -> None:
    record = json.loads(lines[index])
    del record[generator.choice([key for key in record if key != "chain"])]
    lines[index] = json.dumps(record, separators=(",", ":")).encode() + b"\n"


DAMAGES: list[Damage] = [
    flip_bits, flip_bits, cut_off, overwrite, insert, take_out, copy_within, foreign_file, no_file,
    header_of_a_database, something_beside_it,
]  # fmt: skip
LINE_DAMAGES = [
    _on_lines(change)
    for change in (
        double_a_line, lose_a_line, lose_the_last_lines, lose_the_first_lines, exchange_lines, change_a_value,
        lose_a_value,
    )
]  # fmt: skip
