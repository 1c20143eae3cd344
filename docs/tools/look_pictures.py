"""The pictures of the guide to `rt look`: `python docs/tools/look_pictures.py` makes pages from the gallery's runs,
lays them out as on a desk and on phones, and takes pictures of them with Chromium. Needs Pillow, which matplotlib
brings.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from gallery_pages import page_of
from PIL import Image

IMAGES = Path(__file__).parents[1] / "images"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000")


class Shot(NamedTuple):
    """A page of the gallery, opened at a step, in a frame of this width."""

    task: str
    step: int
    width: int
    scheme: str = "light"


PICTURES: dict[str, tuple[int, tuple[Shot, ...]]] = {
    "look-dijkstra.png": (860, (Shot("dijkstra", 13, 1280),)),
    "look-phone.png": (
        844,
        (
            Shot("activity_selector", 8, 390),
            Shot("lcs_length", 5, 390),
            Shot("bfs", 2, 390, "dark"),
        ),
    ),
}
"""The height of each picture, and what stands in it side by side."""


def take(chromium: str, out: Path, height: int, shots: tuple[Shot, ...]) -> None:
    """One picture of pages in frames beside each other."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for shot in shots:
            (folder / f"{shot.task}.html").write_text(page_of(shot.task), encoding="utf-8")
        frames = "".join(
            f'<iframe src="{shot.task}.html#{shot.step}" style="width:{shot.width}px;height:{height}px;border:0;'
            f'color-scheme:{shot.scheme}"></iframe>'
            for shot in shots
        )
        style = "margin:0;display:flex;gap:16px;background:#c9d0da"
        (folder / "all.html").write_text(f'<!doctype html><body style="{style}">{frames}')
        width = sum(shot.width for shot in shots) + 16 * (len(shots) - 1)
        picture = folder / "picture.png"
        size = f"--window-size={width},{height + 200}"  # more than is kept: some versions take the bars off
        command = [chromium, *FLAGS, size, f"--user-data-dir={folder / 'profile'}", f"--screenshot={picture}"]
        subprocess.run([*command, (folder / "all.html").as_uri()], check=True, capture_output=True)
        with Image.open(picture) as image:
            image.convert("RGB").crop((0, 0, width, height)).save(out, optimize=True)


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("these pictures need Chromium: make browser installs it")
    for name, (height, shots) in PICTURES.items():
        take(chromium, IMAGES / name, height, shots)
        print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
