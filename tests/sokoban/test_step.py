"""Updates of the engine against a plain loop over the steps of one game, with WMG's loss and numbers. Both go on with
the next game where one ends within a window; WMG makes a shorter window there."""

import functools

import pytest
import torch

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import Precision
from relational_transformer.sokoban import Agent, Environment, Recipe, parse_levels
from relational_transformer.sokoban.agent import Decision, Memo
from relational_transformer.sokoban.chance import draw, first_levels
from relational_transformer.sokoban.evaluation import no_memo
from relational_transformer.sokoban.game.size_classes import size_classes
from relational_transformer.sokoban.step import TrainingStep
from tests.sokoban.small import CORRIDOR, ROOMS, SETTINGS

RECIPE = Recipe(num_games=3, window=4, learning_rate=1e-2, gradient_clip=2.0)
UPDATES = 32  # 128 steps: some games are solved by chance, in the middle of a window
LEVELS = 3 * CORRIDOR + ROOMS


def make_engine(
    seeds: tuple[int, ...], *, model: str, games: int, compiled: bool = False, precision: Precision = "fp64"
) -> TrainingStep:
    agents = [initialise(lambda: Agent(model, SETTINGS), seed) for seed in seeds]
    agents = [agent.double() for agent in agents] if precision == "fp64" else agents
    fleet = Fleet(agents, torch.device("cpu"))
    levels = parse_levels(LEVELS)
    classes = size_classes(levels, games, most=1)
    environment = Environment(levels, first_levels(seeds, classes).flatten())
    recipe = Recipe(**{**vars(RECIPE), "num_games": games})
    adam = Adam(fleet, recipe.learning_rate, epsilon=recipe.adam_epsilon, clip=recipe.gradient_clip, compiled=compiled)
    engine = TrainingStep(agents[0], fleet, environment, recipe, adam, precision=precision, compiled=compiled)
    engine.load(draw(seeds, 0, UPDATES, recipe.window, classes))
    return engine


def slow_training(seed: int, model: str) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """One game, torch's own Adam, a loop over steps in windows of four, whether a game ends in them or not."""
    agent = initialise(lambda: Agent(model, SETTINGS), seed).double()
    optimizer = torch.optim.Adam(agent.parameters(), lr=RECIPE.learning_rate, eps=RECIPE.adam_epsilon)
    levels = parse_levels(LEVELS)
    classes = size_classes(levels, 1, most=1)
    chance = draw((seed,), 0, UPDATES, RECIPE.window, classes)
    environment = Environment(levels, first_levels((seed,), classes).flatten())
    memo = no_memo(agent, 1, torch.device("cpu"))
    sums = {"rewards": 0.0, "finished": 0.0, "solved": 0.0}
    ended_within_window = 0
    for update in range(UPDATES):
        logs, values, rewards, ends, entropies = [], [], [], [], []
        for step in range(RECIPE.window):
            decision = agent(environment.observe(), memo)
            policy = torch.distributions.Categorical(logits=decision.logits[0])
            total = policy.probs.cumsum(0)
            action = int((total <= chance.uniform[update, step, 0, 0]).sum())
            outcome = environment.step(torch.tensor([action]))
            logs.append(policy.log_prob(torch.tensor(action)))
            entropies.append(policy.entropy())
            values.append(decision.value[0])
            rewards.append(4.0 * outcome.board.reward.item())
            ends.append(bool(outcome.done))
            sums["rewards"] += outcome.board.reward.item()
            sums["finished"] += float(outcome.done)
            sums["solved"] += float(outcome.solved)
            environment.restart(outcome.done, chance.next_level[update, step, 0])
            memo = Memo(decision.memo, ~outcome.done)
        ended_within_window += any(ends[:-1])
        with torch.no_grad():
            target = agent(environment.observe(), memo).value[0].item()
        loss = torch.zeros((), dtype=torch.float64)
        for step in reversed(range(RECIPE.window)):
            target = rewards[step] + 0.995 * (0.0 if ends[step] else target)
            advantage = target - values[step].item()
            loss = loss - logs[step] * advantage + 0.5 * (target - values[step]) ** 2 - 0.02 * entropies[step]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(agent.parameters(), RECIPE.gradient_clip)
        optimizer.step()
        memo = Memo(memo.vector.detach(), memo.kept)
    assert ended_within_window > 0, "no window of this test reaches over the end of a game"
    return {name: parameter.detach() for name, parameter in agent.named_parameters()}, sums


@pytest.mark.parametrize("model", ["transformer", "rt"])
def test_one_game_is_trained_as_a_plain_loop_trains_it_in_windows_that_cross_the_ends_of_games(model: str):
    engine = make_engine((4,), model=model, games=1)
    for number in range(UPDATES):
        engine.make(number)
    expected, sums = slow_training(4, model)
    assert {name: getattr(engine, name).item() for name in sums} == sums
    assert sums["finished"] >= 1
    for name, parameter in expected.items():  # torch clips to c / (norm + 1e-6), which tells after some updates
        torch.testing.assert_close(engine.fleet.parameters[name][0], parameter, rtol=1e-5, atol=1e-6)


def test_a_fleet_of_two_learns_what_two_alone_do():
    together = make_engine((3, 4), model="rt", games=3)
    for update in range(3):
        together.make(update)
    for number, seed in enumerate((3, 4)):
        alone = make_engine((seed,), model="rt", games=3)
        for update in range(3):
            alone.make(update)
        torch.testing.assert_close(together.losses[number], alone.losses[0])
        for name, block in alone.fleet.parameters.items():
            torch.testing.assert_close(together.fleet.parameters[name][number], block[0])


def test_a_loss_that_is_not_finite_is_noted_for_its_seed_alone():
    engine = make_engine((3, 4), model="transformer", games=2)
    with torch.no_grad():
        engine.fleet.parameters["value.bias"][1] = torch.inf
    engine.make(0)
    assert engine.finite.tolist() == [True, False]
    engine.make(1)
    assert engine.finite.tolist() == [True, False]
    assert engine.losses[0].isfinite()


@pytest.mark.parametrize("model", ["transformer", "rt"])
def test_in_bfloat16_decisions_and_losses_and_parameters_stay_float32(model: str, monkeypatch):
    narrow, wide = (make_engine((3, 4), model=model, games=3, precision=kind) for kind in ("bf16", "fp32"))
    seen = set()
    decide = narrow.agent._run
    monkeypatch.setattr(narrow.agent, "_run", lambda *inputs: _noted(decide(*inputs), seen))
    for engine in (narrow, wide):
        engine.make(0)
    torch.testing.assert_close(narrow.losses, wide.losses, rtol=0.05, atol=0.05)
    for update in range(1, UPDATES):
        narrow.make(update)
    assert seen == {torch.float32}
    assert narrow.finite.all()
    assert {narrow.fleet.values.dtype, narrow.memo.vector.dtype} == {torch.float32}
    assert (narrow.fleet.values != narrow.fleet.values.bfloat16()).any(), "parameters were rounded"


def _noted(decision: Decision, seen: set[torch.dtype]) -> Decision:
    seen |= {tensor.dtype for tensor in decision}
    return decision


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's own, while tracing
def test_compiled_layers_learn_what_plain_ones_do(monkeypatch):
    """Traced whole, without a C++ compiler: what is compiled on a GPU is the same function."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    plain, compiled = (make_engine((3,), model="rt", games=3, compiled=compiled) for compiled in (False, True))
    for engine in (plain, compiled):
        engine.make(0)
        engine.make(1)
    torch.testing.assert_close(compiled.losses, plain.losses)
    torch.testing.assert_close(compiled.fleet.values, plain.fleet.values)


def test_steps_are_computed_again_where_memory_is_short_with_the_same_numbers(monkeypatch):
    engines = []
    for memory in (10**12, 1_000):
        monkeypatch.setattr("relational_transformer.fleet.graphs.usable_bytes", lambda device, memory=memory: memory)
        engine = make_engine((3,), model="rt", games=2)
        engine.make(0)
        engines.append(engine)
    assert [engine.agent.recompute for engine in engines] == [False, True]
    torch.testing.assert_close(engines[1].fleet.values, engines[0].fleet.values)
