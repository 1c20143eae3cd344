"""The benchmark that counts what a run compiles before its first step, without a GPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_counts_the_versions_and_kernels_of_every_piece(tmp_path):
    command = [sys.executable, "benchmarks/start.py", "segments_intersect", "--protocol", "modern", "--sizes", "4"]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [*command, "--seeds", "2"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    rows = re.findall(r"^(\w[\w ]*?) +(\d+) +(\d+) +(\d+) +[\d.]+ s +[\d.]+ s +[\d.]+ s$", done.stdout, re.MULTILINE)
    *pieces, (_, *total) = [(name, *map(int, counts)) for name, *counts in rows]
    assert [sum(column) for column in zip(*(counts for _, *counts in pieces), strict=True)] == total
    of_step = {name: (versions, graphs) for name, versions, graphs, _ in pieces[:8]}
    assert of_step["between"] == (1, 2), "one size, forward and backward"
    assert {name for name, *_ in pieces} >= {"prepare", "begin", "between", "leave", "go_on", "tally"}
    assert all(kernels > 0 for *_, kernels in pieces)
