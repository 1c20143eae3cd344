"""On CUDA a pass that the compiler fails on is compiled with other kernels."""

from collections.abc import Callable
from inspect import currentframe
from typing import Any

import pytest
import torch
from torch import Tensor

from relational_transformer.fleet.compiling import compiled_for

pytestmark = pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals


Attempt = tuple[int, bool]
"""How many operations a kernel may have at most, and whether sums are each launched alone."""

ATTEMPTS = [(64, False), (4, False), (64, True), (4, True), (1, True)]


class Compiler:
    """Stands in for Inductor: runs a graph as it is if the attempt `works`, else fails, having spoilt it."""

    def __init__(self, works: Callable[[Attempt], bool]) -> None:
        self.works = works
        self.tried: dict[str, list[Attempt]] = {"forward": [], "backward": []}
        self.options: list[dict[str, bool]] = []

    def __call__(self, graph, inputs, **arguments) -> Callable[..., Any]:
        from torch._functorch.aot_autograd import make_boxed_func
        from torch._inductor import config
        from torch._inductor.exc import InductorError

        self.options.append({name: getattr(config, name) for name in ("combo_kernels", "deterministic")})
        self.options[-1]["merged"] = config.triton.mix_order_reduction
        attempt = config.max_fusion_size, config.combo_kernels_pointwise_only
        self.tried["backward" if arguments.get("is_backward") else "forward"].append(attempt)
        if self.works(attempt):
            return make_boxed_func(graph.forward)
        for node in graph.graph.nodes:
            if node.op == "call_function":
                node.target, node.args = torch.ops.aten.neg.default, node.args[:1]
        raise InductorError(RuntimeError("PassManager::run failed"), currentframe())


@pytest.fixture
def compiler(request, monkeypatch) -> Compiler:
    compiler = Compiler(request.param)
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx_inner", compiler)
    torch.compiler.reset()
    return compiler


def result_and_gradient(values: Tensor) -> tuple[Tensor, Tensor]:
    compiled = compiled_for(lambda x: (x.sin() * x).sum(), torch.device("cuda"))  # tensors may be elsewhere
    leaf = values.detach().requires_grad_()
    result = compiled(leaf)
    (gradient,) = torch.autograd.grad(result, leaf)
    return result.detach(), gradient


@pytest.mark.parametrize(
    ("compiler", "number"),
    [
        (lambda attempt: True, 1),
        (lambda attempt: attempt[0] <= 4, 2),
        (lambda attempt: attempt[1], 3),
        (lambda attempt: attempt == (4, True), 4),
        (lambda attempt: attempt[0] == 1, 5),
    ],
    indirect=["compiler"],
)
def test_both_passes_get_the_first_kernels_that_compile(compiler: Compiler, number: int):
    values = torch.linspace(-2, 2, 7)
    result, gradient = result_and_gradient(values)
    torch.testing.assert_close(result, (values.sin() * values).sum())
    torch.testing.assert_close(gradient, values.cos() * values + values.sin())
    assert compiler.tried == {"forward": ATTEMPTS[:number], "backward": ATTEMPTS[:number]}
    assert all(
        options == {"combo_kernels": True, "deterministic": True, "merged": False} for options in compiler.options
    )


@pytest.mark.parametrize("compiler", [lambda attempt: False], indirect=True)
def test_what_fails_with_all_of_them_is_an_error(compiler: Compiler):
    with pytest.raises(Exception, match="PassManager::run failed"):
        result_and_gradient(torch.ones(3))
    assert compiler.tried["forward"] == ATTEMPTS
