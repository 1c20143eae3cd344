"""The benchmark that counts launches in generated code, without a GPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_counts_what_every_piece_of_a_step_launches():
    command = [sys.executable, "benchmarks/launches.py", "insertion_sort", "rt", "--seeds", "2"]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "a training step of 16 hints" in done.stdout
    rows = re.findall(r"^ +(\d+) +(\d+) \+ (\d+) +(\d+) \+ (\d+)$", done.stdout, re.MULTILINE)
    counts = [tuple(map(int, row)) for row in rows]
    (total,) = re.findall(r"(\d+) launches", done.stdout)
    assert sum(calls * sum(launches) for calls, *launches in counts) == int(total)
    ((_, *of_step),) = [row for row in counts if row[0] == 14]  # between the layers of 15 steps
    assert all(of_step), "kernels and products, forward and backward"
