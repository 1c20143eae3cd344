"""Training and test levels: their origin, and an identity that does not depend on their folder."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict

from relational_transformer.files import write_json
from relational_transformer.reading import read_json
from relational_transformer.runs.run_folder import RunFolder

from .game.generator import generate_levels
from .game.levels import Levels, load_levels

Split = Literal["train", "test"]
DATA_SEEDS: dict[Split, int] = {"train": 1, "test": 3}
"""Seeds of generated levels."""
BOXOBAN_TEST_DIGEST = "8650a5f03d549fae"
"""The digest of the 1,000 levels in Boxoban's unfiltered/test."""


@dataclass(frozen=True)
class SplitsIdentity:
    """Numbers and digests of training and test levels. They are equal on every machine with the same levels, and differ
    if one wall differs.

    >>> levels = generate_split("test", 2)
    >>> identity = Splits(generate_split("train", 3), levels).identity
    >>> identity.check("test", levels, "this folder")
    >>> identity.train, len(identity.test_digest)
    (3, 16)
    """

    train: int
    test: int
    train_digest: str
    test_digest: str

    def check(self, split: Split, levels: Levels, source: str) -> None:
        """Refuse levels that are not those of the split."""
        count, digest = getattr(self, split), getattr(self, f"{split}_digest")
        if (len(levels), levels.digest) != (count, digest):
            raise ValueError(
                f"the {split} levels of {source} are not those of the run: {len(levels):,} of digest {levels.digest}, "
                f"not {count:,} of digest {digest}"
            )


@dataclass(frozen=True)
class Splits:
    """The levels of a run, and the folder that they were read from; None if they were generated.

    >>> splits = Splits(generate_split("train", 3), generate_split("test", 2))
    >>> splits.identity.train, splits.identity.test
    (3, 2)
    """

    train: Levels
    test: Levels
    folder: Path | None = None

    @cached_property
    def identity(self) -> SplitsIdentity:
        return SplitsIdentity(len(self.train), len(self.test), self.train.digest, self.test.digest)


def load_splits(folder: Path | str, test_levels: int) -> Splits:
    """All training levels of a Boxoban folder, and the first `test_levels` of its test levels.

    >>> splits = load_splits("boxoban-levels", test_levels=1_000)  # doctest: +SKIP
    """
    test = load_levels(folder, "test")[:test_levels]  # first, because it is small and may be missing
    return Splits(load_levels(folder, "train"), test, Path(folder))


def generate_split(split: Split, count: int) -> Levels:
    """The first `count` generated levels of a split."""
    return generate_levels(count, DATA_SEEDS[split])


class Note(TypedDict):
    """The content of the file that `remember_folder` writes."""

    folder: str


def remember_folder(run: RunFolder, folder: Path) -> None:
    """Write into a run's folder where this machine has the run's levels. This is no part of the run's configuration."""
    write_json(_note(run), {"folder": str(folder.absolute())})


def remembered_folder(run: RunFolder) -> Path | None:
    """The folder of a run's levels on this machine when it was trained; None for generated levels."""
    note = _note(run)
    if not os.path.lexists(note):
        return None
    try:
        folder = Path(read_json(note, Note)["folder"])
    except ValueError as error:
        raise ValueError(f"{error}: delete it, and give the folder of the levels with --levels") from None
    if not folder.is_dir():
        raise ValueError(
            f"the levels of {run.path} were in {folder}, which does not exist: give their folder with --levels"
        )
    return folder


def _note(run: RunFolder) -> Path:
    return run.path / ".levels.json"
