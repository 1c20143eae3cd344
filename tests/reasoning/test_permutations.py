"""Permutations by Sinkhorn's iterations; numbers of the published implementation are in `tests/parity`."""

import math

import pytest
import torch

from relational_transformer.clrs.spec import FeatureSpec, Location, Stage, Type
from relational_transformer.reasoning import FeatureGroup, group_features, gumbel
from relational_transformer.reasoning.hints import decide
from relational_transformer.reasoning.losses import output_losses
from relational_transformer.reasoning.permutations import log_permutation, sinkhorn, soft_permutation
from relational_transformer.reasoning.scores import count, count_all, mean_score, score_all

PRED = FeatureGroup(Location.NODE, Type.PERMUTATION_POINTER, None, ("pred",))
PRED_MASK = FeatureGroup(Location.NODE, Type.MASK_ONE, None, ("pred_mask",))
CYCLE = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]]).view(1, 3, 3, 1)  # 0 points to 2, 1 to 0, 2 to 1


def draw(num_nodes: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, num_nodes, num_nodes, 1, generator=generator, dtype=torch.float64)


def test_rows_and_columns_come_to_add_up_to_one_and_nothing_points_to_itself() -> None:
    ones = torch.ones(2, 6, dtype=torch.float64)
    soft = sinkhorn(0.1 * draw(6), 200).exp().squeeze(-1)
    torch.testing.assert_close(soft.sum(-1), ones, atol=1e-9, rtol=0)
    torch.testing.assert_close(soft.sum(-2), ones, atol=1e-9, rtol=0)
    soft = soft_permutation(draw(6)).squeeze(-1)
    torch.testing.assert_close(soft.sum(-2), ones, atol=1e-12, rtol=0)  # columns, which come last in every turn
    assert (soft.diagonal(dim1=1, dim2=2) == 0).all()


def test_the_iterations_settle_a_conflict_that_single_choices_do_not() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.9], [0.0, 0.0, 1.0], [1.0, 0.9, 0.0]]).view(1, 3, 3, 1)
    assert logits.argmax(-2).flatten().tolist() == [1, 2, 0]
    conflicting = logits.clone()
    conflicting[0, 2, :, 0] = torch.tensor([0.0, 5.0, 0.0])  # 0 and 2 both want 1, and 2 wants it more
    assert conflicting.argmax(-2).flatten().tolist() == [1, 2, 1]
    assert decide(PRED, conflicting).int().argmax(-2).flatten().tolist() == [2, 0, 1]


def test_the_loss_is_the_mean_of_minus_the_log_probability_of_the_right_node() -> None:
    logits = torch.zeros(1, 3, 3, 1)  # of three nodes either other one is as good
    assert output_losses(PRED, logits, CYCLE.to(torch.int8)).item() == pytest.approx(math.log(2))
    assert output_losses(PRED, CYCLE.float(), CYCLE.to(torch.int8)).item() < 1e-3


def test_gradients_are_finite_in_single_precision_where_logits_are_large() -> None:
    logits = (100 * draw(16).float()).requires_grad_()
    truth = torch.eye(16, dtype=torch.int8).roll(1, dims=0).expand(2, 16, 16).unsqueeze(-1)
    (gradient,) = torch.autograd.grad(output_losses(PRED, logits, truth).sum(), logits)
    assert gradient.isfinite().all()
    assert gradient.abs().max() > 0


@pytest.mark.slow
def test_compiled_the_loss_has_the_same_gradient() -> None:
    """A compiler computes the turns again in the backward pass, and rounds them otherwise."""
    logits = draw(6).float().requires_grad_()
    truth = torch.eye(6, dtype=torch.int8).roll(1, dims=0).expand(2, 6, 6).unsqueeze(-1)

    def loss(logits: torch.Tensor) -> torch.Tensor:
        return output_losses(PRED, logits, truth).sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=False)
    gradients = [torch.autograd.grad(made(logits), logits)[0] for made in (compiled, loss)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_nodes_that_are_not_there_change_nothing() -> None:
    logits, more = draw(4), 10 * draw(7, seed=1)
    more[:, :4, :4] = logits
    node_mask = torch.arange(7).expand(2, 7) < 4
    padded = log_permutation(more, node_mask)
    off_diagonal = ~torch.eye(4, dtype=torch.bool)
    torch.testing.assert_close(padded[:, :4, :4][:, off_diagonal], log_permutation(logits)[:, off_diagonal])
    assert padded.isfinite().all()
    assert torch.equal(decide(PRED, more, node_mask)[:, :4, :4], decide(PRED, logits))


def test_turns_leave_a_permutation_as_it_is() -> None:
    settled = 10.0 * CYCLE.double()
    assert torch.equal(sinkhorn(settled, 50).exp().round(), CYCLE.double())


def test_noise_has_the_mean_and_the_variance_of_a_gumbel_distribution() -> None:
    noise = gumbel(torch.rand(200_000, generator=torch.Generator().manual_seed(0)))
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.03)
    assert gumbel(torch.zeros(1)).isfinite().all()
    with pytest.raises(ValueError, match="uniform must be a tensor of floating-point numbers"):
        gumbel(torch.zeros(1, dtype=torch.int64))


def test_an_order_is_scored_as_pointers_whose_first_node_points_to_itself() -> None:
    truth = {PRED.key: CYCLE.to(torch.int8), PRED_MASK.key: torch.tensor([1, 0, 0], dtype=torch.int8).view(1, 3, 1)}
    logits = {PRED.key: 5.0 * CYCLE, PRED_MASK.key: torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1)}
    groups = (PRED, PRED_MASK)
    counts = count_all(groups, logits, truth)
    assert {name: value.item() for name, value in score_all(groups, counts).items()} == {"pred": 1.0}
    logits[PRED_MASK.key] = torch.tensor([0.0, 1.0, 0.0]).view(1, 3, 1)  # the wrong first node: 0 and 1 point wrongly
    assert mean_score(groups, count_all(groups, logits, truth)).item() == pytest.approx(1 / 3)
    assert count(PRED, logits[PRED.key], truth[PRED.key])[:2].flatten().tolist() == [3, 3]  # without its mask


def test_only_an_output_can_be_a_permutation() -> None:
    spec = {"pred": FeatureSpec(Stage.HINT, Location.NODE, Type.PERMUTATION_POINTER)}
    with pytest.raises(ValueError, match="pred is a permutation, which only an output can be, got one among the hints"):
        group_features(spec, Stage.HINT)
