"""Games and levels sorted by size: every level has its place, and nothing is decided otherwise."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.sokoban import Agent, Environment, Levels, Recipe, generate_levels, parse_levels
from relational_transformer.sokoban.chance import draw, first_levels
from relational_transformer.sokoban.game.observation import Observation
from relational_transformer.sokoban.game.size_classes import SizeClass, node_capacity, size_classes
from relational_transformer.sokoban.step import TrainingStep
from tests.sokoban.small import CORRIDOR, ROOMS, SETTINGS

LEVELS = generate_levels(300, seed=5)
SEEDS = (3, 4)
UPDATES = 16


def padded_pairs(classes: tuple[SizeClass, ...]) -> int:
    return sum(one.num_games * (one.capacity + 2) ** 2 for one in classes)


@pytest.mark.parametrize(("games", "most"), [(10, 1), (10, 2), (64, 2), (64, 3), (7, 5), (1, 3)])
def test_every_level_and_every_game_has_one_class_with_room_enough(games: int, most: int):
    classes = size_classes(LEVELS, games, most)
    assert 1 <= len(classes) <= most
    assert torch.cat([one.levels for one in classes]).sort().values.tolist() == list(range(len(LEVELS)))
    assert [game for one in classes for game in range(games)[one.games]] == list(range(games))
    for one in classes:
        assert one.capacity >= LEVELS[one.levels].open_cells - 1
        assert (one.capacity + 2) % 8 == 0
        # As large a share of the levels as of the games, to a level.
        assert len(one.levels) == pytest.approx(len(LEVELS) * one.num_games / games, abs=1)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_other_cut_pads_less(most: int):
    games = 12
    sizes = LEVELS.num_open.sort().values
    capacity = {end: node_capacity(int(sizes[-(-len(LEVELS) * end // games) - 1])) for end in range(1, games + 1)}

    def pairs(cuts: tuple[int, ...]) -> int:
        return sum((b - a) * (capacity[b] + 2) ** 2 for a, b in zip((0, *cuts), (*cuts, games), strict=True))

    least = min(pairs(cuts) for number in range(most) for cuts in combinations(range(1, games), number))
    assert padded_pairs(size_classes(LEVELS, games, most)) == least


def test_two_classes_save_pairs_of_nodes():
    one, two = (padded_pairs(size_classes(LEVELS, 64, most)) for most in (1, 2))
    assert two < 0.8 * one


def test_fewer_levels_than_games_are_shared_out():
    classes = size_classes(parse_levels(ROOMS + CORRIDOR), 64, most=3)
    assert [one.levels.tolist() for one in classes] == [[2], [0, 1]]
    assert [one.num_games for one in classes] == [21, 43]


def test_games_draw_every_level_of_their_class_and_no_other():
    classes = size_classes(LEVELS, 10, most=2)
    chance = draw(SEEDS, 0, updates=200, window=2, classes=classes)
    assert chance.next_level.shape == chance.uniform.shape == (200, 2, len(SEEDS), 10)
    first = first_levels(SEEDS, classes)
    for one in classes:
        drawn = chance.next_level[..., one.games]
        assert set(drawn.flatten().tolist()) == set(one.levels.tolist())
        assert set(first[:, one.games].flatten().tolist()) <= set(one.levels.tolist())
    shares = torch.bincount(chance.next_level.flatten(), minlength=len(LEVELS)) / chance.next_level.numel()
    assert shares.max() < 3 / len(LEVELS)
    assert shares.min() > 0.2 / len(LEVELS)


def make_engine(
    levels: Levels, model: str, *, apart: bool, compiled: bool = False, num_layers: int = 2
) -> tuple[TrainingStep, tuple[SizeClass, ...]]:
    recipe = Recipe(num_games=6, learning_rate=1e-2)
    settings = replace(SETTINGS, num_layers=num_layers)
    agents = [initialise(lambda: Agent(model, settings), seed).double() for seed in SEEDS]
    classes = size_classes(levels, recipe.num_games, most=2)
    environment = Environment(levels, first_levels(SEEDS, classes).flatten(), classes[-1].capacity)
    fleet = Fleet(agents, torch.device("cpu"))
    adam = Adam(fleet, recipe.learning_rate, epsilon=recipe.adam_epsilon, clip=recipe.gradient_clip, compiled=compiled)
    engine = TrainingStep(
        agents[0], fleet, environment, recipe, adam,
        precision="fp64", compiled=compiled, classes=classes if apart else None,
    )  # fmt: skip
    engine.load(draw(SEEDS, 0, UPDATES, recipe.window, classes))
    return engine, classes


@pytest.mark.parametrize("model", ["transformer", "rt"])
def test_classes_looked_at_apart_learn_what_one_padded_batch_does(model: str):
    levels = parse_levels(2 * CORRIDOR + ROOMS)
    apart, classes = make_engine(levels, model, apart=True)
    together, _ = make_engine(levels, model, apart=False)
    assert [one.num_games for one in classes] == [3, 3]
    assert classes[0].capacity < classes[1].capacity
    for engine in (apart, together):
        for update in range(UPDATES):
            engine.make(update)
    assert apart.finished.min() >= 2  # games have ended, and others begun
    assert torch.equal(apart.finished, together.finished)
    torch.testing.assert_close(apart.losses, together.losses)
    torch.testing.assert_close(apart.fleet.values, together.fleet.values)
    torch.testing.assert_close(apart.memo.vector, together.memo.vector)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's own, while tracing
def test_few_pieces_are_compiled_however_many_layers_and_steps_there_are(traced):
    """Of each class the embedding, the last layer and one for all others; and once the layout of the parameters, the
    beginning of a window, a step of the games, the decision, the loss, what is kept, Adam's count and its update."""
    engine, classes = make_engine(parse_levels(2 * CORRIDOR + ROOMS), "rt", apart=True, compiled=True, num_layers=3)
    engine.make(0)
    engine.make(1)
    assert len(traced) == 3 * len(classes) + 8 == 14
    plain, _ = make_engine(parse_levels(2 * CORRIDOR + ROOMS), "rt", apart=False, num_layers=3)
    plain.make(0)
    plain.make(1)
    torch.testing.assert_close(engine.losses, plain.losses)
    torch.testing.assert_close(engine.fleet.values, plain.fleet.values)


def test_what_is_cut_off_an_observation_is_absent():
    engine, classes = make_engine(parse_levels(2 * CORRIDOR + ROOMS), "rt", apart=True)
    seen = Observation(*(one.unflatten(0, (len(SEEDS), -1)) for one in engine.environment.observe()))
    present = sum(int(one.cut(seen).present.sum()) for one in classes)
    assert present == int(seen.present.sum())
    assert not replace(classes[0], capacity=0).cut(seen).present.numel()
