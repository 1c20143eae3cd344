"""The benchmark that times what comes before the first step."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_times_every_part_with_empty_and_with_filled_caches():
    command = [sys.executable, "benchmarks/first_step.py", "segments_intersect", "--seeds", "1", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    heading, empty, filled = done.stdout.splitlines()
    assert heading.split() == ["caches", "imports", "device", "examples", "trainer", "step", "in", "all"]
    for row, state in ((empty, "empty"), (filled, "filled")):
        assert row.split()[:2] == ["segments_intersect", state]
        *parts, whole = [float(processor) for processor in re.findall(r"\((\d+\.\d\d)\)", row)]
        assert sum(parts) == pytest.approx(whole, abs=0.04)
        assert min(parts[0], parts[-1]) > 0
