"""Pages in a real browser: headless Chromium, offline, with its console and every address it asks for."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium: apt-get install chromium")


class Outline(html.parser.HTMLParser):
    """What a browser may load or run: script elements and attributes that hold addresses or code."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.tags: list[str] = []
        self.labels: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            # A link within the page loads nothing.
            if name in {"src", "href", "srcset", "data", "action", "poster"} and not (value or "").startswith(
                "#"
            ):
                self.addresses.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.handlers.append(f"{tag} {name}")
        if dict(attrs).get("role") == "img":
            self.labels.append(dict(attrs).get("aria-label"))


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    return parser


def has_charts(page: Path) -> bool:
    return 'id="charts"' in page.read_text(encoding="utf-8")


def browse(page: Path, folder: Path, *flags: str) -> tuple[str, str, list[str]]:
    """The page's DOM after its scripts have run, the console's lines, and every address asked for."""
    assert BROWSER is not None
    log = folder / "net.json"
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        "--net-log-capture-mode=Everything",
        "--enable-logging=stderr",
        "--virtual-time-budget=30000",
        *flags,
        "--dump-dom",
        page.as_uri(),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    console = "\n".join(line for line in run.stderr.splitlines() if "CONSOLE" in line)
    asked = re.findall(r'"url":"((?:https?|wss?|ftp):[^"]*)"', log.read_text(errors="replace"))
    # The browser's own errands (updates, accounts) do not come from the page.
    own = re.compile(r"https?://([a-z0-9.-]+\.)?(google|googleapis|gstatic|gvt1|chromium)\.(com|org)(/|$)")
    return run.stdout, console, [url for url in asked if not own.match(url)]


def unfolded(page: Path, folder: Path) -> Path:
    """A copy of the page with everything unfolded, whose charts are then all drawn."""
    copy = folder / f"unfolded-{page.name}"
    text = page.read_text(encoding="utf-8")
    copy.write_text(re.sub(r"<details(?! open)", "<details open", text), encoding="utf-8")
    return copy


def drawn_dom(page: Path, folder: Path, *, dark: bool) -> str:
    """The DOM of a page whose every figure was drawn, in silence and without asking for any address."""
    if not has_charts(page):
        pytest.skip("this build has no chart library (OTATTN_CHARTS)")
    flags = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    dom, console, asked = browse(unfolded(page, folder), folder, *flags)
    assert console == ""
    assert asked == []
    figures = dom.count('<figure class="chart"')
    assert figures > 0
    assert f'data-drawn="{figures}"' in dom
    assert dom.count("<svg ") == figures
    return dom


def script_json(dom: str, name: str) -> dict:
    match = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', dom, re.DOTALL)
    assert match is not None
    return json.loads(match.group(1))
