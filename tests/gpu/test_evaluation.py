"""Layers that keep nothing, and the validation made of them, on a CUDA device."""

import pytest
import torch

from relational_transformer.clrs import sample
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import set_precision
from relational_transformer.nn import kernels
from relational_transformer.nn.kernels.whole_layer.inference import Inference
from relational_transformer.nn.kernels.whole_layer.operator import OPERATORS
from relational_transformer.nn.kernels.whole_layer.packing import orders_on, pack_forward
from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training.data import load_split
from relational_transformer.training.evaluation import Evaluator
from relational_transformer.training.fused_step import KernelLayers
from tests.nn.kernels.whole_layer.test_whole_layer import make_inputs, make_layer, with_and_without_edge_update

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers of torch warn about their own internals
]


def make_evaluator(
    task: str, seeds: int, examples: int, *, compiled: bool, model: str = "rt"
) -> tuple[Evaluator, Fleet]:
    settings, device = find_settings(model), torch.device("cuda")
    models = [initialise(lambda: build_network(task, settings), seed) for seed in range(seeds)]
    network = models[0].to(device)
    set_precision("bf16", network)
    split = load_split(network, sample(task, examples, 16, 0), device)
    evaluator = Evaluator(network, split, seeds, "bf16", compiled=compiled)
    if evaluator._fused is None or not evaluator._fused.fits:
        pytest.skip("layers are no kernels on this device")
    return evaluator, Fleet(models, device)


@with_and_without_edge_update
@pytest.mark.parametrize("nodes", [5, 16, 20])
def test_layers_that_keep_nothing_make_the_same_bits(nodes: int, update_edges: bool):
    layer = make_layer(0, update_edges).bfloat16().cuda()
    inputs = [tensor.cuda() for tensor in make_inputs(1, 300, nodes=nodes)]
    if not kernels.is_one_kernel(layer, *inputs):
        pytest.skip("layers are no kernels on this device")
    parameters = {name: value.detach().unsqueeze(0) for name, value in layer.named_parameters()}
    operator = OPERATORS[update_edges]
    new_nodes, new_edges, *_ = operator.forward(*inputs, *(parameters[name] for name in operator.names))
    orders = orders_on(torch.device("cuda", torch.cuda.current_device()), update_edges)
    found_nodes, found_edges = Inference([pack_forward(parameters, orders)], update_edges=update_edges)(*inputs)
    assert torch.equal(found_nodes, new_nodes)
    assert torch.equal(found_edges, new_edges if update_edges else inputs[1])


@pytest.mark.parametrize("model", ["rt", "rt_no_edge_updates"])
def test_a_recorded_validation_is_repeated_with_the_parameters_of_the_day(model: str):
    evaluator, fleet = make_evaluator("binary_search", 3, 300, compiled=True, model=model)
    first = evaluator.scores(fleet.parameters)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = evaluator.scores(fleet.parameters)
    graph.replay()
    assert torch.equal(recorded, first)
    fleet.values.neg_()
    graph.replay()
    assert torch.equal(recorded, evaluator.scores(fleet.parameters))


@pytest.mark.parametrize(
    ("task", "model"),
    [
        *(("binary_search", "rt"), ("bfs", "rt"), ("naive_string_matcher", "rt"), ("bfs", "rt_no_edge_updates")),
    ],
)
def test_scores_are_about_those_of_whole_steps(monkeypatch, task: str, model: str):
    evaluator, fleet = make_evaluator(task, 3, 512, compiled=False, model=model)
    found = evaluator.scores(fleet.parameters)
    monkeypatch.setattr(KernelLayers, "fit", False)
    # Rounding turns some decisions of an untrained network.
    torch.testing.assert_close(found, evaluator.scores(fleet.parameters), rtol=0.0, atol=0.05)
