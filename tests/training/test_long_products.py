"""Long products of few seeds are cut into pieces; all other products are left as they are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from relational_transformer.sokoban import AgentSettings
from relational_transformer.sokoban.agent import Agent
from relational_transformer.training.compiling import compiled_for
from relational_transformer.training.over_seeds import over_seeds

pytestmark = pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals

LENGTH = 3 * 2**12


def gradient(rows: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """The weight's gradient of a Linear [S, K, in] -> [S, K, out] with a weight for every seed."""
    weight = weight.detach().requires_grad_()
    return torch.autograd.grad((torch.bmm(rows, weight.mT) * target).sum(), weight)[0]


def draw(length: int = LENGTH, dtype: torch.dtype = torch.float64, sizes: tuple[int, int] = (24, 12)) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, length, sizes[0]), (2, sizes[1], sizes[0]), (2, length, sizes[1])]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def cut(function: Callable[..., Any], *inputs: Tensor) -> tuple[GraphModule, bool]:
    """A function's graph with its long products cut, and whether there were any."""
    from relational_transformer.training.long_products import cut_long_products

    graph = make_fx(function, tracing_mode="fake")(*inputs)
    before = graph.code
    cut_long_products(graph.graph)
    graph.recompile()
    return graph, graph.code != before


def products(graph: GraphModule) -> list[tuple[torch.Size, torch.Size]]:
    """The shapes of what a graph multiplies."""
    nodes = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.bmm.default)
    return [(node.args[0].meta["val"].shape, node.args[1].meta["val"].shape) for node in nodes]


def test_the_gradient_of_a_weight_is_the_same_in_pieces():
    inputs = draw()
    graph, is_cut = cut(gradient, *inputs)
    assert is_cut
    assert products(graph)[-1] == ((2 * 24, 24, LENGTH // 24), (2 * 24, LENGTH // 24, 12))
    torch.testing.assert_close(graph(*inputs), gradient(*inputs), rtol=1e-12, atol=1e-12)


def test_a_new_graph_says_what_its_tensors_are():
    inputs = draw(dtype=torch.bfloat16)
    graph, _ = cut(gradient, *inputs)
    fake = [node.meta["val"] for node in graph.graph.nodes if node.op == "call_function"]
    found: list[Tensor] = []

    class Look(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            found.append(super().call_function(target, args, kwargs))
            return found[-1]

    Look(graph).run(*inputs)
    said, true = ([(one.shape, one.stride(), one.dtype) for one in values] for values in (fake, found))
    assert said == true


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.empty(2, 64, 1024), torch.empty(2, 1024, 64)),
        (torch.empty(40, 64, LENGTH), torch.empty(40, LENGTH, 64)),
        (torch.empty(2, 1024, LENGTH), torch.empty(2, LENGTH, 1024)),
        (torch.empty(2, 64, LENGTH), torch.empty(2, LENGTH, 64)),
        (torch.empty(2, LENGTH, 64).mT, torch.empty(LENGTH, 2, 64).transpose(0, 1)),
        (torch.empty(2, 12_289, 64).mT, torch.empty(2, 12_289, 64)),
    ],
    ids=["short", "many seeds", "large", "rows apart on the left", "seeds side by side on the right", "a prime length"],
)
def test_other_products_are_left_alone(left: Tensor, right: Tensor):
    assert not cut(torch.bmm, left, right)[1]


@pytest.mark.parametrize(
    ("shape", "pieces"),
    [
        ((2, 128, 89_600, 128), 64),  # 128 of 132 multiprocessors
        ((2, 512, 89_600, 128), 16),
        ((2, 16, 25_088, 128), 49),
        ((1, 16, 2**13, 16), 16),  # of the shortest length
        ((16, 128, 2**14, 128), 8),
    ],
)
def test_pieces_keep_a_device_busy(shape: tuple[int, int, int, int], pieces: int):
    from relational_transformer.training.long_products import num_pieces

    assert num_pieces(*shape) == pieces


def test_pieces_in_bfloat16_are_about_as_exact_as_one_sum():
    inputs = draw(2**15, torch.bfloat16, sizes=(64, 64))
    exact = gradient(*(tensor.double() for tensor in inputs))
    graph, is_cut = cut(gradient, *inputs)
    assert is_cut
    assert graph(*inputs).dtype == torch.bfloat16
    ours, whole = ((result.double() - exact).norm() for result in (graph(*inputs), gradient(*inputs)))
    assert ours <= 1.5 * whole


def compiled_gradients(noted: list[GraphModule], monkeypatch) -> list[Tensor]:
    """Gradients of a Linear by the compiler of CUDA, on a CPU; notes what its passes make of the graphs."""
    from torch._inductor.graph import GraphLowering

    class Noting(GraphLowering):
        def __init__(self, graph: GraphModule, *args, **options) -> None:
            noted.append(graph)
            super().__init__(graph, *args, **options)

    monkeypatch.setattr("torch._inductor.compile_fx.GraphLowering", Noting)
    torch.compiler.reset()
    rows, weight, target = draw()
    weight.requires_grad_()
    compiled = compiled_for(lambda rows, weight: torch.bmm(rows, weight.mT).relu(), torch.device("cuda"))
    with torch._inductor.utils.fresh_cache():
        compiled(rows, weight).backward(target)
    assert weight.grad is not None
    return [weight.grad, gradient(rows, weight, target * (torch.bmm(rows, weight.mT) > 0))]


@pytest.mark.slow
def test_long_products_are_cut_where_a_fleet_is_compiled(monkeypatch):
    noted: list[GraphModule] = []
    ours, expected = compiled_gradients(noted, monkeypatch)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    forward, backward = noted
    assert products(forward) == [((2, LENGTH, 24), (2, 24, 12))]
    assert [left[0] for left, _ in products(backward)] == [2 * 24]


@pytest.mark.slow
def test_long_products_are_cut_in_every_attempt(monkeypatch):
    """The first of them fails in both passes."""
    from torch._inductor import compile_fx, config

    from relational_transformer.training.cuda_compiler import ATTEMPTS, InductorError

    compile = compile_fx.compile_fx_inner

    def fail_at_first(*args, **options) -> Any:
        if config.max_fusion_size > 4:
            raise InductorError(RuntimeError("PassManager::run failed"), None)  # pyright: ignore[reportArgumentType]
        return compile(*args, **options)

    assert ATTEMPTS[1] == {"max_fusion_size": 4}
    monkeypatch.setattr(compile_fx, "compile_fx_inner", fail_at_first)
    noted: list[GraphModule] = []
    ours, expected = compiled_gradients(noted, monkeypatch)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    assert [left[0] for left, _ in products(noted[-1])] == [2 * 24]


def test_caches_of_the_compiler_know_the_pass():
    from torch._inductor import config
    from torch._inductor.codecache import FxGraphHashDetails

    from relational_transformer.training.cuda_compiler import OPTIONS

    graph = make_fx(lambda x: x + 1)(torch.ones(2))
    with config.patch(OPTIONS):
        details = FxGraphHashDetails(graph, [], {}, [])  # pyright: ignore[reportArgumentType]
    assert details.post_grad_custom_pre_pass == OPTIONS["post_grad_custom_pre_pass"].uuid()


def traced_layer(num_games: int, num_nodes: int) -> dict[str, GraphModule]:
    """The passes of an RT agent's layer at its published sizes, for two seeds; nothing is computed."""
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._inductor import compile_fx

    graphs: dict[str, GraphModule] = {}

    def note(graph: GraphModule, inputs: Any, **arguments: Any) -> Callable[..., Any]:
        graphs["backward" if arguments.get("is_backward") else "forward"] = graph
        return make_boxed_func(graph.forward)

    settings = AgentSettings(num_layers=2)
    layer = Agent("rt", settings).layers[0]
    call = over_seeds(layer, "forward")
    torch.compiler.reset()
    compiled = torch.compile(
        call, fullgraph=True, dynamic=False, backend=lambda *args: compile_fx.compile_fx(*args, inner_compile=note)
    )
    with FakeTensorMode(allow_non_fake_inputs=True):
        options = {"dtype": torch.bfloat16, "requires_grad": True}
        parameters = {name: torch.empty(2, *value.shape, **options) for name, value in layer.named_parameters()}
        nodes = torch.empty(2, num_games, num_nodes, settings.size, **options)
        edges = torch.empty(2, num_games, num_nodes, num_nodes, settings.edge_size, **options)
        out = compiled(parameters, nodes, edges, torch.empty(2, num_games, num_nodes, dtype=torch.bool))
        torch.autograd.grad([value.float().sum() for value in out], [*parameters.values(), nodes, edges])
    return graphs


def test_all_gradients_of_weights_that_act_on_edges_are_cut():
    from relational_transformer.training.long_products import cut_long_products

    rows = 8 * 56 * 56
    graphs = traced_layer(num_games=8, num_nodes=56)
    before = {name: products(graph) for name, graph in graphs.items()}
    for graph in graphs.values():
        cut_long_products(graph.graph)
    assert products(graphs["forward"]) == before["forward"]
    was_cut = [shapes for shapes in before["backward"] if shapes not in products(graphs["backward"])]
    assert was_cut == [shapes for shapes in before["backward"] if shapes[0][-1] == rows]
    # The edge update's four Linears from its last to its first, of both directions, then the queries and keys.
    sizes = [(left[1], right[2]) for left, right in was_cut]
    assert sizes == [(12, 128), (128, 12), (64, 128), (128, 128), (128, 512)]
    new = [left for left, _ in products(graphs["backward"]) if left[0] * left[2] == 2 * rows]
    assert [left[0] // 2 for left in new] == [49, 49, 49, 49, 16]
