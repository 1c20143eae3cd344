"""Pictures: what is drawn, and where."""

import re
from xml.etree import ElementTree

import pytest

from relational_transformer.reports.figures.bars import LEFT, RIGHT, WIDTH, Bar, Group, draw_bars
from relational_transformer.reports.figures.curves import Curve, draw_curves, read_curve
from relational_transformer.reports.figures.drawing import width_of
from relational_transformer.reports.figures.histograms import draw_histograms
from relational_transformer.reports.pictures import bar_chart, histograms, learning_curves
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.estimate import Estimate
from relational_transformer.reports.results.measured import read_results
from tests.reports.fakes import write_result

SVG = "{http://www.w3.org/2000/svg}"


def shapes(drawing, tag: str, kind: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(drawing.svg())
    return [one.attrib for one in root.iter(SVG + tag) if kind in one.attrib.get("class", "").split()]


def texts(drawing) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(drawing.svg()).iter(SVG + "text")]


def test_a_bar_is_as_long_as_its_number_and_the_papers_mark_stands_at_its_own():
    bar = Bar("RT", Estimate.of([40.0, 60.0]), Estimate.printed(80.0, 5.0, 20), strong=True)
    drawing = draw_bars("a chart", [Group("RT", (bar,))])
    plot = WIDTH - LEFT - RIGHT
    widths = [float(one["width"]) for one in shapes(drawing, "rect", "strong")]
    assert pytest.approx(plot / 2, abs=0.1) in widths
    marks = [float(one["x1"]) for one in shapes(drawing, "line", "paper")]
    assert pytest.approx(LEFT + 0.8 * plot, abs=0.1) in marks
    (whisker,) = shapes(drawing, "line", "spread")
    assert float(whisker["x2"]) - float(whisker["x1"]) == pytest.approx(2 * 0.1414 * plot, abs=0.5)
    assert "50.0" in texts(drawing)


def test_a_missing_number_is_an_empty_bar_that_says_so():
    drawing = draw_bars("a chart", [Group("GAT", (Bar("GAT", None, Estimate.printed(80.0, None, 20)),))])
    assert len(shapes(drawing, "rect", "absent")) == 1
    assert "missing" in texts(drawing)


def ends_of_texts(drawing) -> list[float]:
    """Where texts end that begin at their place, all taken to be small."""
    root = ElementTree.fromstring(drawing.svg())
    from_the_left = [one for one in root.iter(SVG + "text") if not {"end", "middle"} & set(one.attrib["class"].split())]
    return [float(one.attrib["x"]) + width_of(one.text or "") for one in from_the_left]


def test_what_is_missing_of_an_average_fits_beside_its_bar():
    bars = tuple(
        Bar("RT", None, Estimate.printed(100.0, None, 20), absent=text) for text in ("1 of 12 tasks", "missing")
    )
    drawing = draw_bars("a chart", [Group("RT", bars)])
    assert max(ends_of_texts(drawing)) <= WIDTH
    (outline, _) = shapes(drawing, "rect", "absent")
    assert LEFT + float(outline["width"]) < WIDTH - width_of("1 of 12 tasks")


def test_the_keys_of_many_curves_take_several_rows():
    names = ["Deep Sets", "GAT", "GATv2", "MPNN", "PGN", "PGN-m", "Transformer", "RT without edge updates", "RT"]
    curve = Curve((320, 640), (10.0, 100.0), (5.0, 95.0), (15.0, 100.0))
    few, many = (
        draw_curves("bfs", dict.fromkeys(models, curve), dict.fromkeys(names, 0)) for models in (names[:2], names)
    )
    assert max(ends_of_texts(many)) <= many.width
    assert set(names) <= set(texts(many))
    lowest_key = max(float(one["y"]) for one in shapes(many, "rect", "area"))
    highest_line = min(float(one["y1"]) for one in shapes(many, "line", "grid"))
    assert lowest_key < highest_line
    assert many.height - few.height == lowest_key - max(float(one["y"]) for one in shapes(few, "rect", "area")) > 0


def test_text_cannot_break_out_of_the_picture():
    drawing = draw_bars('<script> & "so on"', [Group("<b>", (Bar("<i>", None, None),))])
    assert "<b>" not in drawing.svg()
    assert "<b>" in texts(drawing)


def test_a_histogram_has_the_share_of_runs_in_each_bin():
    drawing = draw_histograms("spread", {"RT": [5.0, 85.0, 90.0, 100.0], "GAT": []})
    heights = [float(one["height"]) for one in shapes(drawing, "rect", "strong")]
    assert [height / max(heights) for height in heights] == pytest.approx([1 / 3, 0, 0, 0, 1])
    assert {"25", "75", "4 runs", "missing"} <= set(texts(drawing))


def test_a_curve_is_the_mean_over_the_seeds_of_all_fleets(tmp_path):
    for name, seeds in (("a", {0: 0.5, 1: 0.7}), ("b", {2: None})):
        write_result(tmp_path / name, "bfs", seeds)
    (tmp_path / "a" / "metrics.jsonl").write_text('{"examples": 320, "loss": [1, 1], "validation": [0.2, 0.4]}\n')
    (tmp_path / "b" / "metrics.jsonl").write_text('{"examples": 320, "loss": [null], "validation": [null]}\n')
    (result,) = read_results(tmp_path)
    curve = read_curve(result)
    assert (curve.examples, curve.mean[0], curve.low[0], curve.high[0]) == ((320,), pytest.approx(30.0), 20.0, 40.0)
    drawing = draw_curves("BFS", {"RT": curve}, {"RT": 0})
    assert "320 examples" in texts(drawing)


def test_a_long_run_is_thinned_and_keeps_its_end(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.5])
    lines = [f'{{"examples": {320 * k}, "loss": [1], "validation": [0.5]}}\n' for k in range(1, 1001)]
    (tmp_path / "a" / "metrics.jsonl").write_text("".join(lines))
    curve = read_curve(read_results(tmp_path)[0])
    assert len(curve.examples) <= 121
    assert curve.examples[-1] == 320_000


def test_damaged_metrics_are_named(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.5])
    (tmp_path / "a" / "metrics.jsonl").write_text("{")
    with pytest.raises(ValueError, match=r"^line 1 of \S*metrics.jsonl is not JSON .*; delete it: only curves"):
        read_curve(read_results(tmp_path)[0])


def test_figure_1_has_every_model_and_the_published_results(tmp_path):
    drawn = texts(bar_chart(Archive([])).drawing)
    assert {"Deep Sets", "GAT-v1", "GAT-v2", "MPNN", "PGN-u", "PGN-m", "PGN-c", "RT", "MPNN-pr", "Deep Sets-pr"} <= set(
        drawn
    )


def test_histograms_are_of_single_runs_and_curves_of_tasks_with_metrics(tmp_path):
    write_result(tmp_path / "a", "naive_string_matcher", [0.1, 0.9], curves=True)
    write_result(tmp_path / "b", "bfs", [0.9, 0.9])
    archive = Archive(read_results(tmp_path))
    one, every = histograms(archive)
    assert "2 runs" in texts(one.drawing)
    assert "4 runs" in texts(every.drawing)
    assert "(2 of 30 measured)" in every.caption
    assert [picture.name for picture in learning_curves(archive)] == ["curves-naive_string_matcher"]


def test_colours_are_classes_so_that_dark_pages_can_change_them(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.9, 0.8], curves=True)
    archive = Archive(read_results(tmp_path))
    for picture in (bar_chart(archive), *histograms(archive), *learning_curves(archive)):
        assert not re.search(r'(fill|stroke)="', picture.drawing.svg())
