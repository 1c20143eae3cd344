"""The batched environment against a slow one that shares no code with it."""

from collections import Counter

import torch

from relational_transformer.sokoban import Environment, Levels, generate_levels, parse_levels
from relational_transformer.sokoban.game.generator import generate_with_solutions
from tests.sokoban.slow_game import SlowGame, shortest_solution
from tests.sokoban.small import CORRIDOR, ROOMS, rows_of

U, D, L, R = 1, 2, 3, 4


def compare(levels: Levels, actions: torch.Tensor, next_level: torch.Tensor) -> Counter:
    """Play actions [T, B] in both; the games begin with levels 0 ... B - 1. Returns what happened in them."""
    games = actions.shape[1]
    environment = Environment(levels, torch.arange(games))
    slow = [SlowGame(rows_of(levels, game)) for game in range(games)]
    events: Counter = Counter()
    for step, action in enumerate(actions):
        outcome = environment.step(action)
        expected = [game.step(int(made)) for game, made in zip(slow, action, strict=True)]
        made = (outcome.board.reward.tolist(), outcome.done.tolist(), outcome.solved.tolist())
        assert list(zip(*made, strict=True)) == expected
        compare_boards(environment, slow)
        environment.restart(outcome.done, next_level[step])
        for number, (_, done, _) in enumerate(expected):
            if done:
                events.update(slow[number].events)
                slow[number] = SlowGame(rows_of(levels, int(next_level[step, number])))
        if step % 7 == 0:
            compare_boards(environment, slow)
            compare_observations(environment, slow)
    for game in slow:
        events.update(game.events)
    return events


def compare_boards(environment: Environment, slow: list[SlowGame]) -> None:
    board = environment.board
    assert board.agent.tolist() == [10 * game.agent[0] + game.agent[1] for game in slow]
    for boxes, game in zip(board.boxes, slow, strict=True):
        assert boxes.nonzero().flatten().tolist() == sorted(10 * row + column for row, column in game.boxes)
    assert board.time.tolist() == [game.steps for game in slow]


def compare_observations(environment: Environment, slow: list[SlowGame]) -> None:
    observation = environment.observe()
    torch.testing.assert_close(observation.core, torch.tensor([game.core() for game in slow]), rtol=0, atol=1e-7)
    for factors, present, game in zip(observation.factors, observation.present, slow, strict=True):
        expected = torch.tensor(game.factors())
        assert present.tolist() == [True] * len(expected) + [False] * (len(present) - len(expected))
        torch.testing.assert_close(factors[: len(expected)], expected, rtol=0, atol=1e-7)
        assert not factors[len(expected) :].any()


def test_random_play_agrees_with_the_slow_environment_for_thousands_of_steps():
    generator = torch.Generator().manual_seed(0)
    levels = generate_levels(24, seed=5)
    actions = torch.randint(5, (260, 24), generator=generator)
    events = compare(levels, actions, torch.randint(24, (260, 24), generator=generator))
    assert {"push", "onto target", "off target", "blocked by wall", "blocked by box", "wall", "out of time"} <= set(
        events
    )


def test_solutions_agree_with_the_slow_environment_and_win():
    levels, solutions = generate_with_solutions(24, seed=6)
    events = compare(levels, solutions.T, torch.arange(24).repeat(120, 1))
    assert events["solved"] >= 24
    assert events["onto target"] >= 4 * 24


def test_shortest_solutions_agree_with_the_slow_environment_and_win():
    levels = parse_levels(ROOMS)
    solutions = [shortest_solution(rows_of(levels, number)) for number in range(2)]
    longest = max(len(solution) for solution in solutions if solution is not None)
    padded = torch.tensor([[*solution, *[0] * (longest - len(solution))] for solution in solutions if solution])
    assert compare(levels, padded.T, torch.zeros(longest, 2, dtype=torch.long))["solved"] >= 2


def play(text: str, actions: list[int]) -> tuple[list[float], list[bool], list[bool]]:
    environment = Environment(parse_levels(text), torch.tensor([0]))
    outcomes = [environment.step(torch.tensor([action])) for action in actions]
    rewards = [outcome.board.reward.item() for outcome in outcomes]
    return rewards, [bool(outcome.done) for outcome in outcomes], [bool(outcome.solved) for outcome in outcomes]


TWO_BOXES = "########\n# .    #\n#@$ $. #\n#      #\n########"


def test_a_box_onto_a_target_earns_one_and_off_it_minus_one():
    rewards, done, solved = play(TWO_BOXES, [D, R, R, U, R, R])
    assert rewards == [0.0, 0.0, 0.0, 0.0, 1.0, -1.0]
    assert not any(done)
    assert not any(solved)


def test_blocked_boxes_stay_and_so_does_the_agent():
    environment = Environment(parse_levels("######\n#@$$.#\n#  $.#\n#   .#\n######"), torch.tensor([0]))
    before = environment.board.boxes.clone()
    environment.step(torch.tensor([R]))
    assert torch.equal(environment.board.boxes, before)
    assert int(environment.board.agent) == 11


def test_the_last_box_earns_three_and_ends_the_game():
    rewards, done, solved = play("######\n#@ $.#\n######", [0, R, R])
    assert (rewards, done, solved) == ([0.0, 0.0, 3.0], [False, False, True], [False, False, True])


def test_from_target_to_target_earns_nothing():
    rewards, _, _ = play("#########\n#@$..$ .#\n#   $   #\n#########", [R, R])
    assert rewards == [1.0, 0.0]


def test_time_ends_after_120_steps_and_not_before():
    _, done, solved = play("######\n#@ $.#\n######", [0] * 120)
    assert done == [False] * 119 + [True]
    assert not any(solved)


def test_a_game_can_be_won_in_the_last_step():
    rewards, done, solved = play("######\n#@ $.#\n######", [0] * 118 + [R, R])
    assert (rewards[-1], done[-1], solved[-1]) == (3.0, True, True)


def test_a_turn_is_a_step_a_restart_and_an_observation_that_change_nothing():
    generator = torch.Generator().manual_seed(0)
    levels = parse_levels(ROOMS + 3 * CORRIDOR)
    games = 40
    environment = Environment(levels, torch.randint(len(levels), (games,), generator=generator), capacity=60)
    ended = 0
    for _ in range(150):
        action = torch.randint(5, (games,), generator=generator)
        next_level = torch.randint(len(levels), (games,), generator=generator)
        before = [tensor.clone() for tensor in environment.board]
        turn = environment.turn(environment.board, action, next_level)
        assert all(torch.equal(held, old) for held, old in zip(environment.board, before, strict=True))
        outcome = environment.step(action)
        environment.restart(outcome.done, next_level)
        pairs = [(turn.board, environment.board), (turn.seen, environment.observe())]
        pairs += [((turn.reward, turn.done, turn.solved), (outcome.board.reward, outcome.done, outcome.solved))]
        assert all(torch.equal(a, b) for ours, expected in pairs for a, b in zip(ours, expected, strict=True))
        ended += int(outcome.solved.sum())
    assert ended > 20
