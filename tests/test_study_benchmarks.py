"""The benchmarks in which small models learn: what they train on, and that they print a row for each model."""

import runpy
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def rows_of(*command: str) -> list[list[str]]:
    """The table that a benchmark prints, without its two first lines."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]


def test_the_right_first_moves_begin_the_shortest_solutions():
    best_moves = runpy.run_path(str(ROOT / "benchmarks" / "sokoban_first_moves.py"))["best_moves"]
    corridor = {11, 12, 13, 14}
    assert best_moves(corridor, target=14) == {(11, 12): [4], (11, 13): [4], (12, 13): [4]}
    room = {11, 12, 13, 21, 22, 23, 31, 32, 33}
    found = best_moves(room, target=23)
    assert found[21, 22] == [4]  # the box is pushed to the right, onto the target
    assert found[31, 22] == [1]  # first to the left of the box
    assert found[11, 22] == [2]
    assert (31, 12) not in found  # a box at a wall without a target never leaves it


def test_positions_are_those_of_the_seed_and_have_a_right_move():
    positions = runpy.run_path(str(ROOT / "benchmarks" / "sokoban_first_moves.py"))["positions"]
    seen, right = positions(30, seed=1)
    assert len(seen.core) == len(right) >= 30
    assert right.sum(-1).min() >= 1
    assert not right[:, 0].any()  # waiting is never right
    assert torch.equal(positions(30, seed=1)[1], right)
    assert not torch.equal(positions(30, seed=2)[1], right)


def test_agents_learn_first_moves_and_are_printed():
    numbers = ["--updates", "2", "--report", "1", "--batch", "4", "--positions", "60"]
    (row,) = rows_of("benchmarks/sokoban_first_moves.py", *numbers, "--models", "transformer")
    assert row[:4] == ["transformer", "1", "0.0003", "0"]
    shares = [float(share) for share in row[4].split()]
    assert len(shares) == 2
    assert all(0 < share < 1 for share in shares)
