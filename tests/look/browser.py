"""Pages in headless Chromium that a script uses as a reader would. It sends what it saw when it has done, so nothing
here depends on how long that takes."""

import json
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.reports.browser import chromium

LONGEST = 1800
"""Seconds, against hanging for ever."""

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr")


class Seen(NamedTuple):
    """What the script saw of each page by name, and what the browser complains of."""

    pages: dict[str, Any]
    console: list[str]


class Handler(SimpleHTTPRequestHandler):
    """Hands out the files of a folder, and takes what was seen."""

    def __init__(self, *arguments, taken: list[bytes], done: threading.Event, **options) -> None:
        self.taken, self.done = taken, done
        super().__init__(*arguments, **options)

    def do_POST(self) -> None:
        self.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.done.set()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def use_pages(folder: Path, script: Path, pages: dict[str, tuple[str, int]]) -> Seen:
    """Open pages, given by name as text and width, from this folder, and use them with this script."""
    places = []
    for number, (name, (text, width)) in enumerate(pages.items()):
        (folder / f"{number}.html").write_text(text)
        places.append([name, f"{number}.html", width])
    (folder / "probe.html").write_text(
        '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body>'
        f"<script>const PAGES = {json.dumps(places)};\n{script.read_text()}</script>"
    )
    taken: list[bytes] = []
    done = threading.Event()
    handler = partial(Handler, directory=str(folder), taken=taken, done=done)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [chromium(), *FLAGS, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-port=0"]
        address = f"http://127.0.0.1:{server.server_address[1]}/probe.html"
        with open(folder / "stderr.txt", "w") as said:
            browser = subprocess.Popen([*command, address], stdout=subprocess.DEVNULL, stderr=said)
            # A browser that dies is not waited for.
            threading.Thread(target=lambda: (browser.wait(), done.set()), daemon=True).start()
            try:
                done.wait(LONGEST)
            finally:
                browser.terminate()
                browser.wait()
                server.shutdown()
    told = (folder / "stderr.txt").read_text(errors="replace")
    assert taken, f"the pages were not used to their end: {told[-2000:]}"
    return Seen(json.loads(taken[0]), [line for line in told.splitlines() if ":CONSOLE" in line])
