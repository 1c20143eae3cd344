"""Pages in a real browser, used as a reader would."""

from pathlib import Path

import numpy as np
import pytest

from relational_transformer.look.page import make_page
from relational_transformer.processors import Settings
from tests.look.browser import Seen, use_pages
from tests.look.networks import Page, read_page, untrained

PHONE, DESK = 390, 1280
TASKS = {
    "bfs": DESK,
    "mst_kruskal": DESK,
    "insertion_sort": PHONE,
    "find_maximum_subarray_kadane": DESK,
    "binary_search": DESK,
    "activity_selector": PHONE,
    "naive_string_matcher": PHONE,
    "kmp_matcher": DESK,
    "matrix_chain_order": PHONE,
    "lcs_length": DESK,
    "floyd_warshall": DESK,
    "graham_scan": PHONE,
    "segments_intersect": DESK,
}
"""Some of each kind of picture, and how wide the page is."""
NODES = 6
SIXTEEN = ("floyd_warshall", "heapsort", "kmp_matcher", "graham_scan", "bellman_ford", "task_scheduling", "dfs")
"""Algorithms on sixteen nodes, explained on a phone."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    pages = {task: make_page(task, [untrained(task)], nodes=(NODES,)) for task in TASKS}
    pages["alone"] = make_page("dijkstra", nodes=(NODES,))
    pages["alike"] = make_page("bfs", [untrained("bfs", alike=True)], nodes=(NODES,))
    layers = untrained("bellman_ford", settings=Settings(hidden_size=16, num_heads=4, num_layers=3))
    pages["layers"] = make_page("bellman_ford", [layers], nodes=(NODES,))
    pages["two runs"] = make_page("bfs", [untrained("bfs", "one"), untrained("bfs", "<b>two", seed=1)], nodes=(NODES,))
    pages |= {f"sixteen, {task}": make_page(task) for task in SIXTEEN}
    modern = untrained("quicksort", protocol="modern")
    pages["two sizes, modern"] = make_page("quicksort", [modern], nodes=(4, NODES))
    return pages


@pytest.fixture(scope="module")
def browser(texts, tmp_path_factory) -> Seen:
    """All pages, opened and used in one browser, one after the other."""
    pages = {name: (text, width_of(name)) for name, text in texts.items()}
    return use_pages(tmp_path_factory.mktemp("pages"), Path(__file__).with_name("probe.js"), pages)


def width_of(name: str) -> int:
    return PHONE if name.startswith("sixteen") else TASKS.get(name, DESK)


def names(stage: str, page: Page) -> list[str]:
    return [one["name"] for one in page.facts["features"] if one["stage"] == stage and one["location"] != "edge"]


def cells_of(page: Page, stop: int, *, fresh: bool) -> list[str]:
    """What the table has to mark at a stop, from the data alone."""
    scene = page.facts["scenes"][0]
    run, kinds = scene["runs"][0], {one["name"]: one["type"] for one in page.facts["features"]}
    is_result = stop == scene["steps"]
    found = []
    for name in names("output" if is_result else "hint", page):
        said, wrong, truth = (page.array(table[name]) for table in (run["said"], run["wrong"], scene["truth"]))
        now, before = (wrong, wrong * 0) if is_result else (wrong[stop], wrong[stop - 1] if stop else wrong[0] * 0)
        if kinds[name] == "mask_one":
            places = {int(array if is_result else array[stop]) for array in (said, truth)} if now else set()
            marked = sorted(places) if not fresh or not before else []
        else:
            marked = [
                place
                for place, value in enumerate(now.reshape(-1))
                if value and not (fresh and before.reshape(-1)[place])
            ]
        found += [f"{name}:{place}" for place in marked]
    return found


ALL = [*TASKS, "alone", "alike", "layers", "two runs", "two sizes, modern", *(f"sixteen, {task}" for task in SIXTEEN)]


def test_nothing_is_complained_of(browser):
    assert browser.console == []
    assert browser.pages.keys() == {*ALL}
    assert [seen["error"] for seen in browser.pages.values() if "error" in seen] == []


@pytest.mark.parametrize("task", TASKS)
def test_mistakes_are_marked_where_the_data_says(browser, texts, task: str):
    page, seen = read_page(texts[task]), browser.pages[task]
    assert len(seen["stops"]) == page.facts["scenes"][0]["steps"] + 1
    for stop, shown in enumerate(seen["stops"]):
        assert shown["bad"] == cells_of(page, stop, fresh=False), stop
        assert shown["fresh"] == cells_of(page, stop, fresh=True), stop
    assert seen["stops"][0]["bad"] == [], "the first step is given"
    assert seen["stops"][0]["alarms"] == 0
    assert any(stop["alarms"] for stop in seen["stops"]), "a new mistake is marked in the picture"


@pytest.mark.parametrize("name", ALL)
def test_slider_keys_and_play_move_through_the_steps(browser, name: str):
    seen = browser.pages[name]
    last = seen["last"]
    stops = [stop["where"] for stop in seen["stops"]]
    assert stops == [*(f"Step {step} of {last - 1}" for step in range(last)), "Result"]
    assert (seen["after_right"], seen["after_home"]) == (min(2, last), 0)
    assert (seen["after_end"], seen["after_left"]) == (last, last - 1)
    assert (seen["while_playing"], seen["after_play"]) == ("Pause", last)


@pytest.mark.parametrize("task", TASKS)
def test_a_key_leads_to_the_next_new_mistake_of_what_is_shown(browser, texts, task: str):
    page = read_page(texts[task])
    scene = page.facts["scenes"][0]
    wrong = {name: page.array(place) for name, place in scene["runs"][0]["wrong"].items()}
    hints = [one["name"] for one in page.facts["features"] if one["stage"] == "hint" and one["shown"]]
    steps = [step for step in range(1, scene["steps"]) for name in hints if wrong[name][step].any()]
    assert browser.pages[task]["after_m"] == (steps[0] if steps else scene["steps"])
    if steps:
        assert f"first mistake: step {steps[0]}" in browser.pages[task]["first_mistakes"]
    of_result = any(wrong[one["name"]].any() for one in page.facts["features"] if one["stage"] == "output")
    expected = "first mistake: in the result" if of_result else "no mistake"
    assert browser.pages[task]["first_without_hints"] == expected


@pytest.mark.parametrize("name", ALL)
def test_a_page_fits_its_screen_and_can_be_heard(browser, name: str):
    seen = browser.pages[name]
    assert seen["width"] <= width_of(name), "the page is wider than the screen"
    assert seen["smallest_letters"] >= 8.5, "pixels"
    assert (seen["cover"], seen["cut_off"]) == (0, 0), "flags on each other, and what leaves a picture"
    assert seen["end_is_free"] is True, "the player covers the end of the page"
    assert all(width > 150 and layers == 7 for width, layers, _ in seen["pictures"])
    assert all(": " in label for *_, label in seen["pictures"])
    assert (seen["live"], seen["focusable"], seen["unnamed"]) == ("polite", 0, 0)
    words = [stop["words"] for stop in seen["stops"]]
    assert all(stop["where"] in stop["words"] for stop in seen["stops"])
    assert len(set(words)) > len(words) // 2


@pytest.mark.parametrize("name", ALL)
def test_pictures_stand_beside_each_other_and_above_the_player(browser, name: str):
    seen = browser.pages[name]
    assert seen["pictures_beside"] is True
    assert width_of(name) == PHONE or seen["picture_is_free"] is True


@pytest.mark.parametrize("name", ALL)
def test_the_player_comes_first_in_the_order_of_keys(browser, name: str):
    order = browser.pages[name]["tab_order"]
    chips = [place for place, one in enumerate(order) if one == "chip"]
    assert order.index("theme") < order.index("play") < order.index("INPUT") < min(chips)


@pytest.mark.parametrize("task", TASKS)
def test_a_head_is_the_same_below_the_picture_and_below_the_table(browser, texts, task: str):
    is_matrix = read_page(texts[task]).facts["view"] == "matrix"
    assert is_matrix or browser.pages[task]["head_below"] == "0"


@pytest.mark.parametrize("name", ALL)
def test_hovering_explains_chips_switch_and_colours_turn(browser, name: str):
    seen = browser.pages[name]
    assert seen["tooltip"].startswith(("node ", "pair "))
    assert seen["tooltip_gone"] == [True] * 5, "after Escape, a step, and a tap elsewhere, and there in between"
    assert seen["arrows_scroll_a_wide_table"] is True
    assert seen["chip_changes_picture"] is True
    light, dark = seen["backgrounds"]
    assert light != dark


@pytest.mark.parametrize("task", TASKS)
def test_attention_is_drawn_as_lines_and_as_squares(browser, texts, task: str):
    seen, nodes = browser.pages[task], read_page(texts[task]).facts["scenes"][0]["nodes"]
    assert seen["squares"] == 2 * nodes**2
    assert seen["attention_lines"] > 0


def test_the_last_layer_and_head_are_drawn_as_the_data_says(browser, texts):
    """At step 2, which the second call of the layers made."""
    page, seen = read_page(texts["layers"]), browser.pages["layers"]
    (run,) = page.facts["scenes"][0]["runs"]
    weights, lengths = page.array(run["attention"])[1, 2, 3], page.array(run["norms"])[1]
    for drawn, data in zip(seen["opacities"], (weights, lengths), strict=True):
        assert [place for place, _ in drawn] == [f"{i},{j}" for i in range(NODES) for j in range(NODES)]
        expected = 0.04 + 0.96 * np.sqrt(data.ravel() / 255)
        np.testing.assert_allclose([opacity for _, opacity in drawn], expected, atol=0.001)
    shares = weights[weights >= 0.08 * 255] / 255
    np.testing.assert_allclose(sorted(seen["line_widths"]), sorted(1 + 7 * shares), atol=0.051)


def test_hovering_tells_weights_lengths_and_whose_value_it_is(browser, texts):
    page = read_page(texts["layers"])
    scene = page.facts["scenes"][0]
    run, (low, high) = scene["runs"][0], scene["runs"][0]["norm_range"]
    attention, norm, true, said = browser.pages["layers"]["told"]
    weight = page.array(run["attention"])[1, 2, 3, 2, 1] / 255
    assert attention == ["node 2 attends to node 1", f"with weight {weight:.2f}"]
    assert norm[0] == "edge vector of nodes 2 and 1"
    length = low + page.array(run["norms"])[1, 2, 1] / 255 * (high - low)
    assert float(norm[1].removeprefix("length ")) == pytest.approx(length, abs=0.0006)
    for lines, table in ((true, scene["truth"]), (said, run["said"])):
        (line,) = (line for line in lines if line.startswith("pi_h: "))
        assert line.startswith(f"pi_h: node {page.array(table['pi_h'])[2, 1]}")


def test_edge_vectors_that_are_all_as_long_are_told_and_not_drawn(browser):
    seen = browser.pages["alike"]
    assert seen["squares"] == NODES**2, "attention alone"
    assert "All edge vectors have the length 2.828 after every step." in seen["inside"]  # the root of 8 sizes


def test_two_runs_and_two_sizes_stand_beside_each_other(browser):
    two, sizes = browser.pages["two runs"], browser.pages["two sizes, modern"]
    assert len(two["pictures"]) == 3
    assert [label.split(",")[0] for *_, label in two["pictures"]] == ["The algorithm", "one", "<b>two"]
    assert len(sizes["pictures"]) == 4
    assert sizes["stops"][1]["words"].count("nodes, Step") == 2
    assert browser.pages["alone"]["stops"][2]["bad"] == []
