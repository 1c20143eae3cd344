"""Encoders: one product must equal a Linear for each feature."""

import math

import torch
from torch import Tensor

from relational_transformer.clrs.spec import SPECS, FeatureSpec, Location, Stage, Type
from relational_transformer.processors import GraphState
from relational_transformer.reasoning import group_features, pack
from relational_transformer.reasoning.encoders import BoundPointers, ColumnEncoder, Encoder, one_hot

SIZE = 7
BATCH, NODES = 2, 4


def linears(encoder: ColumnEncoder | None) -> dict[tuple[str, int], tuple[Tensor, Tensor]]:
    assert encoder is not None
    torch.nn.init.normal_(encoder.bias)
    return {
        (feature, number): (encoder.weight[rows], encoder.bias[bias_rows][0])
        for feature, number, rows, bias_rows in encoder.linears
    }


def test_node_and_global_features_are_the_sum_of_their_linears(examples) -> None:
    hints = examples("graham_scan", num_steps=1).hints
    hints = {name: value[0] for name, value in hints.items()}
    groups = group_features(SPECS["graham_scan"], Stage.HINT)
    encoder = Encoder(groups, SIZE)
    nodes, whole = linears(encoder.nodes), linears(encoder.globals)
    encoded = encoder(pack(groups, hints), num_nodes=5)
    expected = torch.zeros(3, 5, SIZE)
    for name in ("best", "atans", "in_hull_h", "last_stack", "i"):
        weight, bias = nodes[name, 0]
        expected = expected + hints[name].float().unsqueeze(-1) * weight + bias
    torch.testing.assert_close(encoded.nodes, expected)
    weight, bias = whole["phase", 0]
    torch.testing.assert_close(encoded.globals, hints["phase"].float() @ weight + bias)


def test_node_pointers_are_edge_features(examples) -> None:
    hints = {name: value[0] for name, value in examples("heapsort", num_steps=1).hints.items()}
    groups = group_features(SPECS["heapsort"], Stage.HINT)
    encoder = Encoder(groups, SIZE)
    edges = linears(encoder.edges)
    expected = torch.zeros(3, 5, 5, SIZE)
    for name in ("pred_h", "parent"):
        weight, bias = edges[name, 0]
        pointed = torch.nn.functional.one_hot(hints[name].long(), 5).float()
        expected = expected + pointed.unsqueeze(-1) * weight + bias
    torch.testing.assert_close(encoder(pack(groups, hints), num_nodes=5).edges, expected)


def test_edge_pointers_are_averaged_over_either_end(examples) -> None:
    outputs = examples("floyd_warshall").outputs
    groups = group_features(SPECS["floyd_warshall"], Stage.OUTPUT)
    encoder = Encoder(groups, SIZE)
    edges = linears(encoder.edges)
    pointers = torch.nn.functional.one_hot(outputs["Pi"].long(), 5).float().unsqueeze(-1)  # [B, i, j, k, 1]
    (first_weight, first_bias), (second_weight, second_bias) = edges["Pi", 0], edges["Pi", 1]
    expected = (pointers * first_weight + first_bias).mean(1) + (pointers * second_weight + second_bias).mean(2)
    torch.testing.assert_close(encoder(pack(groups, outputs), num_nodes=5).edges, expected)


def test_pointers_and_edge_masks_make_nodes_adjacent_both_ways() -> None:
    groups = group_features(SPECS["mst_kruskal"], Stage.HINT)
    zeros = {"u": 0, "v": 0, "root_u": 0, "root_v": 0, "mask_u": 0, "mask_v": 0}
    hints = {name: torch.zeros(1, 3, dtype=torch.int8) for name in zeros}
    hints["phase"] = torch.zeros(1, 3, dtype=torch.int8)
    hints["pi"] = torch.tensor([[1, 1, 2]], dtype=torch.int16)
    hints["in_mst_h"] = torch.tensor([[[0, 0, 0], [0, 0, 1], [0, 0, 0]]], dtype=torch.int8)
    adjacency = Encoder(groups, SIZE)(pack(groups, hints), num_nodes=3, need_adjacency=True).adjacency
    assert adjacency.int().tolist() == [[[0, 1, 0], [1, 1, 1], [0, 1, 1]]]


def test_masked_edges_do_not_make_nodes_adjacent() -> None:
    groups = group_features(SPECS["bridges"], Stage.OUTPUT)
    masked = {"is_bridge": torch.tensor([[[-1, -1], [1, -1]]], dtype=torch.int8)}
    adjacency = Encoder(groups, SIZE)(pack(groups, masked), num_nodes=2, need_adjacency=True).adjacency
    assert adjacency.int().tolist() == [[[0, 0], [0, 0]]]  # 1 - 1 is not positive


def test_every_linear_starts_with_its_own_spread() -> None:
    torch.manual_seed(0)
    encoder = ColumnEncoder([("scalar", 0, 1), ("categorical", 0, 4)], 4000)
    cut = 0.8796  # standard deviation of a standard normal cut at ±2
    assert math.isclose(encoder.weight[:1].std().item(), cut, rel_tol=0.05)
    assert math.isclose(encoder.weight[1:].std().item(), cut / 2, rel_tol=0.05)
    assert encoder.weight[:1].abs().max() <= 2
    assert not encoder.bias.any()


def test_scalars_are_not_rounded_under_autocast(examples) -> None:
    drawn = examples("minimum")
    groups = group_features(SPECS["minimum"], Stage.INPUT)
    encoder = Encoder(groups, SIZE)
    expected = encoder(pack(groups, drawn.inputs), num_nodes=5).nodes
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = encoder(pack(groups, drawn.inputs), num_nodes=5).nodes
    assert torch.equal(rounded, expected)


def test_pointers_as_probabilities_of_one_node_are_as_indices(examples) -> None:
    hints = {name: value[0] for name, value in examples("floyd_warshall", num_steps=1).hints.items()}
    hints["pi"] = examples("bfs").outputs["pi"]
    spec = {**SPECS["floyd_warshall"], "pi": FeatureSpec(Stage.HINT, Location.NODE, Type.POINTER)}
    groups = group_features(spec, Stage.HINT)
    packed = pack(groups, hints)
    soft = {
        group.key: one_hot(packed[group.key], 5).float() if group.is_pointer else packed[group.key] for group in groups
    }
    assert soft["edge_pointer"].shape == (3, 5, 5, 5, 1)
    encoder = Encoder(groups, SIZE)
    for node_mask in (None, torch.arange(5).expand(3, 5) < 4):
        of_indices, of_numbers = (encoder(given, 5, node_mask, need_adjacency=True) for given in (packed, soft))
        for ours, theirs in zip(of_numbers, of_indices, strict=True):
            assert torch.equal(ours, theirs) if ours is not None else theirs is None


def test_nodes_are_adjacent_where_pointers_are_more_than_a_half_both_ways_together() -> None:
    groups = group_features({"pi": FeatureSpec(Stage.HINT, Location.NODE, Type.POINTER)}, Stage.HINT)
    pointers = torch.tensor([[0.2, 0.6, 0.2], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6]]).view(1, 3, 3, 1)
    adjacency = Encoder(groups, SIZE)({"node_pointer": pointers}, 3, need_adjacency=True).adjacency
    assert adjacency is not None
    assert adjacency[0].int().tolist() == [[0, 1, 0], [1, 1, 1], [0, 1, 1]]


def test_small_scalars_start_small_and_change_no_other_start() -> None:
    size = 400
    groups = group_features(SPECS["dijkstra"], Stage.HINT)
    encoders = []
    for small_scalars in (False, True):
        torch.manual_seed(0)
        encoders.append(Encoder(groups, size, small_scalars=small_scalars))
    plain, small = (encoder.nodes for encoder in encoders)
    assert plain is not None
    assert small is not None
    for linear in small.linears:
        ours, theirs = small.weight[linear.rows], plain.weight[linear.rows]
        if linear.feature == "d":
            torch.testing.assert_close(ours, theirs / math.sqrt(size))
        else:
            assert torch.equal(ours, theirs)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def told(bound: BoundPointers, nodes: Tensor, edges: Tensor, pointers: Tensor) -> Tensor:
    features = bound(GraphState(nodes, edges), {"edge_pointer": pointers})
    assert features.nodes is nodes
    return features.edges


def oracle_of_encoder(bound: BoundPointers, nodes: Tensor, edges: Tensor, pointers: Tensor) -> Tensor:
    count = pointers.shape[-1]
    from_nodes = bound.from_nodes.weight.split(SIZE)
    from_edges = bound.from_edges.weight.split(SIZE)
    found = edges.clone()
    for example in range(BATCH):
        for i in range(NODES):
            for j in range(NODES):
                for k in range(NODES):
                    for f in range(count):
                        target = from_nodes[f] @ nodes[example, k]
                        target = target + from_edges[f] @ edges[example, i, k]
                        target = target + from_edges[count + f] @ edges[example, k, j]
                        found[example, i, j] = found[example, i, j] + pointers[example, i, j, k, f] * target
    return found


def test_the_encoder_tells_every_edge_what_its_targets_are():
    torch.manual_seed(0)
    bound = BoundPointers("edge_pointer", 2, SIZE).double()
    nodes, edges = randn(BATCH, NODES, SIZE), randn(BATCH, NODES, NODES, SIZE)
    pointers = randn(BATCH, NODES, NODES, NODES, 2).softmax(-2)
    found, expected = told(bound, nodes, edges, pointers), oracle_of_encoder(bound, nodes, edges, pointers)
    torch.testing.assert_close(found, expected)
    seen, learnt = torch.randn_like(found), [nodes, edges, pointers, *bound.parameters()]
    gradients = [torch.autograd.grad(of, learnt, seen, retain_graph=True) for of in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_pointers_as_indices_are_as_probabilities_of_one_node():
    torch.manual_seed(0)
    bound = BoundPointers("edge_pointer", 2, SIZE).double()
    nodes, edges = randn(BATCH, NODES, SIZE), randn(BATCH, NODES, NODES, SIZE)
    index = torch.randint(NODES, (BATCH, NODES, NODES, 2))
    assert torch.equal(told(bound, nodes, edges, index), told(bound, nodes, edges, one_hot(index, NODES).double()))
