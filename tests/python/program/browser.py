"""Pages in a real browser: headless Chromium, offline, with its console and every address it asks for."""

from __future__ import annotations

import base64
import fcntl
import html.parser
import json
import os
import re
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

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


def must_have_charts(page: Path) -> None:
    if not has_charts(page):
        pytest.skip("this build has no chart library (OTATTN_CHARTS)")


def unfolded(page: Path, folder: Path) -> Path:
    """A copy of the page with everything unfolded, whose charts are then all drawn."""
    copy = folder / f"unfolded-{page.name}"
    text = page.read_text(encoding="utf-8")
    copy.write_text(re.sub(r"<details(?! open)", "<details open", text), encoding="utf-8")
    return copy


def drawn_dom(page: Path, folder: Path, *, dark: bool) -> str:
    """The DOM of a page whose every figure was drawn, in silence and without asking for any address."""
    must_have_charts(page)
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


def raised(descriptor: int) -> int:
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 16)
    os.close(descriptor)
    return high


class Tab:
    """A page in a browser driven as a person does it, by pointer and keys; over a pipe, without a network."""

    def __init__(self, page: str, folder: Path) -> None:
        assert BROWSER is not None
        # The browser reads its descriptor 3 and writes to 4; none of ours may have these numbers there.
        there, self.writing = map(raised, os.pipe())
        self.reading, back = map(raised, os.pipe())
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe")
        hosts = ("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND")
        command = [BROWSER, *flags, *hosts, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        script = (
            f'exec 3<&{there} 4>&{back}; for fd in {there} {back}; do eval "exec $fd<&-"; done; exec "$@"'
        )
        self.process = subprocess.Popen(
            ["bash", "-c", script, "browser", *command], pass_fds=(there, back), stderr=subprocess.DEVNULL
        )
        for descriptor in (there, back):
            os.close(descriptor)
        self.rest = b""
        self.number = 0
        self.session = ""
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=page)

    def read(self) -> dict:
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reading], [], [], 60)
            data = os.read(self.reading, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self.rest += data
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def call(self, method: str, **parameters: object) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression: str) -> Any:
        """A value of the page, of a promise what it becomes."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition} did not come true"
            time.sleep(0.05)

    def show(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the screen and the scheme of the system."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element that was scrolled into sight."""
        return tuple(
            self.evaluate(
                f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
                "e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); "
                "return [r.left, r.top, r.width, r.height]; })()"
            )
        )

    def drag(self, path: list[tuple[float, float]]) -> None:
        """The pointer goes down at the first place, through all others, and up at the last."""
        for index, (x, y) in enumerate(path):
            kind = "mouseMoved" if index else "mousePressed"
            self.mouse(kind, x, y, 1)
        self.mouse("mouseReleased", *path[-1], 0)

    def mouse(self, kind: str, x: float, y: float, buttons: int) -> None:
        event = {"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", **event)

    def drag_slider(self, selector: str, begin: float, end: float, steps: int = 40) -> None:
        """From one share of a slider's way to another."""
        left, top, width, height = self.place(selector)
        shares = [begin + (end - begin) * step / steps for step in range(steps + 1)]
        self.drag([(left + 8 + share * (width - 16), top + height / 2) for share in shares])

    def key(self, key: str) -> None:
        codes = {
            "PageUp": 33,
            "PageDown": 34,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
            "Home": 36,
            "End": 35,
            "Escape": 27,
            "Enter": 13,
        }
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key]
            )

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """The page, or what is on the screen, as PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """What the console said, scripts threw, and addresses that were asked for."""
        self.evaluate("1")
        found = []
        for event in self.events:
            method, values = event.get("method"), event.get("params", {})
            if method in {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}:
                found.append(json.dumps(values)[:400])
            url = values["request"]["url"] if method == "Network.requestWillBeSent" else "about:"
            if not re.match(r"file:|about:|data:|blob:", url):
                found.append(url)
        return found

    def close(self) -> None:
        try:
            self.session = ""
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        self.process.wait(timeout=30)
        for descriptor in (self.writing, self.reading):
            os.close(descriptor)
