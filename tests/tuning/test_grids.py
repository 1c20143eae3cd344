"""The paper's grids: its tuned models stand on them, and every configuration is a model."""

import math

import pytest
import torch

from relational_transformer.processors import TUNED, build_processor, find_settings
from relational_transformer.tuning.grid import check_grid, configuration_at, position_of
from relational_transformer.tuning.grids import GRIDS, VALUES, configuration_of, find_grid, settings_of


def test_every_tuned_model_of_the_paper_has_a_grid():
    assert set(TUNED) <= set(GRIDS)


@pytest.mark.parametrize("model", GRIDS)
def test_the_papers_own_settings_stand_on_the_grid_and_come_back_from_it(model):
    configuration = configuration_of(model)
    assert position_of(GRIDS[model], configuration) is not None
    assert settings_of(model, configuration) == find_settings(model)


@pytest.mark.parametrize("model", GRIDS)
@pytest.mark.parametrize("corner", [0, -1])
def test_the_corners_of_the_grid_are_models_that_can_be_built(model, corner):
    grid = check_grid(GRIDS[model])
    position = tuple(corner % len(values) for values in grid.values())
    settings = settings_of(model, configuration_at(grid, position))
    with torch.device("meta"):
        processor = build_processor(settings)
    assert sum(parameter.numel() for parameter in processor.parameters()) > 0


def test_values_of_numbers_are_in_rising_order():
    for name, values in VALUES.items():
        if name != "global_mode":
            assert list(values) == sorted(values), name


def test_grids_have_as_many_cells_as_the_papers_table_gives():
    cells = {model: math.prod(map(len, grid.values())) for model, grid in GRIDS.items()}
    assert cells["rt"] == 5 * 4 * 13 * 7 * 7 * 10 * 6 * 8 * 2 * 2
    assert cells["gat"] == cells["gatv2"] == 5 * 4 * 13 * 7 * 7
    assert cells["deep_sets"] == cells["mpnn"] == cells["pgn"] == cells["pgn_masked"] == 5 * 4 * 13 * 8


def test_an_unknown_model_lists_the_known_ones():
    with pytest.raises(ValueError, match="no model called 'gcn'; it tuned rt, deep_sets, gat"):
        find_grid("gcn")
