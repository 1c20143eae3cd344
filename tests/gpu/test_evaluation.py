"""Layers that keep nothing, and the validation made of them, on a CUDA device."""

import pytest
import torch

from relational_transformer.clrs import sample
from relational_transformer.nn import kernels
from relational_transformer.nn.kernels.whole_layer.inference import Inference
from relational_transformer.nn.kernels.whole_layer.operator import layer_operator
from relational_transformer.nn.kernels.whole_layer.parameters import NAMES, orders_on, pack_forward
from relational_transformer.processors.settings import TUNED
from relational_transformer.reasoning.build import build_network
from relational_transformer.training.data import load_split
from relational_transformer.training.evaluation import Evaluator
from relational_transformer.training.fleet import Fleet, initialise
from relational_transformer.training.kernel_layers import KernelLayers
from relational_transformer.training.precision import set_precision
from tests.nn.kernels.whole_layer.test_whole_layer import make_inputs, make_layer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers of torch warn about their own internals
]


def make_evaluator(task: str, seeds: int, examples: int, *, compiled: bool) -> tuple[Evaluator, Fleet]:
    settings, device = TUNED["rt"], torch.device("cuda")
    models = [initialise(lambda: build_network(task, settings), seed) for seed in range(seeds)]
    network = models[0].to(device)
    set_precision("bf16", network)
    split = load_split(network, sample(task, examples, 16, 0), device)
    evaluator = Evaluator(network, split, seeds, "bf16", compiled=compiled)
    if not evaluator._around.fits:
        pytest.skip("layers are no kernels on this device")
    return evaluator, Fleet(models, device)


@pytest.mark.parametrize("nodes", [5, 16, 20])
def test_layers_that_keep_nothing_make_the_same_bits(nodes: int):
    layer = make_layer(0).bfloat16().cuda()
    inputs = [tensor.cuda() for tensor in make_inputs(1, 300, nodes=nodes)]
    if not kernels.is_one_kernel(layer, *inputs):
        pytest.skip("layers are no kernels on this device")
    parameters = {name: value.detach().unsqueeze(0) for name, value in layer.named_parameters()}
    expected = layer_operator(*inputs, *(parameters[name] for name in NAMES))[:2]
    found = Inference([pack_forward(parameters, orders_on(torch.device("cuda", torch.cuda.current_device())))])(*inputs)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_recorded_validation_is_repeated_with_the_parameters_of_the_day():
    evaluator, fleet = make_evaluator("binary_search", 3, 300, compiled=True)
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


@pytest.mark.parametrize("task", ["binary_search", "bfs", "naive_string_matcher"])
def test_scores_are_about_those_of_whole_steps(monkeypatch, task: str):
    evaluator, fleet = make_evaluator(task, 3, 512, compiled=False)
    found = evaluator.scores(fleet.parameters)
    monkeypatch.setattr(KernelLayers, "fit", False)
    # Rounding turns some decisions of an untrained network.
    torch.testing.assert_close(found, evaluator.scores(fleet.parameters), rtol=0.0, atol=0.05)
