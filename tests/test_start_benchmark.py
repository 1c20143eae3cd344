"""The benchmark that counts what a run compiles before its first step, without a GPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """
import runpy, sys
from dataclasses import replace
from types import SimpleNamespace
from torch._inductor import codecache
from relational_transformer.processors.settings import TUNED

def load_first(name, source):
    none = SimpleNamespace(precompile=lambda warm_cache_only: None)
    return load(name, source) if name.endswith("_0") else none

load, codecache._load_triton_kernel_from_source = codecache._load_triton_kernel_from_source, load_first
TUNED["rt"] = replace(TUNED["rt"], num_layers=1)
sys.path.insert(0, "benchmarks")
runpy.run_path("benchmarks/start.py", run_name="__main__")
"""
"""The benchmark for one layer in place of three, which makes machine code of the first kernel of every graph alone."""


@pytest.mark.slow
def test_counts_the_versions_and_kernels_of_every_piece(tmp_path):
    command = [sys.executable, "-c", PROGRAM, "segments_intersect", "--protocol", "modern", "--sizes", "4"]
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
