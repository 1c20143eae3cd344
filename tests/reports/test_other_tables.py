"""Lobster graphs and Sokoban beside the paper's numbers."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol
from relational_transformer.lobster.oracle import oracle_loss
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.formats import to_csv
from relational_transformer.reports.pictures import learning_curves
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.tables import build_table, table_for
from relational_transformer.sokoban.config import SokobanConfig
from relational_transformer.sokoban.settings import RECIPES
from relational_transformer.sokoban.splits import BOXOBAN_TEST_DIGEST, SplitsIdentity
from tests.reports.fakes import PROVENANCE

BOXOBAN = {"train": 900_000, "test": 1_000, "train_digest": "0123456789abcdef", "test_digest": BOXOBAN_TEST_DIGEST}


def write(
    folder: Path,
    config: LobsterConfig | SokobanConfig,
    scores: list[float | None],
    validation: str = "",
    levels: dict | None = BOXOBAN,
    near: list[float] | None = None,
) -> None:
    rows = [{"seed": seed, "test": score, "failed": False} for seed, score in zip(config.seeds, scores, strict=True)]
    for row, score in zip(rows, near or [], strict=False):
        row["test_in_distribution"] = score
    result = {"config": config.as_dict(), "seeds": rows, **PROVENANCE}
    if config.task == "sokoban" and levels is not None:
        result["levels"] = levels
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    if validation:
        (folder / "metrics.jsonl").write_text(
            f'{{"examples": 1000, "loss": {validation}, "validation": {validation}}}\n'
        )


def lobster(model: str = "rt", seeds: int = 3, **protocol) -> LobsterConfig:
    return LobsterConfig(model, SETTINGS[model], LobsterProtocol(**protocol), tuple(range(seeds)), precision="fp32")  # pyright: ignore


def sokoban(model: str = "rt", seeds: int = 3, **rest) -> SokobanConfig:
    settings = {"recipe": RECIPES["original"], "levels": SplitsIdentity(**BOXOBAN), "precision": "fp32", **rest}
    return SokobanConfig(model, seeds=tuple(range(seeds)), **settings)  # pyright: ignore


def test_an_interval_by_our_spread_is_marked_where_nothing_is_judged(tmp_path):
    write(tmp_path / "a", lobster(examples=1000), [0.21, 0.22, 0.24])
    text = table_for("lobster", tmp_path)
    assert re.search(r"\| \+0\.003 \[-0\.\d+, \+0\.\d+\] † \| - \| - \|", text)
    assert "† One side has a single seed or no printed deviation" in text
    (row,) = [
        row
        for row in csv.DictReader(io.StringIO(to_csv(build_table("lobster", Archive(read_results(tmp_path))))))
        if row["seeds"]
    ]
    assert (row["spread_assumed"], row["in_the_noise"]) == ("yes", "-")


def test_relative_losses_are_shown_as_they_are_and_judged_by_our_spread(tmp_path):
    write(tmp_path / "a", lobster(), [0.21, 0.22, 0.24])
    write(tmp_path / "b", lobster("gat"), [0.50, 0.51, 0.52])
    text = table_for("lobster", tmp_path)
    assert "| Lobster graphs of size 100 | RT | 3 | 0.223 ± 0.015 | 0.22 | +0.003 [" in text
    assert "| yes † |" in text
    assert "| Lobster graphs of size 100 | GAT | 3 | 0.510 ± 0.010 | 0.28 | +0.230 [" in text
    assert "**no †**" in text
    assert "Not measured: GCN." in text


def test_the_papers_two_decimals_count_into_its_error(tmp_path):
    """Seeds that hardly differ: 0.215 to 0.225 is all printed as 0.22, and 0.215 is no other number."""
    write(tmp_path / "a", lobster(), [0.2179, 0.2180, 0.2181])
    table = build_table("lobster", Archive(read_results(tmp_path)))
    (judged,) = [one for one in table.judgements if one is not None]
    rounding, spread = 0.01 / math.sqrt(12), 0.0001 / math.sqrt(3) * math.sqrt(1 + 3 / 20)
    assert judged.difference.value == pytest.approx(-0.002)
    assert judged.difference.high == pytest.approx(-0.002 + 1.96 * math.hypot(rounding, spread), abs=1e-5)
    assert judged.verdict == "yes"


def test_lobsters_table_says_what_is_not_published():
    remarks = " ".join(build_table("lobster", Archive([])).remarks)
    assert "nor how it encodes edges; both were chosen here" in remarks


def test_lobsters_table_says_how_far_models_were_trained_and_what_each_seed_scores(tmp_path):
    write(tmp_path / "a", lobster("gat", seeds=2, examples=80_000), [0.30, 0.32], near=[0.05, 0.07])
    write(tmp_path / "b", lobster("gcn", seeds=1, examples=80_000), [None])
    text = table_for("lobster", tmp_path)
    assert (
        "GAT: 80,000 of 2,000,000 training graphs a seed (4.0% of the schedule). At size 100 (in brackets at sizes "
        "4 to 33): seed 0 0.300 (0.050); seed 1 0.320 (0.070); mean 0.310 (0.060), that of an oracle which sees" in text
    )
    assert "GCN: 80,000 of 2,000,000 training graphs a seed (4.0% of the schedule); every seed failed." in text
    assert "Not measured: RT." in text


def test_a_model_with_an_option_has_a_row_of_its_own_whatever_its_length(tmp_path):
    along_edges = replace(lobster(seeds=2), settings=replace(SETTINGS["rt"], attention="edges"))
    write(tmp_path / "a", lobster(seeds=2, examples=80_000), [0.40, 0.44])
    write(tmp_path / "b", along_edges, [0.10, 0.12])
    text = table_for("lobster", tmp_path)
    assert "| Lobster graphs of size 100 | RT | 2 | 0.420 ± 0.028¹ | 0.22 |" in text
    assert "| Lobster graphs of size 100 | RT, attention along edges | 2 | 0.110 ± 0.014² | - | - | - | - |" in text
    assert "² attention edges." in text
    assert "RT, attention along edges: 2,000,000 of 2,000,000 training graphs a seed (100.0% of the schedule)." in text


def test_lobsters_table_says_what_oracles_score():
    graphs = LobsterProtocol().test_graphs()
    (told,) = [line for line in build_table("lobster", Archive([])).remarks if line.startswith("Knowing")]
    for cap in (14, 23, 28, 30):
        assert f"{oracle_loss(graphs.distances, cap):.3f} for c = {cap}" in told


def test_a_seed_without_a_score_has_failed_and_the_cell_says_so(tmp_path):
    write(tmp_path / "a", lobster(), [0.21, None, 0.23])
    text = table_for("lobster", tmp_path)
    assert "| RT | 2 (1 failed) | 0.220 ± 0.014¹ | 0.22 | +0.000 [" in text
    assert "¹ 1 of 3 seeds failed: mean of the others." in text


def test_a_shorter_lobster_run_is_marked_and_not_judged(tmp_path):
    write(tmp_path / "a", lobster(examples=20_000, weighted=True), [0.2, 0.2, 0.3])
    text = table_for("lobster", tmp_path)
    assert "¹ examples 20,000, weighted on." in text
    assert "| - | - |" in text


def test_sokoban_counts_what_is_not_solved(tmp_path):
    write(tmp_path / "a", sokoban(), [0.70, 0.71, 0.72])
    table = build_table("sokoban", Archive(read_results(tmp_path)))
    rt = table.cells[1]
    assert (rt.estimate.mean, rt.paper.mean) == (pytest.approx(29.0), 29)
    assert table.judgements[1].verdict == "yes"
    assert not table.judgements[1].difference.assumed


def test_sokoban_with_own_levels_or_another_recipe_says_so(tmp_path):
    recipe = replace(RECIPES["batched"], steps=1_000_000)
    write(tmp_path / "a", sokoban("transformer", levels=None, recipe=recipe, test_levels=100), [0.5, 0.5, 0.6])
    text = table_for("sokoban", tmp_path)
    assert "¹ levels of our own generator, test levels 100, learning rate" in text
    assert "steps 1,000,000" in text


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({**BOXOBAN, "train": 100_000}, "¹ train levels 100,000."),
        ({**BOXOBAN, "test": 100, "test_digest": "fedcba9876543210"}, "¹ test levels 100."),
        ({**BOXOBAN, "test_digest": "fedcba9876543210"}, "¹ test levels other than Boxoban's."),
        ({"train": 900_000, "test": 1_000}, "¹ test levels known by their number alone."),
        (None, "¹ levels of which nothing is recorded."),
    ],
)
def test_a_folder_of_other_levels_is_not_boxoban_whatever_it_is_called(tmp_path, levels, said):
    write(tmp_path / "a", sokoban(), [0.70, 0.71, 0.72], levels=levels)
    text = table_for("sokoban", tmp_path)
    assert said in text
    assert text.count("| - | - |") == 1
    assert build_table("sokoban", Archive(read_results(tmp_path))).comparisons == 0


def test_results_on_different_levels_are_not_put_together(tmp_path):
    write(tmp_path / "a", sokoban(seeds=1), [0.7])
    write(tmp_path / "b", replace(sokoban(seeds=1), seeds=(1,)), [0.2], levels={"train": 1_000, "test": 1_000})
    assert [list(one.scores) for one in read_results(tmp_path)] == [[0], [1]]


def test_they_are_in_the_readmes_table_and_have_learning_curves(tmp_path):
    write(tmp_path / "a", lobster(), [0.21, 0.22, 0.24], validation="[0.3, 0.4, 0.5]")
    write(tmp_path / "b", sokoban("transformer"), [0.6, 0.6, 0.7], validation="[0.6, 0.6, 0.7]")
    archive = Archive(read_results(tmp_path))
    text = compare(archive)
    assert "| Lobster graphs of size 100 | RT |" in text
    assert "| Sokoban | Transformer | 3 | 36.67" in text
    assert [picture.name for picture in learning_curves(archive)] == ["curves-lobster", "curves-sokoban"]


def test_a_protocol_that_is_not_of_lobster_graphs_is_named(tmp_path):
    write(tmp_path / "a", lobster(seeds=1), [0.2])
    path = tmp_path / "a" / "result.json"
    result = json.loads(path.read_text())
    result["config"]["protocol"]["nodes"] = 3
    path.write_text(json.dumps(result))
    with pytest.raises(ValueError, match=r"a/result\.json has no protocol of lobster \(nodes is unknown\)"):
        table_for("lobster", tmp_path)
