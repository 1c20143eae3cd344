"""Networks made from settings have the sizes that the paper prints."""

import pytest

from relational_transformer.processors import TUNED, UNTUNED, Settings
from relational_transformer.reasoning import build_network


def count_parameters(settings: Settings) -> int:
    return sum(parameter.numel() for parameter in build_network("bellman_ford", settings).parameters())


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("deep_sets", 8_675_332),
        ("gatv2", 17_730_076),
        ("mpnn", 6_573_060),
        ("pgn", 816_844),
        ("pgn_masked", 10_777_604),
        ("rt", 1_103_404),
    ],
)
def test_tuned_models_have_the_size_in_the_papers_table(model: str, size: int) -> None:
    assert count_parameters(TUNED[model]) == size


def test_gat_has_the_size_of_the_published_code() -> None:
    # The paper's table says 11,168,732 (untuned 418,960). Its code, given the table's 10 heads of 64 and 2 layers, has
    # fewer, and so have we: the table's GAT-v1 is not the one that was published.
    assert count_parameters(TUNED["gat"]) == 8_279_124
    assert count_parameters(UNTUNED["gat"]) == 299_784


@pytest.mark.parametrize(
    ("model", "size"),
    [("deep_sets", 414_468), ("mpnn", 414_468), ("pgn", 414_468), ("pgn_masked", 414_468), ("gatv2", 397_957)],
)
def test_untuned_models_have_the_size_in_the_papers_table(model: str, size: int) -> None:
    assert count_parameters(UNTUNED[model]) == size
