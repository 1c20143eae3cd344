"""A sheet to draw on: shapes in, SVG out. Colours are classes, so that one style sheet serves light and dark."""

from collections.abc import Sequence
from html import escape

PALETTE = 8
"""The number of colours of lines, which then repeat."""

STYLE = """
.figure { --ink: #1b2330; --soft: #667085; --line: #dfe3ea; --strong: #3b5bdb; --weak: #a3b1c6; --paper: #c2410c;
  --c0: #3b5bdb; --c1: #d9480f; --c2: #2b8a3e; --c3: #9c36b5;
  --c4: #0b7285; --c5: #c2255c; --c6: #846358; --c7: #5c940d; }
@media (prefers-color-scheme: dark) {
  .figure { --ink: #e6eaf2; --soft: #98a2b3; --line: #2c3442; --strong: #7c9cff; --weak: #5b6b85; --paper: #ff9a5c;
    --c0: #7c9cff; --c1: #ff9a5c; --c2: #69db7c; --c3: #da77f2;
    --c4: #3bc9db; --c5: #f783ac; --c6: #c9a594; --c7: #a9e34b; }
}
.figure { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
.figure .soft { fill: var(--soft); } .figure .small { font-size: 11px; } .figure .bold { font-weight: 600; }
.figure .grid { stroke: var(--line); stroke-width: 1; fill: none; }
.figure .strong { fill: var(--strong); } .figure .weak { fill: var(--weak); }
.figure .absent { fill: none; stroke: var(--soft); stroke-dasharray: 3 3; }
.figure .spread { stroke: var(--ink); stroke-width: 1.2; opacity: .55; }
.figure .paper { stroke: var(--paper); stroke-width: 2.5; }
.figure .paper-spread { stroke: var(--paper); stroke-width: 1.2; }
.figure .end { text-anchor: end; } .figure .middle { text-anchor: middle; }
.figure .curve { fill: none; stroke-width: 1.8; } .figure .band { opacity: .16; }
""" + "".join(
    f".figure .curve.c{k} {{ stroke: var(--c{k}); }} .figure .area.c{k} {{ fill: var(--c{k}); }}\n"
    for k in range(PALETTE)
)


class Drawing:
    """Collects shapes; coordinates are in pixels of the sheet, from its upper left corner."""

    def __init__(self, title: str, width: float, height: float) -> None:
        self.title, self.width, self.height = title, width, height
        self._shapes: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self._add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def box(self, x: float, y: float, width: float, height: float, kind: str, radius: float = 2) -> None:
        size = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
        self._add(f'<rect x="{x:.1f}" y="{y:.1f}" {size} rx="{radius}" class="{kind}"/>')

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        self._add(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(text)}</text>')

    def curve(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        self._add(f'<polyline points="{_pairs(points)}" class="{kind}"/>')

    def area(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        self._add(f'<polygon points="{_pairs(points)}" class="{kind}"/>')

    def svg(self, with_style: bool = False) -> str:
        """The picture; with its style where it must stand alone."""
        style = f"<style>{STYLE}</style>" if with_style else ""
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" role="img" {size}>'
        return f"{head}<title>{escape(self.title)}</title>{style}{''.join(self._shapes)}</svg>"

    def _add(self, shape: str) -> None:
        self._shapes.append(shape)


def width_of(text: str) -> float:
    """About how wide a small text is."""
    return 6.2 * len(text)


def _pairs(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
