"""Colours that people can tell apart from what is behind them: 4.5 to 1 for text (WCAG AA), 3 to 1 for large shapes."""

import re
from importlib import resources

import pytest

STYLE = resources.files("relational_transformer.look.html").joinpath("page.css").read_text(encoding="utf-8")
HEAT = resources.files("relational_transformer.look.html").joinpath("matrix.js").read_text(encoding="utf-8")
TEXT, SHAPE = 4.5, 3.0
FEATURES = tuple(f"c{number}" for number in range(1, 9))


def themes() -> dict[str, dict[str, str]]:
    """The colours of each theme by name: light, dark as the system says, dark as the reader says."""
    blocks = re.findall(r":root[^{]*\{([^}]*--c8[^}]*)\}", STYLE)
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block)) for block in blocks]
    return dict(zip(("light", "dark", "chosen dark"), found, strict=True))


def rgb(color: str) -> list[float]:
    digits = color.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]


def luminance(color: list[float]) -> float:
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: list[float], other: list[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def over(color: str, back: str, share: float) -> list[float]:
    return [share * top + (1 - share) * below for top, below in zip(rgb(color), rgb(back), strict=True)]


def test_contrast_is_what_it_is_known_to_be():
    assert contrast(rgb("#000"), rgb("#ffffff")) == pytest.approx(21)
    assert contrast(rgb("#777777"), rgb("#fff")) == pytest.approx(4.48, abs=0.005)


def test_dark_is_the_same_whoever_asks_for_it():
    assert themes()["dark"] == themes()["chosen dark"]
    assert themes()["light"].keys() == themes()["dark"].keys()


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_stands_out(name: str):
    theme = themes()[name]
    pairs = [(one, back) for one in ("ink", "soft", "accent", "bad", "good") for back in ("card", "back")]
    pairs += [
        ("ink", "cell"),
        ("soft", "cell"),
        ("bad", "bad-back"),
        ("card", "accent"),
        ("card", "bad"),
        ("ink", "grey"),
    ]
    pairs += [pair for one in FEATURES for pair in ((one, "card"), ("on-color", one))]
    pairs += [("ink", f"letter-{letter}") for letter in range(4)]
    weak = {pair for pair in pairs if contrast(rgb(theme[pair[0]]), rgb(theme[pair[1]])) < TEXT}
    assert weak == set()


@pytest.mark.parametrize("name", ["light", "dark"])
def test_numbers_stand_out_from_the_strongest_heat(name: str):
    theme = themes()[name]
    least, more = map(float, re.findall(r"\((0\.\d+) \+ (0\.\d+) \* share\)", HEAT)[0])
    assert contrast(rgb(theme["ink"]), over(theme["c1"], theme["cell"], least + more)) >= TEXT


@pytest.mark.parametrize("name", ["light", "dark"])
def test_shapes_stand_out(name: str):
    theme = themes()[name]
    weak = {shape for shape in ("attention", "bar", "node") if contrast(rgb(theme[shape]), rgb(theme["card"])) < SHAPE}
    assert weak == set()
