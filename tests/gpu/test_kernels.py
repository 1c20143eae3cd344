"""The fused kernels on a CUDA device: exactness at many sizes, determinism, compile, CUDA graphs and memory."""

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from relational_transformer import RelationalTransformerLayer
from relational_transformer.nn import kernels
from tests.nn.kernels.cases import (
    AttentionCase,
    EdgeUpdateCase,
    PointerCase,
    assert_at_most_twice_the_plain_error,
    output_and_gradients,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers and profilers of torch warn about their own internals
]

PAPER_SIZES = {"node_size": 192, "edge_size": 192, "num_heads": 12, "head_size": 16, "node_hidden_size": 192}


@pytest.fixture(autouse=True)
def _tensor_cores():
    """float32 by tf32, in the kernels as in the plain path."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
@pytest.mark.parametrize("head_size", [8, 16, 28, 32, 64], ids=lambda size: f"head{size}")
def test_attention_is_as_exact_as_the_plain_path(head_size: int, dtype: torch.dtype):
    for nodes in (1, 3, 17, 64, 80, 130):
        case = AttentionCase(
            nodes, nodes, heads=5, head_size=head_size, edge_size=72, seeds=2, masked=nodes in (17, 80)
        )
        assert_at_most_twice_the_plain_error(case, dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def test_attention_at_the_papers_sizes(dtype: torch.dtype):
    for nodes in (16, 20, 64):
        case = AttentionCase(nodes, nodes, heads=12, head_size=16, edge_size=192, seeds=3, graphs=4)
        assert_at_most_twice_the_plain_error(case, dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
@pytest.mark.parametrize("sizes", [(192, 16, 8), (128, 16, 8), (72, 5, 3), (40, 32, 16)], ids=str)
def test_edge_update_is_as_exact_as_the_plain_path(sizes: tuple[int, int, int], dtype: torch.dtype):
    for nodes in (1, 3, 16, 17, 64, 80, 130):
        assert_at_most_twice_the_plain_error(EdgeUpdateCase(nodes, *sizes, seeds=2, graphs=2), dtype)


@pytest.mark.parametrize("channels", [128, 192])
def test_kernels_of_rows_are_as_exact_as_the_plain_path(channels: int):
    with kernels.use_kernels(True):
        for nodes in (1, 17, 21, 24, 33, 47, 57, 64, 128, 256):
            attention = AttentionCase(
                nodes, nodes, channels // 16, 16, channels, seeds=2, graphs=2, masked=nodes % 2 > 0
            )
            assert_at_most_twice_the_plain_error(attention, torch.bfloat16)
            assert_at_most_twice_the_plain_error(
                EdgeUpdateCase(nodes, channels, 16, 8, seeds=2, graphs=2), torch.bfloat16
            )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def test_pointer_scores_are_as_exact_as_the_plain_path(dtype: torch.dtype):
    for nodes, channels in ((1, 3), (5, 72), (16, 192), (20, 128), (64, 192), (100, 64)):
        assert_at_most_twice_the_plain_error(PointerCase(nodes**2, nodes, channels, features=2, seeds=2), dtype)


def test_the_same_inputs_give_the_same_bits():
    for case in (
        AttentionCase(16, 16, heads=12, head_size=16, edge_size=192, seeds=20, graphs=4),
        EdgeUpdateCase(16, 192, 16, 8, seeds=20, graphs=4),
        PointerCase(256, 16, 192, features=2, seeds=3, graphs=4),
    ):
        inputs = case.inputs(torch.bfloat16)
        fused, _ = case.functions()
        gradient = torch.randn_like(fused(*inputs))
        for mode in ("auto", True):  # `True`: by rows
            with kernels.use_kernels(mode):
                once, again = (output_and_gradients(fused, inputs, gradient) for _ in range(2))
            assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


def fleet(seeds: int):
    """A layer for each seed, in bfloat16 with float32 parameters in the attention and edge update kernels' hands."""
    layers = [RelationalTransformerLayer(**PAPER_SIZES).cuda() for _ in range(seeds)]
    parameters, _ = stack_module_state(layers)
    parameters = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}

    def run(parameters, nodes, edges):
        return functional_call(layers[0], parameters, (nodes, edges))

    return vmap(run), parameters


def test_a_compiled_fleet_trains_as_the_plain_one():
    run, parameters = fleet(3)
    nodes, edges = torch.randn(3, 4, 16, 192, device="cuda"), torch.randn(3, 4, 16, 16, 192, device="cuda")
    results = []
    for fused in (False, True):
        with kernels.use_kernels(fused):
            torch.compiler.reset()
            step = torch.compile(run, fullgraph=True) if fused else run
            out = step(parameters, nodes, edges)
            loss = out[0].square().mean() + (out[1] * edges).mean()
            results.append([*out, *torch.autograd.grad(loss, list(parameters.values()))])
    for plain, fast in zip(*results, strict=True):
        # tf32 and two ReLUs between them: near a kink a rounding turns a gradient on or off.
        assert (plain - fast).norm() <= 2e-2 * plain.norm()


def test_a_training_step_runs_inside_a_cuda_graph():
    run, parameters = fleet(2)
    nodes, edges = torch.randn(2, 4, 16, 192, device="cuda"), torch.randn(2, 4, 16, 16, 192, device="cuda")

    def step():
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}
        out = run(leaves, nodes, edges)
        return torch.autograd.grad(out[0].sum() + (out[1] * edges).sum(), list(leaves.values()))

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with kernels.use_kernels(True):
        with torch.cuda.stream(stream):
            expected = [step() for _ in range(2)][-1]
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))


def test_large_graphs_need_less_memory_than_the_plain_path():
    peaks = {}
    for fused in (True, False):
        layer = RelationalTransformerLayer(**{**PAPER_SIZES, "edge_size": 128}).cuda()
        nodes = torch.randn(4, 256, 192, device="cuda")
        edges = torch.randn(4, 256, 256, 128, device="cuda", requires_grad=True)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()  # other tests may have left something
        with kernels.use_kernels(fused):
            out = layer(nodes, edges)
            (out.nodes.sum() + out.edges.square().sum()).backward()
        peaks[fused] = (torch.cuda.max_memory_allocated() - before) / (edges.numel() * edges.element_size())
        del out
    assert peaks[True] < 0.6 * peaks[False]


def test_large_graphs_in_bfloat16_take_the_kernels_by_themselves():
    layer = RelationalTransformerLayer(**PAPER_SIZES).cuda().bfloat16()
    for nodes, is_large in ((48, False), (64, True)):
        inputs = torch.randn(2, nodes, 192, device="cuda"), torch.randn(2, nodes, nodes, 192, device="cuda")
        results = {}
        for mode in ("auto", is_large, not is_large):
            with kernels.use_kernels(mode), torch.no_grad():
                results[mode] = layer(*(tensor.bfloat16() for tensor in inputs)).edges
        assert torch.equal(results["auto"], results[is_large])
        assert not torch.equal(results["auto"], results[not is_large])


@pytest.mark.parametrize(("graphs", "nodes", "edge_size"), [(32, 64, 192), (4, 256, 128)], ids=str)
def test_evaluation_needs_little_more_memory_than_the_new_edges(graphs: int, nodes: int, edge_size: int):
    sizes = {**PAPER_SIZES, "edge_size": edge_size, "num_heads": edge_size // 16}
    layer = RelationalTransformerLayer(**sizes).cuda().bfloat16()
    inputs = [
        torch.randn(graphs, nodes, 192, device="cuda").bfloat16(),
        torch.randn(graphs, nodes, nodes, edge_size, device="cuda").bfloat16(),
    ]
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with kernels.use_kernels(True), torch.no_grad():
        layer(*inputs)
    peak = torch.cuda.max_memory_allocated() - before
    assert peak < 1.5 * inputs[1].numel() * inputs[1].element_size()


def _move_off_kinks(layer: RelationalTransformerLayer) -> None:
    """Hidden units that are always on or always off, in turns: where one may be either, its rounding decides whole
    gradients (a bias of 16 hidden units is off by 10 in a norm of 250 then, in any bfloat16 path, and by 0.2 here)."""
    hidden = [layer.node_feed_forward_in]
    if layer.edge_update is not None:
        hidden += [layer.edge_update.message_in, layer.edge_update.feed_forward_in]
    with torch.no_grad():
        for linear in hidden:  # what is added to the bias is about 0.6 large
            linear.bias.fill_(4.0)
            linear.bias[1::2] = -4.0


@pytest.mark.parametrize("update_edges", [True, False], ids=["edges", "no_edges"])
def test_a_layer_as_one_kernel_is_as_exact_as_the_plain_layer_and_always_the_same(update_edges: bool):
    for count in (16, 20, 5):
        torch.manual_seed(count)
        inputs = [torch.randn(4, count, 192), torch.randn(4, count, count, 192)]
        gradients = [torch.randn_like(tensor) for tensor in inputs]
        sizes = {**PAPER_SIZES, "node_hidden_size": 32}
        layer = RelationalTransformerLayer(**sizes, update_edges=update_edges).bfloat16().cuda()
        _move_off_kinks(layer)
        found = {}
        for path, dtype, fused in (
            ("fused", torch.bfloat16, True),
            ("again", torch.bfloat16, True),
            ("plain", torch.bfloat16, False),
            ("exact", torch.float64, False),
        ):
            layer = layer.to(dtype)
            leaves = [tensor.bfloat16().to("cuda", dtype).requires_grad_() for tensor in inputs]
            with kernels.use_kernels(fused):
                outputs = layer(*leaves)
            given = [tensor.bfloat16().to("cuda", dtype) for tensor in gradients]
            made = torch.autograd.grad(outputs, [*leaves, *layer.parameters()], given)
            found[path] = [tensor.double() for tensor in (*outputs, *made)]
        for fused, again, plain, exact in zip(*found.values(), strict=True):
            assert torch.equal(fused, again)
            rounding = (exact.bfloat16().double() - exact).norm()  # what the best bfloat16 numbers are off by
            assert (fused - exact).norm() <= 2 * (plain - exact).norm() + rounding
