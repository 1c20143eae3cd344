"""What is tried where Triton fails; that it compiles on a GPU is tested there."""

import pytest
import torch
from torch._inductor import compile_fx, config
from torch._inductor.exc import InductorError
from torch.fx import symbolic_trace

from relational_transformer.training.cuda_compiler import ATTEMPTS, compile_pass


def failing(times: int, seen: list[dict]):
    """The compiler, which fails so many times; as the real one it rewrites what it is given."""

    def compile_inner(graph, inputs, **arguments):
        nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
        seen.append({"options": {name: getattr(config, name) for name in ATTEMPTS[-1]}, "nodes": len(nodes)})
        for node in reversed(nodes):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        if len(seen) <= times:
            raise InductorError(RuntimeError("out of resource"), None)
        return "compiled"

    return compile_inner


@pytest.mark.parametrize("times", [0, 1, 2, len(ATTEMPTS) - 1])
def test_other_kernels_are_tried_after_a_failure_each_time_on_the_whole_pass(monkeypatch, times: int):
    seen: list[dict] = []
    before = {name: getattr(config, name) for name in ATTEMPTS[-1]}
    monkeypatch.setattr(compile_fx, "compile_fx_inner", failing(times, seen))
    graph = symbolic_trace(lambda x: torch.sin(torch.cos(x)))
    assert compile_pass(graph, [torch.zeros(2)]) == "compiled"
    assert [call["options"] for call in seen] == [{**before, **options} for options in ATTEMPTS[: times + 1]]
    assert {call["nodes"] for call in seen} == {2}
    assert {name: getattr(config, name) for name in ATTEMPTS[-1]} == before


def test_the_last_failure_is_told(monkeypatch):
    monkeypatch.setattr(compile_fx, "compile_fx_inner", failing(len(ATTEMPTS), []))
    with pytest.raises(InductorError, match="out of resource"):
        compile_pass(symbolic_trace(lambda x: torch.sin(x)), [torch.zeros(2)])
