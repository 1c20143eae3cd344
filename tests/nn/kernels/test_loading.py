"""What is written in Triton is loaded when it is first asked for, wherever that is."""

import os
import subprocess
import sys

import pytest

from relational_transformer.nn import kernels

FIRST_CALL = """
import sys, torch
from relational_transformer.nn import kernels

def made_by(graph, inputs):
    print([str(node.target) for node in graph.graph.nodes if "relational_transformer" in str(node.target)])
    return lambda *arguments: [torch.zeros(2, 1, 9, 3, 1)]

print("triton" in sys.modules)
inputs = torch.randn(2, 1, 9, 1, 4), torch.randn(2, 1, 3, 1, 4), torch.randn(2, 1, 4)
torch.compile(torch.vmap(lambda *inputs: kernels.pointer_scores(*inputs)), fullgraph=True, backend=made_by)(*inputs)
"""


def test_a_first_call_may_be_in_what_is_compiled():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    finished = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, env=environment)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == ["False", "['relational_transformer.pointer_scores.default']"]


def test_every_name_of_the_interface_is_there():
    assert all(getattr(kernels, name) is not None for name in kernels.__all__)


def test_a_name_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match="has no attribute 'matmul'"):
        kernels.matmul  # noqa: B018
