"""Levels from text and folders."""

import pytest
import torch

from relational_transformer.sokoban import Levels, load_levels, parse_levels
from tests.sokoban.small import CORRIDOR, ROOMS, write_levels

BOXOBAN = """; 0
##########
###    . #
## .   $.#
##    .$ #
#####    #
####   ###
##### $###
#####$ ###
#####@####
##########
"""


def test_a_level_is_read_cell_by_cell():
    levels = parse_levels(BOXOBAN)
    assert len(levels) == 1
    assert int(levels.agent[0]) == 85
    assert levels.boxes[0].nonzero().flatten().tolist() == [27, 37, 66, 75]
    assert levels.targets[0].nonzero().flatten().tolist() == [17, 23, 28, 36]
    assert levels.open_cells == 32


def test_small_levels_are_surrounded_by_walls():
    levels = parse_levels(CORRIDOR)
    assert (~levels.walls[0]).nonzero().flatten().tolist() == [11, 12, 13, 14]
    assert levels.open_cells == 4


def test_text_of_levels_is_read_back_as_the_same_levels():
    levels = parse_levels(BOXOBAN + "\n" + ROOMS)
    again = parse_levels(levels.as_text())
    for name in ("walls", "targets", "boxes", "agent"):
        assert torch.equal(getattr(again, name), getattr(levels, name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("; 0\n###\n#@#\n###", "as many boxes '[$]' as targets '[.]', got 0 and 0"),
        ("; 0\n#####\n#@$ #\n#####", "got 1 and 0"),
        ("; 0\n#####\n#$.##\n#####", "must have one agent '@', got 0"),
        ("; 0\n#####\n#@$.*\n#####", r"has the character '\*'"),
        ("; 0\n####\n@$.#\n####", "must have walls all around"),
        ("; 0\n" + "#" * 11, "is larger than 10 x 10"),
        ("; 0\n", "has no levels in it"),
    ],
)
def test_what_is_no_level_is_named(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        parse_levels(text, "file.txt")


def test_files_of_a_folder_are_read_in_order(tmp_path):
    folder = write_levels(tmp_path / "unfiltered")
    (tmp_path / "unfiltered" / "train" / "001.txt").write_text(CORRIDOR)
    for given in (folder, tmp_path):
        levels = load_levels(given, "train")
        assert len(levels) == 3
        assert levels[2].open_cells == 4


def test_a_file_that_is_no_text_is_named(tmp_path):
    folder = write_levels(tmp_path)
    (tmp_path / "test" / "000.txt").write_bytes(b"\xff\xfe#")
    with pytest.raises(ValueError, match=r"000\.txt is not text"):
        load_levels(folder, "test")


def test_a_folder_without_levels_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no Boxoban levels .* in .*/train or .*/unfiltered/train"):
        load_levels(tmp_path, "train")


def test_levels_are_picked_by_number():
    levels = parse_levels(ROOMS)
    assert isinstance(levels[1], Levels)
    assert int(levels[-1].agent[0]) == int(levels.agent[1])
    with pytest.raises(ValueError, match="there are levels 0 to 1, not 2"):
        levels[2]


def test_a_digest_tells_levels_from_others():
    levels = parse_levels(BOXOBAN + "\n" + ROOMS)
    assert parse_levels(levels.as_text()).digest == levels.digest
    assert levels[torch.tensor([1, 0, 2])].digest != levels.digest
    moved = parse_levels((BOXOBAN + "\n" + ROOMS).replace("#@    #", "# @   #"))
    assert moved.digest != levels.digest
    assert parse_levels(BOXOBAN).digest == "c71673f9027755c1", "it is published with results: it must never change"
