"""A page in a real browser: headless Chromium, as a reader would open it."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# The page stands in a frame of the wanted width (a window of Chromium cannot be as narrow as a phone) and is measured.
PROBE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><pre id="seen"></pre>
<iframe src="PAGE" style="border:0;width:WIDTHpx;height:900px"></iframe>
<script>
  const frame = document.querySelector("iframe");
  frame.onload = () => {
    const page = frame.contentDocument, all = (what) => [...page.querySelectorAll(what)];
    const size = (one) => [one.getBoundingClientRect().width, one.getBoundingClientRect().height];
    document.getElementById("seen").textContent = JSON.stringify({
      title: page.title,
      scroll_width: page.documentElement.scrollWidth,
      sections: all("section").map((one) => one.id),
      tables: all("table.wide").map((one) => one.rows.length),
      pictures: all("figure svg").map(size),
      text_size: parseFloat(frame.contentWindow.getComputedStyle(page.body).fontSize),
      dead_links: all("nav a").map((one) => one.hash.slice(1)).filter((name) => !page.getElementById(name)),
    });
  };
</script>"""


@dataclass(frozen=True)
class Seen:
    """What the browser shows, and what it complains of."""

    page: dict[str, Any]
    console: list[str]


def chromium() -> str:
    """The browser of this machine; without one the test is skipped."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine to look at the page with: `make browser` installs one")
    return found


def look_at(page: Path, width: int, scratch: Path) -> Seen:
    """Open a page in a frame of that width."""
    probe = scratch / f"probe-{width}.html"
    probe.write_text(PROBE.replace("PAGE", page.resolve().as_uri()).replace("WIDTH", str(width)))
    return open_probe(probe, scratch)


def open_probe(probe: Path, scratch: Path) -> Seen:
    """Open a page that writes what it sees, as JSON, into its element `seen`."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"]
    flags += [f"--user-data-dir={scratch / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=20000"]
    shown = subprocess.run(
        [chromium(), *flags, "--dump-dom", probe.as_uri()], capture_output=True, text=True, check=True
    )
    seen = re.search(r'<pre id="seen">(.+?)</pre>', shown.stdout, flags=re.DOTALL)
    assert seen is not None, f"the page did not load: {shown.stderr[-2000:]}"
    return Seen(json.loads(seen[1]), [line for line in shown.stderr.splitlines() if ":CONSOLE" in line])
