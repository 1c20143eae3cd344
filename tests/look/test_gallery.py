"""The gallery: its runs are whole, are kept apart from the results of the benchmark, and become pages of the site."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from relational_transformer.clrs import ALGORITHMS
from relational_transformer.reports.results.measured import read_results
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train
from relational_transformer.training import CLRSTask, load_network
from tests.look.networks import read_page

REPOSITORY = Path(__file__).parents[2]
RUNS = REPOSITORY / "results" / "gallery"

pytest.importorskip("mkdocs")
sys.path.insert(0, str(REPOSITORY / "docs" / "tools"))
import gallery  # noqa: E402
import gallery_pages  # noqa: E402


def config_in(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("task", ALGORITHMS)
def test_a_run_is_of_the_one_recipe_and_holds_its_best_parameters_alone(task: str):
    folder = RUNS / task
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "metrics.jsonl",
        "checkpoint.safetensors",
        "result.json",
    }
    assert config_in(folder) == json.loads(json.dumps(gallery.config_of(task).as_dict()))
    result = RunFolder(folder).read_result()
    assert result is not None
    assert len(result["commit"]) == 40
    assert result["hardware"].endswith("CPU, 1 threads")
    assert len(RunFolder(folder).read_metrics_of(result)) == gallery.VALIDATIONS
    assert (folder / "checkpoint.safetensors").stat().st_size < 300_000
    assert sum(one.numel() for one in load_network(folder).parameters()) == result["parameters"]


def test_a_run_scores_what_its_result_says():
    found = CLRSTask.evaluate(RunFolder(RUNS / "bfs"), torch.device("cpu"))
    result = RunFolder(RUNS / "bfs").read_result()
    assert result is not None
    assert found.title == "rt on bfs, 32 nodes"
    assert found.scores == pytest.approx({row["seed"]: row["test"] for row in result["seeds"]})


def test_reports_leave_the_gallery_out_unless_it_is_what_they_are_asked_for():
    of_all = {folder for one in read_results(REPOSITORY / "results") for folder in (run.folder for run in one.runs)}
    assert of_all
    assert not any(RUNS in folder.parents for folder in of_all)
    assert sorted(one.task for one in read_results(RUNS)) == sorted(ALGORITHMS)


def test_publishing_keeps_what_is_needed_to_look_and_to_evaluate(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(gallery, "MOST", 15)
    config = gallery.config_of("bfs")
    result = train(CLRSTask(config), tmp_path / "run", torch.device("cpu"))
    gallery.publish(RunFolder(tmp_path / "run"), tmp_path / "published")
    before, after = (load_network(tmp_path / name).state_dict() for name in ("run", "published"))
    assert all(torch.equal(before[name], after[name]) for name in before)
    published = RunFolder(tmp_path / "published")
    assert published.checkpoint.stat().st_size < RunFolder(tmp_path / "run").checkpoint.stat().st_size / 2
    found = CLRSTask.evaluate(published, torch.device("cpu"))
    assert found.scores == pytest.approx({row["seed"]: row["test"] for row in result["seeds"]})
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(ValueError, match="has not ended"):
        gallery.publish(RunFolder(tmp_path / "run"), tmp_path / "again")


def test_every_algorithm_has_a_page_and_a_row_that_leads_to_it(monkeypatch):
    monkeypatch.setattr(gallery_pages, "page_of", lambda task: f"<p>{task}</p>")
    pages = []
    config = SimpleNamespace(site_dir="/site", use_directory_urls=True, plugins=SimpleNamespace(_current_plugin=None))
    gallery_pages.on_files(pages, config)
    assert [page.src_uri for page in pages] == [f"gallery/{task}.html" for task in ALGORITHMS]
    index = SimpleNamespace(file=SimpleNamespace(src_uri=gallery_pages.INDEX))
    text = gallery_pages.on_page_markdown((REPOSITORY / "docs/gallery/index.md").read_text(), index)
    assert all(f"({task}.html)" in text for task in ALGORITHMS)
    assert gallery_pages.PLACE not in text
    assert len(re.findall(r"^\| \[.*\| [\d.]+% \| [\d.]+% \|", text, flags=re.MULTILINE)) == len(ALGORITHMS)


def test_a_page_shows_the_run_of_its_algorithm():
    page = read_page(gallery_pages.page_of("bfs"))
    assert page.facts["scenes"][0]["nodes"] == 16
    (run,) = page.facts["runs"]
    assert run["name"] == "small RT"
    assert run["about"].startswith("rt, one layer, 9,600 training examples")
