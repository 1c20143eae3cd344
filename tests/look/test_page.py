"""What is inside the pages of all thirty algorithms, against the data and by plain loops."""

import math
import re

import numpy as np
import pytest
import torch

from relational_transformer.clrs import ALGORITHMS, sample, spec_of
from relational_transformer.clrs.samples.modern import modern_form
from relational_transformer.look.explanations import EXPLANATIONS, words_of
from relational_transformer.look.page import make_page
from relational_transformer.processors import Settings
from relational_transformer.reasoning.scores import count_all, mean_score
from tests.look.networks import Page, read_page, untrained

HEADS = Settings(hidden_size=24, num_heads=12, num_layers=3)
"""As much attention as the paper's model has."""
PAGES: dict[str, tuple[int, Page]] = {}


def page_of(task: str) -> Page:
    """The page of an untrained run, made once; and its size in bytes."""
    if task not in PAGES:
        text = make_page(task, [untrained(task, settings=HEADS)])
        PAGES[task] = len(text.encode()), read_page(text)
    return PAGES[task][1]


def one_hot(values: np.ndarray, size: int) -> np.ndarray:
    return (values[..., None] == np.arange(size)).astype(np.int8)


def same_as_data(kind: str, shown: np.ndarray, data: np.ndarray) -> bool:
    """The plain form of a feature against the form that data has."""
    if kind == "mask_one":
        return np.array_equal(one_hot(shown, data.shape[-1]), data)
    if kind == "categorical":
        expected = one_hot(shown, data.shape[-1])
        return all(
            (row.min() == -1) if value == -1 else np.array_equal(row, hot)
            for value, row, hot in zip(
                shown.ravel(),
                data.reshape(-1, data.shape[-1]),
                expected.reshape(-1, data.shape[-1]),
                strict=True,
            )
        )
    return np.array_equal(shown, data)


@pytest.mark.parametrize("task", ALGORITHMS)
def test_a_page_holds_the_example_as_it_was_sampled(task: str):
    page, data = page_of(task), sample(task, 1, 16, 3)
    (scene,) = page.facts["scenes"]
    assert (scene["nodes"], scene["steps"]) == (data.num_nodes, data.lengths[0])
    stages = {
        **{name: array[0] for name, array in data.inputs.items()},
        **{name: array[: data.lengths[0], 0] for name, array in data.hints.items()},
        **{name: array[0] for name, array in data.outputs.items()},
    }
    assert scene["truth"].keys() == stages.keys()
    kinds = {feature["name"]: feature["type"] for feature in page.facts["features"]}
    for name, expected in stages.items():
        assert same_as_data(kinds[name], page.array(scene["truth"][name]), expected), name


@pytest.mark.parametrize("task", ALGORITHMS)
def test_mistakes_are_where_a_plain_loop_finds_them(task: str):
    page = page_of(task)
    (scene,), (run,) = page.facts["scenes"], page.facts["scenes"][0]["runs"]
    checked = 0
    for feature in page.facts["features"]:
        name = feature["name"]
        if feature["stage"] == "input":
            continue
        said, wrong, truth = (page.array(table[name]) for table in (run["said"], run["wrong"], scene["truth"]))
        is_hint = feature["stage"] == "hint"
        tolerance = 0.0
        if feature["type"] == "scalar":
            later = truth[1:].astype(np.float64)
            tolerance = 0.25 * (later.std() if later.std() > 1e-6 else np.abs(later).max() or 1.0)
        for place, value in np.ndenumerate(truth):
            expected = said[place] != value
            if feature["type"] == "scalar":
                expected = abs(float(said[place]) - float(value)) > tolerance
            if feature["type"] in ("mask", "categorical") and value == -1:
                expected = False
            if is_hint and place[0] == 0:
                expected = False
            assert bool(wrong[place]) == expected, (name, place)
            checked += expected
    assert checked > 0, "an untrained network makes mistakes"


@pytest.mark.parametrize("task", ALGORITHMS)
def test_a_page_of_sixteen_nodes_is_small_and_every_layer_and_head_is_on_it(task: str):
    page = page_of(task)
    (run,) = page.facts["scenes"][0]["runs"]
    assert PAGES[task][0] < 2_000_000
    steps, nodes = page.facts["scenes"][0]["steps"] - 1, page.facts["scenes"][0]["nodes"]
    assert run["attention"]["shape"] == [steps, 3, 12, nodes, nodes]
    assert run["norms"]["shape"] == [steps, nodes, nodes]
    sums = page.array(run["attention"]).astype(np.float64).sum(-1) / 255
    assert np.abs(sums - 1).max() < nodes * 0.5 / 255 + 1e-9, "weights of a row add up to 1, to within their rounding"


def test_a_page_of_sixteen_nodes_is_small_even_where_attention_cannot_be_compressed(monkeypatch):
    seen: list[tuple[int, ...]] = []

    def noise(weights: torch.Tensor) -> np.ndarray:
        seen.append(tuple(weights.shape))
        return np.random.default_rng(0).integers(0, 256, weights.shape, dtype=np.uint8)

    monkeypatch.setattr("relational_transformer.look.inside._as_bytes", noise)
    runs = [untrained("jarvis_march", name, settings=HEADS) for name in ("one", "two")]
    assert len(make_page("jarvis_march", runs).encode()) < 2_000_000
    assert max(math.prod(shape) for shape in seen) > 200_000, "there was much to keep"


@pytest.mark.parametrize("protocol", ["paper", "modern"])
@pytest.mark.parametrize("task", ALGORITHMS)
def test_every_feature_is_explained_in_words(task: str, protocol):
    explanation, spec = EXPLANATIONS[task], spec_of(task, protocol=protocol)
    for name, feature in spec.items():
        assert words_of(task, name)
        if feature.type == "categorical" and name in explanation.classes:
            assert len(explanation.classes[name]) == feature.classes
    both = {**spec_of(task), **spec_of(task, protocol="modern")}
    assert {*explanation.shown, *explanation.flags, *explanation.classes} <= {*both}
    assert all(name in both for key, name in explanation.options.items() if key in ("height", "order", "heat", "level"))


@pytest.mark.parametrize("protocol", ["paper", "modern"])
@pytest.mark.parametrize("task", ["bfs", "insertion_sort", "lcs_length", "floyd_warshall", "segments_intersect"])
def test_what_is_shown_is_what_the_network_says(task: str, protocol):
    """A loop of our own over the network's steps, decided by hand."""
    run = untrained(task, protocol=protocol, seed=1)
    page = read_page(make_page(task, [run], nodes=(5,)))
    data = sample(task, 1, 5, 3) if protocol == "paper" else modern_form(task, sample(task, 1, 5, 3, version="2.0"))
    inputs, hints, outputs = (
        {name: torch.from_numpy(array) for name, array in stage.items()}
        for stage in (data.inputs, data.hints, data.outputs)
    )
    batch = run.network.pack(inputs, hints, outputs, torch.from_numpy(data.lengths))
    with torch.no_grad():
        first = {key: hint[0] for key, hint in batch.hints.items()}
        told = run.network.predict(batch.inputs, first, batch.lengths, keep_hints=True)
        logits = {group.key: [told.outputs[name] for name in group.names] for group in run.network.outputs}
    assert told.hints is not None
    (shown,) = page.facts["scenes"][0]["runs"]
    for feature in page.facts["features"]:
        name, kind = feature["name"], feature["type"]
        if feature["stage"] != "hint":
            continue
        said, given = page.array(shown["said"][name])[1:], told.hints[name][:, 0].numpy()
        if kind == "scalar":
            np.testing.assert_allclose(said, given, rtol=1e-6)
        elif kind == "mask":
            assert np.array_equal(said, given > 0)
        else:
            axis = -1 if kind in ("pointer", "mask_one", "categorical") else None
            assert np.array_equal(said, given.argmax(axis)), name
        if kind == "mask_one":
            chances = page.array(shown["sure"][name])[1:] / 255
            np.testing.assert_allclose(chances, torch.from_numpy(given).softmax(-1), atol=0.5 / 255 + 1e-6)
    packed = {key: torch.stack(values, -1) for key, values in logits.items()}
    score = mean_score(run.network.outputs, count_all(run.network.outputs, packed, batch.outputs)).item()
    assert shown["score"] == pytest.approx(score)


def test_the_order_of_the_modern_form_begins_at_its_first_number():
    truth, modern = make_page("insertion_sort"), make_page("insertion_sort", protocol="modern")
    orders = [read_page(text) for text in (truth, modern)]
    plain, cyclic = (page.array(page.facts["scenes"][0]["truth"]["pred"]) for page in orders)
    assert np.array_equal(plain, cyclic)


def test_runs_of_both_protocols_stand_beside_each_other():
    runs = [untrained("minimum", "old"), untrained("minimum", "new", protocol="modern")]
    page = read_page(make_page("minimum", runs, nodes=(4, 6)))
    assert [scene["nodes"] for scene in page.facts["scenes"]] == [4, 6]
    for scene in page.facts["scenes"]:
        old, new = scene["runs"]
        assert old["said"].keys() - new["said"].keys() == {"pred_h"}
        assert (
            page.array(scene["truth"]["key"]).tolist()
            == sample("minimum", 1, scene["nodes"], 3).inputs["key"][0].tolist()
        )


def test_layers_that_are_asked_for_are_kept_and_a_large_page_keeps_the_last_one_alone():
    run = untrained("insertion_sort", settings=HEADS)
    asked = read_page(make_page("insertion_sort", [run], nodes=(4,), layers=(1, 3))).facts["scenes"][0]["runs"][0]
    assert asked["layers"] == [1, 3]
    assert asked["attention"]["shape"] == [3, 2, 12, 4, 4]
    large = read_page(make_page("insertion_sort", [run], nodes=(56,))).facts["scenes"][0]["runs"][0]
    assert large["layers"] == [3]
    assert "last of 3 layers" in large["attention_note"]
    with pytest.raises(ValueError, match="layers are numbers from 1 to 3, the layers of untrained; got 4"):
        make_page("insertion_sort", [run], nodes=(4,), layers=(4,))


@pytest.mark.parametrize(("model", "has_norms"), [("mpnn", False), ("rt_no_edge_updates", True)])
def test_models_without_attention_or_edge_vectors_are_shown_without(model: str, has_norms: bool):
    settings = Settings(processor="mpnn", hidden_size=8, num_heads=1, num_layers=1, pointers_from_edges=False)
    if has_norms:
        settings = Settings(hidden_size=8, num_heads=2, num_layers=1, update_edges=False, pointers_from_edges=False)
    (run,) = read_page(make_page("bfs", [untrained("bfs", model, settings=settings)])).facts["scenes"][0]["runs"]
    assert (run["attention"] is not None) == has_norms
    assert ("no relational attention" in run["attention_note"]) == (not has_norms)


def test_a_model_without_hints_shows_its_outputs_alone():
    settings = Settings(hidden_size=8, num_heads=2, num_layers=1, hint_mode="none")
    page = read_page(make_page("bfs", [untrained("bfs", settings=settings)]))
    assert page.facts["scenes"][0]["runs"][0]["said"].keys() == {"pi"}


def test_a_page_may_load_nothing_and_its_names_cannot_break_out():
    name = "</script><!--<img src=x onerror=alert(1)>"
    text = make_page("bfs", [untrained("bfs", name)])
    assert read_page(text).facts["runs"][0]["name"] == name
    assert "<img" not in text
    assert text.count("<script") == text.count("</script>") == 3
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert set(re.findall(r"https?://[^\s\"'<`]+", text)) == {"http://www.w3.org/2000/svg"}


def test_wrong_arguments_are_told():
    with pytest.raises(ValueError, match="Did you mean 'dijkstra'"):
        make_page("dikstra")
    with pytest.raises(ValueError, match="untrained is a run of bfs, and the page is about dfs"):
        make_page("dfs", [untrained("bfs")])
    with pytest.raises(ValueError, match="nodes must name at least one size"):
        make_page("dfs", nodes=())
