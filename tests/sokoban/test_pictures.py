"""Games as text and as animations."""

import pytest
import torch

from relational_transformer.sokoban import parse_levels
from relational_transformer.sokoban.evaluation import choose_action
from relational_transformer.sokoban.game.pictures import draw, frames, parse_moves, write_gif
from tests.sokoban.small import CORRIDOR


def test_frames_show_the_game_until_it_is_solved():
    game = list(frames(parse_levels(CORRIDOR), parse_moves("wrrl")))
    assert [frame.rows[1] for frame in game] == ["#@ $.#####", "#@ $.#####", "# @$.#####", "#  @*#####"]
    assert game[-1].solved
    assert game[-1].caption == "step   3 of 120   solved   reward +3, +3 in all"


def test_an_agent_on_a_target_is_shown():
    game = list(frames(parse_levels("; 0\n#######\n#@.$ .#\n#  $  #\n#######"), parse_moves("r")))
    assert game[-1].rows[1] == "# +$ .####"


def test_unknown_moves_are_named():
    with pytest.raises(ValueError, match="moves are the letters u, d, l, r, and w to wait, got 'x'"):
        parse_moves("urx")


def test_a_gif_has_a_picture_for_every_frame(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    game = list(frames(parse_levels(CORRIDOR), parse_moves("rr")))
    write_gif(tmp_path / "game.gif", game, frames_per_second=2)
    with image_module.open(tmp_path / "game.gif") as image:
        assert image.size == (200, 200)
        assert image.n_frames >= 3
        first = image.convert("RGB").getpixel((30, 30))
    assert first == tuple(draw(game[0].rows)[30, 30].tolist())
    assert [path.name for path in tmp_path.iterdir()] == ["game.gif"]


def test_actions_are_sampled_by_their_probabilities_or_the_best_is_taken():
    logits = torch.tensor([0.1, 0.2, 0.3, 0.4, 1e-9]).log().expand(1000, 5)
    uniform = (torch.arange(1000) + 0.5) / 1000
    assert choose_action(logits, uniform).bincount().tolist() == [100, 200, 300, 400]
    assert choose_action(logits, None).unique().tolist() == [3]
