"""Reports in a real browser: nothing is fetched, no script fails, charts are drawn, text stays text.

Two pages: that of `verify` with its studies, and the hostile page of the C test test_report, whose every
string tries to become markup. Chromium runs headless and offline; without it these tests are skipped with the
reason.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import (
    Tab,
    browse,
    drawn_dom,
    has_charts,
    must_have_charts,
    needs_browser,
    outline,
    script_json,
    unfolded,
)

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("OTATTN_BUILD", ROOT / "build"))
PROGRAM = Path(os.environ.get("OTATTN", BUILD / "otattn"))
LARGEST = 1_500_000


@pytest.fixture(scope="module")
def verify_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("report") / "verify.html"
    subprocess.run([PROGRAM, "verify", "-o", page], check=True, capture_output=True, timeout=600)
    return page


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = [str(BUILD / "tests" / "tests_program"), "test_report"]
    page = tmp_path_factory.mktemp("report") / "hostile.html"
    environment = {**os.environ, "OTATTN_REPORT_PAGE": str(page)}
    environment.pop("OTATTN_SPEC_LOG", None)
    subprocess.run(writer, check=True, capture_output=True, env=environment, timeout=60)
    return page


@pytest.fixture(params=["verify_page", "hostile_page"])
def page(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def test_page_is_complete_in_itself(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    found = outline(text)
    assert found.addresses == []
    assert found.handlers == []
    assert not set(found.tags) & {"link", "img", "iframe", "object", "embed", "base", "form"}
    assert "default-src 'none'" in text
    assert re.search(r"@import|url\(", text[: text.index("</style>")]) is None


def test_every_chart_has_words_and_numbers(verify_page: Path) -> None:
    text = verify_page.read_text(encoding="utf-8")
    charts = text.count('<figure class="chart"')
    assert charts >= 15
    assert text.count("<details><summary>Numbers") + text.count("<details open><summary>Numbers") == charts
    if has_charts(verify_page):
        labels = outline(text).labels
        assert len(labels) == charts
        assert all(label is not None and len(label) > 40 for label in labels)
        for specification in script_json(text, "specifications").values():
            assert specification["$schema"].endswith("/vega-lite/v6.json")
            assert "values" not in specification["data"]
            assert "url" not in specification["data"]


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_browser_draws_without_requests_or_errors(page: Path, dark: bool, tmp_path: Path) -> None:
    dom = drawn_dom(page, tmp_path, dark=dark)
    assert dom.count(">Save as SVG</button>") == dom.count('<figure class="chart"')
    # The theme's ink for axis titles: drawn for the colours that the system asked for.
    theme = script_json(dom, "theme")
    ink = theme["dark" if dark else "light"]["axis"]["titleColor"]
    other = theme["light" if dark else "dark"]["axis"]["titleColor"]
    assert f'fill="{ink}"' in dom
    assert f'fill="{other}"' not in dom


def test_lines_answer_at_the_nearest_point() -> None:
    """Every figure with a line names the nearest point, wherever the pointer is; fields say how they are set,
    for Vega-Lite reads those that do not from the pointer's region instead of from the point."""
    files = sorted((ROOT / "program" / "report" / "figures").glob("*.vl.json"))
    lines = [file for file in files if '"type": "line"' in file.read_text(encoding="utf-8")]
    assert len(lines) >= 25
    for file in lines:
        figure = json.loads(file.read_text(encoding="utf-8"))
        near = [
            layer
            for layer in figure["layer"]
            if any(row["name"] == "near" for row in layer.get("params", []))
        ]
        assert len(near) == 1, file.name
        assert near[0]["params"][0]["select"]["nearest"] is True
        fields = near[0].get("encoding", {}).get("tooltip") or figure["encoding"]["tooltip"]
        assert all("format" in field for field in fields), file.name


def test_the_page_of_verify_answers_first(verify_page: Path) -> None:
    """Model and settings, sentences whose numbers are the figures', figures, then what unfolds."""
    text = verify_page.read_text(encoding="utf-8")
    places = [
        text.index(mark)
        for mark in ('class="facts"', 'class="answers"', '<figure class="chart"', '<details class="fold"')
    ]
    assert places == sorted(places)
    assert text[: places[3]].count('<figure class="chart"') <= 12
    said = re.search(r'<ol class="answers">(.*?)</ol>', text, re.DOTALL)
    assert said is not None
    sentences = re.findall(r'<li>(.*?) <a href="#(\w+)">', said[1])
    assert 5 <= len(sentences) == said[1].count("<li>") <= 8
    assert all(f' id="{name}"' in text for _, name in sentences)
    by_figure = {name: html.unescape(sentence) for sentence, name in sentences}

    def points(name: str, series: str) -> list[tuple[float, float]]:
        figure = text[text.index(f' id="{name}"') :]
        (rows,) = json.loads(
            re.findall(r'<script type="application/json">(.*?)</script>', figure)[0]
        ).values()
        kind, x, y = rows[0]
        return [(row[x], row[y]) for row in rows if row[kind] == series]

    if has_charts(verify_page):
        (shift, softmax), (_, exact) = (points("sink", name)[-1] for name in ("softmax", "softmax/exact"))
        assert by_figure["sink"] == (
            f"A key whose scores are raised by {shift:.0f} ends with {softmax:#.3g} more than its share "
            f"under softmax and {exact:#.3g} under the doubly stochastic plan."
        )
    table = text[text.index(">By source<") :].split("</table>")[0]
    rows = re.findall(
        r'<tr><th scope="row">(\w+)</th><td class="n">(\d+)</td><td class="n">(\d+)</td>', table
    )
    all_of, right = (sum(int(row[k]) for row in rows) for k in (1, 2))
    assert by_figure["checks"].startswith(f"{right} of {all_of} statements come out as they should")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    opened = Tab("about:blank", tmp_path_factory.mktemp("tab"))
    yield opened
    opened.close()


def opened(tab: Tab, page: Path, width: int, height: int) -> None:
    must_have_charts(page)
    tab.events.clear()
    tab.show(width, height)
    tab.call("Page.navigate", url="about:blank")
    tab.call("Page.navigate", url=page.as_uri())
    tab.wait("document.documentElement?.dataset.drawn")


@needs_browser
def test_the_page_of_verify_is_short_until_it_unfolds(verify_page: Path, tab: Tab) -> None:
    opened(tab, verify_page, 1280, 900)
    assert tab.evaluate("document.documentElement.scrollHeight") <= 6000
    drawn = int(tab.evaluate("document.documentElement.dataset.drawn"))
    # A link to what is folded unfolds it, and its charts are drawn.
    tab.evaluate("document.querySelector('.answers a[href=\"#printed\"]').click()")
    tab.wait("document.getElementById('printed').open")
    assert "fails, as expected" in tab.evaluate("document.getElementById('printed').innerText")
    tab.evaluate("document.querySelector('details.fold').open = true")
    tab.wait(f"Number(document.documentElement.dataset.drawn) > {drawn}")
    assert tab.complaints() == []


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_charts_are_read_point_by_point(verify_page: Path, tab: Tab, width: int) -> None:
    opened(tab, verify_page, width, 900)
    figure = "document.getElementById('sink')"
    rows = json.loads(tab.evaluate(f"{figure}.querySelector('script').textContent"))["shifts"]

    def says(row: dict[str, Any], index: int) -> bool:
        words = f"method {row['method']}, shift {row['shift']:g}, largest deviation "
        said = re.fullmatch(rf"{re.escape(words)}(\S+) \({index} of {count}\)", reading())
        return said is not None and float(said[1]) == float(f"{row['delta']:.4g}")

    def reading() -> str:
        return tab.evaluate(f"{figure}.querySelector('.reading').textContent")

    series = {row["method"]: [one for one in rows if one["method"] == row["method"]] for row in rows}
    names = list(series)
    count = len(series[names[0]])
    label = tab.evaluate(f"{figure}.querySelector('.plot').getAttribute('aria-label')")
    assert label.endswith(f"Arrow keys read its {len(rows)} points.")
    assert tab.evaluate(f"{figure}.querySelector('.reading').getAttribute('aria-live')") == "polite"
    tab.evaluate(f"{figure}.querySelector('.plot').focus()")
    assert reading() == ""
    for keys, name, index in (
        (["ArrowRight"], 0, 0),
        (["ArrowRight"], 0, 1),
        (["ArrowDown"], 1, 1),
        (["ArrowDown", "ArrowDown", "ArrowDown"], len(names) - 1, 1),
        (["End"], len(names) - 1, count - 1),
        (["ArrowRight"], len(names) - 1, count - 1),
        (["Home", "ArrowUp"], len(names) - 2, 0),
    ):
        for key in keys:
            tab.key(key)
        assert says(series[names[name]][index], index + 1), reading()
        # The ring stands round the point that is read, within the chart.
        ring, plot = (
            tab.evaluate(
                f"(() => {{ const r = {figure}.querySelector('{one}').getBoundingClientRect(); "
                "return [r.left, r.right, r.top, r.bottom]; })()"
            )
            for one in (".crosshair", ".plot")
        )
        assert plot[0] <= ring[0] < ring[1] <= plot[1] and plot[2] <= ring[2] < ring[3] <= plot[3]
    tab.key("Escape")
    assert reading() == "" and tab.evaluate(f"{figure}.querySelector('.crosshair').hidden")
    # Every chart has points to read, and each is read once.
    tab.evaluate("for (const fold of document.querySelectorAll('details.fold')) fold.open = true")
    charts = tab.evaluate("document.querySelectorAll('.plot').length")
    tab.wait(f"Number(document.documentElement.dataset.drawn) === {charts}")
    labels = tab.evaluate(
        "[...document.querySelectorAll('.plot')].map((plot) => plot.getAttribute('aria-label'))"
    )
    assert all(re.search(r"Arrow keys read its \d+ points\.$", label) for label in labels), labels
    assert tab.complaints() == []


HOVER = """<script>
(async () => {
  const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });
  while (!document.documentElement.dataset.drawn) await sleep(50);
  const said = [];
  for (const plot of document.querySelectorAll(".plot")) {
    if (!plot.querySelector(".mark-line")) continue;
    plot.scrollIntoView({ block: "center" });
    await sleep(30);
    const at = plot.querySelector("svg .background").getBoundingClientRect();
    const [x, y] = [at.left + 0.4 * at.width, at.top + 0.5 * at.height];
    for (const kind of ["pointerover", "pointermove"]) {
      document.elementFromPoint(x, y).dispatchEvent(
        new PointerEvent(kind, { bubbles: true, clientX: x, clientY: y }));
    }
    await sleep(60);
    const tip = document.getElementById("vg-tooltip-element");
    said.push(tip && tip.classList.contains("visible") ? tip.textContent : "");
  }
  document.body.dataset.tips = JSON.stringify(said);
})();
</script></body>"""


@needs_browser
def test_tooltips_answer_anywhere_in_a_line_chart(verify_page: Path, tmp_path: Path) -> None:
    must_have_charts(verify_page)
    hovered = tmp_path / "hovered.html"
    text = unfolded(verify_page, tmp_path).read_text(encoding="utf-8")
    hovered.write_text(text.replace("</body>", HOVER), encoding="utf-8")
    dom, console, _ = browse(hovered, tmp_path, "--window-size=1280,900")
    assert console == ""
    found = re.search(r'data-tips="([^"]*)"', dom)
    assert found is not None
    tips = json.loads(html.unescape(found[1]))
    assert len(tips) >= 2
    assert all(tip and "undefined" not in tip for tip in tips), tips


@needs_browser
def test_hostile_text_stays_text(hostile_page: Path, tmp_path: Path) -> None:
    # A witness at the end of the page points at a cell once the charts stand, and tells what ran; the
    # policy allows it as it allows the page's own script.
    witness = (
        "<script>const wait = setInterval(() => {"
        " const charts = document.getElementById('charts'), data = document.body.dataset;"
        " if (charts && !document.documentElement.dataset.drawn) return; clearInterval(wait);"
        " const cell = document.querySelector('.plot .mark-rect path');"
        " for (const kind of charts ? ['pointerover', 'pointermove'] : [])"
        " cell.dispatchEvent(new PointerEvent(kind, {bubbles: true, clientX: 9, clientY: 9}));"
        " setTimeout(() => { const tip = document.getElementById('vg-tooltip-element');"
        " if (tip) { data.tip = tip.textContent; data.inside = tip.querySelectorAll('img, script').length; }"
        " data.hit = String(window.hit); data.images = document.images.length; }, 500);"
        " }, 50);</script></body>"
    )
    text = hostile_page.read_text(encoding="utf-8")
    watched = tmp_path / "watched.html"
    watched.write_text(text.replace("</body>", witness), encoding="utf-8")
    dom, console, asked = browse(watched, tmp_path)
    assert 'data-hit="undefined"' in dom
    if has_charts(hostile_page):
        assert re.search(r'data-tip="[^"]*script(>|&gt;)window.hit=1', dom) is not None
        assert 'data-inside="0"' in dom
    assert 'data-images="0"' in dom
    assert console == ""
    assert asked == []


@needs_browser
def test_page_fits_a_phone(verify_page: Path, tmp_path: Path) -> None:
    # Wide tables and code scroll by themselves; the page as a whole must not.
    witness = (
        "<script>const wait = setInterval(() => { const root = document.documentElement;"
        " if (!root.dataset.drawn && document.getElementById('charts')) return; clearInterval(wait);"
        " document.body.dataset.widths = `${root.scrollWidth} ${innerWidth}`; }, 50);</script></body>"
    )
    narrow = tmp_path / "narrow.html"
    text = verify_page.read_text(encoding="utf-8")
    narrow.write_text(text.replace("</body>", witness), encoding="utf-8")
    dom, console, _ = browse(narrow, tmp_path, "--window-size=390,844")
    assert console == ""
    found = re.search(r'data-widths="(\d+) (\d+)"', dom)
    assert found is not None
    assert int(found[2]) <= 500
    assert int(found[1]) <= int(found[2])


@needs_browser
def test_the_checks_above_can_fail(hostile_page: Path, tmp_path: Path) -> None:
    """The same checks on a page that does fetch, does fail and does let a string through."""
    bad = "<script>window.hit=1; undefinedFunction()</script><img src='http://example.invalid/x.png'></body>"
    text = hostile_page.read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    planted = tmp_path / "planted.html"
    planted.write_text(text.replace("</body>", bad), encoding="utf-8")
    _, console, asked = browse(planted, tmp_path)
    assert "undefinedFunction" in console
    assert any("example.invalid" in url for url in asked)
    found = outline(planted.read_text(encoding="utf-8"))
    assert found.addresses
    assert "img" in found.tags
