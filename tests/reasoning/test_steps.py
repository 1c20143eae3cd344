"""Which step sees, predicts and keeps what."""

import torch

from relational_transformer.clrs.spec import SPECS, Stage
from relational_transformer.reasoning import Batch, group_features, pack
from relational_transformer.reasoning.steps import Step, make_schedule, make_steps


def make_batch(examples, lengths: list[int], num_steps: int) -> Batch:
    drawn = examples("bfs", batch=len(lengths), num_steps=num_steps)
    groups = [group_features(SPECS["bfs"], stage) for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT)]
    packed = [pack(group, features) for group, features in zip(groups, drawn[:3], strict=True)]
    return Batch(packed[0], packed[1], packed[2], torch.tensor(lengths))


def steps_of(batch: Batch, noise: torch.Tensor) -> list[Step]:
    return make_steps(batch.hints, make_schedule(group_features(SPECS["bfs"], Stage.HINT), batch, noise))


def test_step_t_sees_hint_t_and_predicts_the_next(examples) -> None:
    batch = make_batch(examples, [1, 2, 4], num_steps=4)
    noise = torch.tensor([[False] * 3, [True, False, True], [False] * 3])
    steps = steps_of(batch, noise)
    assert len(steps) == 3
    for number, step in enumerate(steps):
        assert torch.equal(step.hints["node_mask"], batch.hints["node_mask"][number])
        assert torch.equal(step.next_hints["node_mask"], batch.hints["node_mask"][number + 1])
    assert [step.teacher_forced.tolist() for step in steps] == [[True] * 3, [True, False, True], [False] * 3]
    assert [step.is_target.tolist() for step in steps] == [
        [False, True, True],
        [False, False, True],
        [False, False, True],
    ]
    # Outputs are those of step max(0, length - 2).
    assert [step.keeps_output.tolist() for step in steps] == [[True] * 3, [False, False, True], [False, False, True]]


def test_totals_count_the_targets_of_the_whole_trajectory(examples) -> None:
    batch = make_batch(examples, [1, 2, 4], num_steps=4)
    totals = steps_of(batch, torch.ones(3, 3, dtype=torch.bool))[0].totals
    assert totals["node_pointer"].tolist() == [(0 + 1 + 3) * 5]


def test_a_single_hint_still_makes_a_step(examples) -> None:
    batch = make_batch(examples, [1, 1], num_steps=1)
    (step,) = steps_of(batch, torch.ones(0, 2, dtype=torch.bool))
    assert step.teacher_forced.all()
    assert step.keeps_output.all()
    assert not step.is_target.any()
