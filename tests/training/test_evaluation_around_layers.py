"""Scoring with the layers as kernels between compiled pieces: the scores of whole steps."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.fleet import pieces
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.pieces import Pieces, over_seeds
from relational_transformer.fleet.precision import Precision, for_computing, set_precision
from relational_transformer.nn import kernels
from relational_transformer.nn.kernels import KernelLayers
from relational_transformer.processors.settings import Settings, find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.reasoning.folded_steps import answer
from relational_transformer.reasoning.network import Network
from relational_transformer.training import evaluation, fused_evaluation
from relational_transformer.training.data import load_split
from relational_transformer.training.evaluation import Chunk, Evaluator
from relational_transformer.training.fused_evaluation import FusedEvaluation
from tests.nn.kernels.whole_layer.emulation import COMPILER, emulator_in_use
from tests.training.small import SETTINGS

CPU = torch.device("cpu")
SEEDS = (0, 1)
EXAMPLES = 7


def make(task: str, settings: Settings, precision: Precision, compiled: bool = False) -> tuple[Evaluator, Fleet]:
    models = [initialise(lambda: build_network(task, settings), seed) for seed in SEEDS]
    for model in models:
        set_precision(precision, model)
    split = load_split(models[0], sample(task, EXAMPLES, 5, 3), CPU)
    return Evaluator(models[0], split, len(SEEDS), precision, compiled=compiled), Fleet(models, CPU)


@pytest.fixture
def _plain_layers(monkeypatch):
    """Plain layers in any precision in the place of kernels, and chunks of few examples."""

    def inference(self: KernelLayers, parameters: list[dict[str, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
        def run(nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
            for layer, of_layer in zip(self.layers, parameters, strict=True):
                nodes, edges = over_seeds(layer, "forward")(of_layer, nodes, edges)
            return nodes, edges

        return run

    def use_any_precision(pieces: Pieces, network: Network, num_nodes: int, precision: Precision) -> FusedEvaluation:
        monkeypatch.setattr(fused_evaluation, "for_computing", lambda values, _: for_computing(values, precision))
        return FusedEvaluation(pieces, network, num_nodes)

    monkeypatch.setattr(KernelLayers, "lay_out_forward", lambda self, by_name, _: self.parameters(by_name))
    monkeypatch.setattr(KernelLayers, "inference", inference)
    monkeypatch.setattr(KernelLayers, "compile_ahead", lambda self, *_: None)
    monkeypatch.setattr(evaluation, "CHANNELS_IN_CACHE", 3 * len(SEEDS) * 25 * SETTINGS.hidden_size)
    monkeypatch.setattr(evaluation, "fused_evaluation", use_any_precision)
    monkeypatch.setattr(KernelLayers, "fit", True)


@pytest.mark.parametrize("hint_mode", ["encoded_decoded", "decoded_only"])
@pytest.mark.parametrize(
    "task",
    [
        "binary_search",  # a pointer of the graph
        "bfs",  # pointers and masks of nodes
        "segments_intersect",  # categories of the graph
        "articulation_points",  # masks
        "floyd_warshall",  # pointers of edges
        "naive_string_matcher",  # trajectories of several lengths
    ],
)
@pytest.mark.usefixtures("_plain_layers")
def test_scores_are_those_of_whole_steps(monkeypatch, task: str, hint_mode):
    evaluator, fleet = make(task, replace(SETTINGS, hint_mode=hint_mode), "fp64")
    assert len(evaluator.chunks) > 1
    assert not evaluator.chunks[0].counted.all()
    found = evaluator.scores(fleet.parameters)
    monkeypatch.setattr(KernelLayers, "fit", False)
    torch.testing.assert_close(found, evaluator.scores(fleet.parameters), rtol=0.0, atol=1e-12)


@pytest.mark.usefixtures("_plain_layers")
def test_all_chunks_and_steps_are_compiled_once(monkeypatch):
    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph

    monkeypatch.setattr(pieces, "compiled_for", lambda f, *_, **__: torch.compile(f, fullgraph=True, backend=backend))
    torch.compiler.reset()  # it remembers other shapes
    evaluator, fleet = make("bfs", SETTINGS, "bf16", compiled=True)
    assert len({chunk.num_steps for chunk in evaluator.chunks}) > 1
    evaluator.scores(fleet.parameters)
    assert len(compiled) == 4  # parameters laid out, begin, go on, count


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
@pytest.mark.parametrize(
    ("task", "model", "num_layers"),
    [
        *(("bfs", "rt", 1), ("bfs", "rt_core", 1), ("segments_intersect", "rt", 1), ("bfs", "rt_no_edge_updates", 2)),
    ],
)
def test_with_kernels_outputs_are_as_close_to_float64_as_those_of_whole_steps(task: str, model: str, num_layers: int):
    # Hints are not fed back: they would be decisions, which rounding can turn.
    settings = replace(find_settings(model), num_layers=num_layers, hint_mode="decoded_only")
    with emulator_in_use(), kernels.use_kernels(True):
        evaluator, fleet = make(task, settings, "bf16")
        assert evaluator._fused is not None
        assert evaluator._fused.fits
        (chunk,) = evaluator.chunks
        network = evaluator.network
        evaluator._fused._score = lambda _, *given: over_seeds(network, answer)({}, *given[:5])
        found = evaluator._fused.counter(fleet.parameters)(chunk)
    whole = whole_steps(evaluator, fleet, chunk, "bf16")
    set_precision("fp64", network)
    exact = whole_steps(evaluator, fleet, chunk, "fp64")
    for key, logits in found.items():
        assert (logits - exact[key]).norm() <= 2 * (whole[key] - exact[key]).norm() + 1e-3 * exact[key].norm(), key


@torch.no_grad()
def whole_steps(evaluator: Evaluator, fleet: Fleet, chunk: Chunk, precision: Precision) -> dict[str, Tensor]:
    parameters = {name: for_computing(value, precision) for name, value in fleet.parameters.items()}
    if precision == "fp64":
        parameters = {name: value.double() for name, value in parameters.items()}
    network = evaluator.network
    encoded = over_seeds(network, "encode_inputs")(parameters, chunk.inputs)
    carry = over_seeds(network, "initial_carry")(parameters, encoded)
    is_first = torch.ones_like(chunk.counted)
    for keeps_output in chunk.keeps_output:
        carry = over_seeds(network, "advance")(parameters, encoded, carry, chunk.first_hints, is_first, keeps_output)
    return carry.outputs
