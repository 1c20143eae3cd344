"""Without numba the same source runs as plain Python, with the same result."""

import json
import subprocess
import sys

import pytest

from relational_transformer.clrs import ALGORITHMS, compiled, sample, tracing
from relational_transformer.clrs.samples import random_graphs

# Hides numba from the import that follows, then prints a digest of every algorithm.
WITHOUT_NUMBA = """
import json, sys
sys.modules["numba"] = None
from relational_transformer.clrs import ALGORITHMS, compiled, sample
assert not compiled.HAVE_NUMBA
print(json.dumps({name: sample(name, 2, 5, 3).digest() for name in ALGORITHMS}))
"""


def test_plain_python_gives_the_same_bits():
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_NUMBA], capture_output=True, check=True
    ).stdout
    assert json.loads(output) == {name: sample(name, 2, 5, 3).digest() for name in ALGORITHMS}


@pytest.mark.skipif(not compiled.HAVE_NUMBA, reason="needs numba")
def test_compiled_code_lets_other_threads_run():
    for function in (random_graphs._fill_directed, tracing._scatter, tracing._runner("bfs")):
        assert getattr(function, "targetoptions")["nogil"]  # noqa: B009


def test_compiled_code_is_named_after_its_sources(tmp_path):
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text("x = 1\n")
    second.write_text("x = 2\n")
    assert compiled._source_digest(str(first)) != compiled._source_digest(str(second))


def test_a_function_is_compiled_once_for_all_whole_numbers():
    numba = pytest.importorskip("numba")

    @compiled.compiled
    def double(number):
        return 2 * number

    @numba.njit
    def doubles(other):
        return double(1) + double(2) + double(number=3) + double(other)

    assert doubles(4) == 20
    assert len(getattr(double, "signatures")) == 1  # noqa: B009
