"""Levels as tensors, read from and written to text in Boxoban's format."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from relational_transformer.reading import read_text

SIDE = 10
CELLS = SIDE * SIDE
WALL, FLOOR, TARGET, BOX, AGENT = "#", " ", ".", "$", "@"


@dataclass(frozen=True)
class Levels:
    """M levels of 10 x 10 cells, numbered row by row; the outermost cells are walls.

    Attributes:
        walls, targets, boxes: bool [M, 100].
        agent: the cell where the agent starts, [M].

    >>> level = parse_levels("; 0\\n#####\\n#@$.#\\n#####\\n")
    >>> len(level), level.agent.tolist(), level.boxes.nonzero().tolist(), level.targets.nonzero().tolist()
    (1, [11], [[0, 12]], [[0, 13]])
    """

    walls: Tensor
    targets: Tensor
    boxes: Tensor
    agent: Tensor

    def __len__(self) -> int:
        return len(self.agent)

    def __getitem__(self, index: int | slice | Tensor) -> "Levels":
        """Some of the levels; a single number gives a collection of one."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise ValueError(f"there are levels 0 to {len(self) - 1}, not {index}")
            index = torch.tensor([index % len(self)], device=self.agent.device)
        return Levels(self.walls[index], self.targets[index], self.boxes[index], self.agent[index])

    def to(self, device: torch.device | str) -> "Levels":
        return Levels(self.walls.to(device), self.targets.to(device), self.boxes.to(device), self.agent.to(device))

    @cached_property
    def num_targets(self) -> Tensor:
        """Targets of every level, [M]."""
        return self.targets.sum(-1)

    @cached_property
    def num_covered(self) -> Tensor:
        """Targets of every level that have a box on them from the start, [M]."""
        return (self.targets & self.boxes).sum(-1)

    @property
    def num_open(self) -> Tensor:
        """The number of cells of every level that are not walls, [M]."""
        return (~self.walls).sum(-1)

    @property
    def open_cells(self) -> int:
        """The largest number of cells that are not walls in any level."""
        return int(self.num_open.max())

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify these levels in this order."""
        cells = self.walls.byte() + 2 * self.targets.byte() + 4 * self.boxes.byte()
        cells = cells.scatter_add(1, self.agent.unsqueeze(1), torch.full_like(cells[:, :1], 8))
        return hashlib.sha256(cells.cpu().numpy().tobytes()).hexdigest()[:16]

    def as_text(self) -> str:
        """The levels in Boxoban's format."""
        return "".join(f"; {number}\n{text}\n\n" for number, text in enumerate(map(self._text, range(len(self)))))

    def _text(self, number: int) -> str:
        cells = [WALL if wall else FLOOR for wall in self.walls[number].tolist()]
        for layer, letter in ((self.targets, TARGET), (self.boxes, BOX)):
            for cell in layer[number].nonzero().flatten().tolist():
                cells[cell] = letter
        cells[int(self.agent[number])] = AGENT
        return "\n".join("".join(cells[row * SIDE : (row + 1) * SIDE]) for row in range(SIDE))


def parse_levels(text: str, source: str = "the text") -> Levels:
    """Read levels. Each begins with a line that starts with `;`, followed by rows of `#` wall, `.` target, `$` box, `@`
    agent and space.

    Levels smaller than 10 x 10 are put into the upper left corner, with walls around.

    >>> levels = parse_levels('''; 0
    ... #####
    ... #@$.#
    ... #####''')
    >>> len(levels), int(levels.agent[0]), levels.open_cells
    (1, 11, 3)
    """
    found: list[list[str]] = []
    rows: list[str] = []
    for line in text.splitlines():
        if line.startswith(";") or not line.strip():
            rows = []
        else:
            if not rows:
                found.append(rows)
            rows.append(line)
    if not found:
        raise ValueError(f"{source} has no levels in it")
    letters = "".join(_check(rows, f"level {number} of {source}") for number, rows in enumerate(found))
    cells = torch.frombuffer(bytearray(letters, "ascii"), dtype=torch.uint8).view(-1, CELLS)
    agent = (cells == ord(AGENT)).int().argmax(1)
    return Levels(cells == ord(WALL), cells == ord(TARGET), cells == ord(BOX), agent)


def load_levels(folder: Path | str, split: str) -> Levels:
    """All levels of a split in a Boxoban folder: every `.txt` file of `FOLDER/SPLIT`, in the order of their names.

    `folder` may be Boxoban's difficulty (`unfiltered`) or the folder above it that holds `unfiltered`.

    >>> levels = load_levels("boxoban-levels", "test")  # doctest: +SKIP
    """
    folder = Path(folder)
    places = [folder / split, folder / "unfiltered" / split]
    for place in places:
        files = sorted(place.glob("*.txt"))
        if files:
            return join_levels(parse_levels(read_text(file), str(file)) for file in files)
    raise ValueError(f"there are no Boxoban levels (*.txt) in {places[0]} or {places[1]}")


def join_levels(parts: Iterable[Levels]) -> Levels:
    """Concatenate several collections of levels."""
    parts = list(parts)
    fields = ("walls", "targets", "boxes", "agent")
    return Levels(*(torch.cat([getattr(part, field) for part in parts]) for field in fields))


def _check(rows: list[str], name: str) -> str:
    """The hundred letters of a level; ValueError where it is not valid."""
    if len(rows) > SIDE or max(map(len, rows)) > SIDE:
        raise ValueError(f"{name} is larger than {SIDE} x {SIDE}")
    letters = "".join(row.ljust(SIDE, WALL) for row in rows).ljust(CELLS, WALL)
    strange = sorted(set(letters) - {WALL, FLOOR, TARGET, BOX, AGENT})
    if strange:
        raise ValueError(f"{name} has the character {strange[0]!r}; it may have '#', '.', '$', '@' and spaces")
    if letters.count(AGENT) != 1:
        raise ValueError(f"{name} must have one agent '@', got {letters.count(AGENT)}")
    if not letters.count(BOX) == letters.count(TARGET) > 0:
        raise ValueError(
            f"{name} must have as many boxes '$' as targets '.', got {letters.count(BOX)} and {letters.count(TARGET)}"
        )
    border = letters[:SIDE] + letters[-SIDE:] + letters[::SIDE] + letters[SIDE - 1 :: SIDE]
    if set(border) != {WALL}:
        raise ValueError(f"{name} must have walls all around")
    return letters
