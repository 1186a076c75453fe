"""The report of a run: its page in a browser, its figures and LaTeX tables against what the folder holds.

The folders come from run_folders.py. Numbers on the page are compared with formulas written here.
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_folders
import spec
from browser import browse, drawn_dom, needs_browser, outline
from program import answer, run
from safetensors.numpy import load_file, save_file

LARGEST = 2_500_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 layers x 12 heads x 512 tokens, whose patterns are noise: nothing packs worse."""
    folder = run_folders.write(tmp_path_factory.mktemp("whole") / "run", noise=True, seed=1)
    assert answer(folder.parent, "report", "run")["report"] == "run/report.html"
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = run_folders.write(
        tmp_path_factory.mktemp("hostile") / "run", layers=3, heads=4, tokens=40, hostile=True
    )
    answer(folder.parent, "report", "run")
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and both.html beside them."""
    folder = tmp_path_factory.mktemp("both")
    for name, seed in (("a", 3), ("b", 4)):
        run_folders.write(folder / name, layers=4, heads=3, tokens=40, seed=seed)
    answer(folder, "report", "a", "--compare", "b", "-o", "both.html")
    return folder


@pytest.fixture(params=["whole", "hostile", "both"])
def page(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder / ("both.html" if request.param == "both" else "report.html")


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def points(folder: Path, name: str, dataset: str) -> list[dict[str, Any]]:
    text = (folder / "figures" / f"{name}.vl.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["datasets"][dataset]
    return found


# ---- what is written ----


def test_page_is_complete_in_itself_and_small(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) <= LARGEST
    found = outline(text)
    assert found.addresses == []
    assert found.handlers == []
    assert not set(found.tags) & {"link", "img", "iframe", "object", "embed", "base", "form"}
    # Every script element is closed once: no string closed one.
    assert text.count("<script") == text.count("</script>")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029]", text)


def test_figures_hold_the_numbers_of_metrics(whole: Path) -> None:
    metrics = metrics_of(whole)
    for name, key, part, first in (
        ("drift", "relative_l2", "transitions", 1),
        ("tv", "tv", "transitions", 1),
        ("entropy", "entropy", "layers", 0),
    ):
        drawn = [point for point in points(whole, name, "points") if point["series"] != "raw probe"]
        assert [point["layer"] for point in drawn] == [first + layer for layer in range(len(metrics[part]))]
        for point, layer in zip(drawn, metrics[part], strict=True):
            for member in ("median", "mean", "p5", "p95", "n"):
                assert point[member] == pytest.approx(layer[key][member], rel=1e-8)
            assert [point["lower"], point["upper"]] == pytest.approx(layer[key]["ci95"], rel=1e-8)
    raw = [point["mean"] for point in points(whole, "tv", "points") if point["series"] == "raw probe"]
    assert raw == pytest.approx([layer["raw"]["tv"]["mean"] for layer in metrics["transitions"]], rel=1e-8)
    for cell in points(whole, "sink_rate", "cells"):
        figure = metrics["attention"][cell["layer"]][cell["head"]]["sink_rate"]
        assert cell["value"] == pytest.approx(figure["mean"], rel=1e-8)


def test_every_figure_stands_alone(whole: Path) -> None:
    files = sorted((whole / "figures").glob("*.vl.json"))
    assert len(files) >= 40
    for file in files:
        figure = json.loads(file.read_text(encoding="utf-8"))
        assert figure["$schema"].endswith("/vega-lite/v6.json")
        names = {
            layer["data"]["name"]
            for layer in [figure, *figure.get("layer", [])]
            if "name" in layer.get("data", {})
        }
        assert names <= set(figure["datasets"])
        assert all(figure["datasets"].values())
        assert isinstance(figure["width"], int)
        assert figure["title"]


def test_counts_and_exponent_are_told(whole: Path) -> None:
    metrics = metrics_of(whole)
    text = (whole / "report.html").read_text(encoding="utf-8")
    # TOT-70: samples x layers x positions.
    told = re.search(r"measured at every position: (\d+) in all, (\d+) a layer", text)
    assert told is not None
    spec.check("TOT-70", abs(int(told[1]) - metrics["tokens"] * len(metrics["transitions"])), 0)
    means = [layer["alignment"]["mean"] for layer in metrics["transitions"]]
    slope = np.polyfit(np.log(np.arange(1, len(means) + 1)), np.log(means), 1)[0]
    exponent = re.search(r"R goes like layer\^([-.\d]+)", text)
    assert exponent is not None
    assert abs(float(exponent[1]) - slope) <= 5.1e-4
    assert "24576 transitions were held against the Lipschitz bound" in text


def test_events_are_counted(whole: Path) -> None:
    with (whole / "tables" / "events.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    drawn = points(whole, "saturation", "events")
    for bar in drawn:
        assert bar["count"] == sum(int(row["layer"]) == bar["layer"] for row in rows)
    assert sum(bar["count"] for bar in drawn) == len(rows)
    # A state more than layers: the embedding is one.
    assert len(drawn) == 13
    tokens = points(whole, "saturation_tokens", "tokens")
    assert [token["count"] for token in tokens] == sorted((token["count"] for token in tokens), reverse=True)


def test_patterns_travel_packed(whole: Path) -> None:
    text = (whole / "report.html").read_text(encoding="utf-8")
    figure = re.search(r'<figure class="chart maps".*?</figure>', text, re.DOTALL)
    assert figure is not None
    packed = re.search(r'<script type="text/plain">(.*?)</script>', figure[0])
    assert packed is not None
    levels = np.frombuffer(gzip.decompress(base64.b64decode(packed[1])), np.uint8).reshape(12, 12, 96, 96)
    weights = load_file(whole / "example.safetensors")["patterns"].astype(np.float64)
    assert np.abs((levels / 63) ** 2 - weights).max() <= 0.02


def test_two_runs_are_held_against_each_other(both: Path) -> None:
    first, second = metrics_of(both / "a"), metrics_of(both / "b")
    with (both / "a" / "tables" / "compare.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 21 * 4 + 7 * 5
    for row in rows:
        place = int(row["layer"]) - (row["part"] == "transitions")
        a, b = (run[row["part"]][place][row["measure"]] for run in (first, second))
        change = b["mean"] - a["mean"]
        lower = change - np.hypot(b["mean"] - b["ci95"][0], a["ci95"][1] - a["mean"])
        upper = change + np.hypot(b["ci95"][1] - b["mean"], a["mean"] - a["ci95"][0])
        found = [float(row[name]) for name in ("difference", "lower", "upper")]
        assert found == pytest.approx([change, lower, upper], rel=1e-6, abs=1e-9)
    # Of the first run's own report nothing was written.
    assert [file.name for file in (both / "a" / "figures").iterdir()] == ["compare.vl.json"]
    assert not (both / "a" / "report.html").exists()
    assert not (both / "b" / "figures").exists()


def test_same_folder_same_bytes(hostile: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(hostile, copy)
    answer(tmp_path, "report", "run")
    for file in sorted(hostile.rglob("*")):
        if file.is_file():
            assert file.read_bytes() == (copy / file.relative_to(hostile)).read_bytes(), file.name


# ---- LaTeX ----

COMMANDS = {
    "begin",
    "end",
    "toprule",
    "midrule",
    "bottomrule",
    "usepackage",
    "textbackslash",
    "textasciicircum",
    "textasciitilde",
    "textless",
    "textgreater",
    "pm",
    "times",
}


def test_latex_runs_no_foreign_command(hostile: Path) -> None:
    files = sorted((hostile / "tables").glob("*.tex"))
    assert {file.stem for file in files} == {"table1", "table5", "events", "methods", "temperatures"}
    for file in files:
        text = file.read_text(encoding="utf-8")
        with (hostile / "tables" / f"{file.stem}.csv").open(newline="", encoding="utf-8") as source:
            rows = list(csv.reader(source))
        assert set(re.findall(r"\\([A-Za-z]+)", text)) <= COMMANDS
        assert "input\\{/etc/passwd\\}" in text or file.stem != "events"
        assert not re.search("[\u202a-\u202e\u2028\u2029\x00-\x09\x0b-\x1f]", text)
        body = text.split("\\toprule\n")[1].split("\\bottomrule")[0]
        lines = [line for line in body.split("\\\\\n") if line.strip()]
        assert len(lines) == len(rows)
        for line in lines:
            assert len(re.findall(r"(?<!\\)&", line)) == len(rows[0]) - 1
            plain = re.sub(r"\$[-\d.]+\\times10\^\{-?\d+\}\$", "", line)
            assert not re.search(r"(?<!\\)[%#~^]", plain)


def test_numbers_are_short_where_they_are_read(whole: Path) -> None:
    latex = (whole / "tables" / "methods.tex").read_text(encoding="utf-8")
    assert f"softmax/capped:2 & 0.31 & 4.1 & {np.exp(4.1):.4g} & 2 \\\\\n" in latex
    events = (whole / "tables" / "events.tex").read_text(encoding="utf-8")
    assert events.count(r"$3\times10^{-11}$ \\") == 41
    text = (whole / "report.html").read_text(encoding="utf-8")
    assert f'<td class="n">{np.exp(4.1):.4g}</td>' in text
    assert '<td class="n">3e-11</td>' in text


# ---- folders that are none ----


def break_metrics(folder: Path) -> None:
    (folder / "metrics.json").write_text('{"model":', encoding="utf-8")


def break_shape(folder: Path) -> None:
    save_file(
        {"tv": np.zeros((3, 7), np.float32)}, folder / "example.safetensors", metadata={"tokens": '["a"]'}
    )


def break_tokens(folder: Path) -> None:
    save_file({"tv": np.zeros((3, 1), np.float32)}, folder / "example.safetensors", metadata={"tokens": "7"})


@pytest.mark.parametrize(
    ("breaks", "code", "words"),
    [
        (lambda folder: (folder / "metrics.json").unlink(), 6, "metrics.json: cannot be read"),
        (break_metrics, 4, "metrics.json: line 1"),
        (lambda folder: (folder / "metrics.json").write_text("[1]"), 4, "holds no object"),
        (lambda folder: (folder / "tables" / "events.csv").write_text(""), 4, "events.csv: is empty"),
        (break_shape, 4, "the shape of 'tv' does not fit the tokens"),
        (break_tokens, 4, "'tokens' is no array"),
    ],
)
def test_a_broken_folder_is_refused(breaks: Any, code: int, words: str, tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=2, heads=2, tokens=12)
    breaks(folder)
    done = run(tmp_path, "report", "run")
    assert done.returncode == code
    assert words in done.stderr.decode()
    assert not (folder / "report.html").exists()


def test_little_is_enough(tmp_path: Path) -> None:
    """Only metrics.json must be there, and figures may be null."""
    folder = tmp_path / "run"
    folder.mkdir()
    layer = {"tv": None, "cosine": run_folders.figure(np.array([0.5, 0.6]))}
    (folder / "metrics.json").write_text(
        json.dumps({"model": "m", "windows": 1, "tokens": 3, "transitions": [layer]}), encoding="utf-8"
    )
    answer(tmp_path, "report", "run")
    assert [file.name for file in (folder / "figures").iterdir()] == ["cosine.vl.json"]


def test_quoted_cells_come_whole(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=2, heads=2, tokens=12)
    (folder / "tables" / "odd.csv").write_bytes(b'name,text\r\n"a, ""b""","line\none"\r\nshort\r\n')
    answer(tmp_path, "report", "run")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert '<th scope="row">a, &quot;b&quot;</th><td>line\none</td>' in text
    assert '<th scope="row">short</th><td></td>' in text
    # A table that nobody knows stands under its own name.
    assert "<caption>odd</caption>" in text


# ---- in the browser ----


@needs_browser
@pytest.mark.parametrize(
    ("page", "dark"), [("whole", False), ("hostile", False), ("both", True)], indirect=["page"]
)
def test_browser_draws_without_requests_or_errors(page: Path, dark: bool, tmp_path: Path) -> None:
    dom = drawn_dom(page, tmp_path, dark=dark)
    maps = re.findall(r'<figure class="chart maps"[^>]* data-rows="(\d+)" data-columns="(\d+)"', dom)
    assert maps
    drawn = re.findall(r'<figure class="chart maps"[^>]* data-drawn="(\d+)"', dom)
    assert [int(count) for count in drawn] == [int(rows) * int(columns) for rows, columns in maps]
    assert dom.count('class="map"') == sum(map(int, drawn))
    assert "Save as CSV" in dom
    assert '<nav aria-label="Contents">' in dom


WITNESS = """<script>
window.addEventListener("error", () => { document.body.dataset.failed = "1"; });
const wait = setInterval(() => {
  const root = document.documentElement, maps = document.querySelector("figure.maps");
  if (document.getElementById("charts") && !root.dataset.drawn) return;
  if (!maps.dataset.drawn) return;
  clearInterval(wait);
  const said = {}, buttons = [...maps.querySelectorAll("button.map")];
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const stops = [...document.querySelectorAll("a, button, summary, [tabindex]")]
    .filter((one) => one.tabIndex >= 0);
  said.positive = stops.filter((one) => one.tabIndex > 0).length;
  said.unnamed = stops.filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim())).length;
  said.first = stops[0].id;
  said.mapStops = stops.filter((one) => one.className === "map").length;
  buttons[0].focus();
  press(document.activeElement, "ArrowRight");
  press(document.activeElement, "ArrowDown");
  said.chosen = document.activeElement.getAttribute("aria-label");
  said.title = maps.querySelector("h4").textContent;
  document.activeElement.click();
  said.enlarged = document.activeElement.tagName;
  const reading = () => maps.querySelector(".reading").textContent;
  said.before = reading();
  press(document.activeElement, "ArrowDown");
  said.after = reading();
  press(document.activeElement, "Escape");
  said.back = document.activeElement.getAttribute("aria-label");
  const ink = () => getComputedStyle(document.body).color;
  const pixel = () => {
    const canvas = buttons[0].firstChild;
    return canvas.toDataURL();
  };
  said.colours = [];
  const toggle = document.getElementById("theme-switch");
  for (let turn = 0; turn < 2; turn += 1) {
    toggle.click();
    said.colours.push([root.dataset.theme, ink(), pixel()]);
  }
  said.hit = String(window.hit);
  said.images = document.images.length;
  document.body.dataset.said = JSON.stringify(said);
}, 50);
</script></body>"""


@needs_browser
def test_keyboard_and_theme_work_and_text_stays_text(hostile: Path, tmp_path: Path) -> None:
    text = (hostile / "report.html").read_text(encoding="utf-8")
    watched = tmp_path / "watched.html"
    watched.write_text(text.replace("</body>", WITNESS), encoding="utf-8")
    dom, console, asked = browse(watched, tmp_path)
    assert console == ""
    assert asked == []
    assert "data-failed" not in dom
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found is not None
    said = json.loads(
        found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    )
    assert said["positive"] == 0
    assert said["unnamed"] == 0
    assert said["first"] == "theme-switch"
    # One stop for all maps; the arrow keys do the rest: one to the right, one down, of 4 a row.
    assert said["mapStops"] == 1
    assert said["chosen"] == said["title"] == said["back"] == "layer 1, head 1"
    assert said["enlarged"] == "CANVAS"
    assert said["before"].startswith("query 0 </script><script>window.hit=1</script> → key 0 ")
    assert said["after"].startswith("query 1 ␣of → key 0 ")
    weight = load_file(hostile / "example.safetensors")["patterns"][1, 1, 1, 0]
    assert abs(float(said["after"].rsplit(" ", 1)[1]) - weight) <= 0.026
    (light, light_ink, light_pixel), (dark, dark_ink, dark_pixel) = said["colours"]
    assert (light, dark) == ("light", "dark")
    assert light_ink != dark_ink
    assert light_pixel != dark_pixel
    assert said["hit"] == "undefined"
    assert said["images"] == 0


@needs_browser
def test_page_fits_a_phone(hostile: Path, tmp_path: Path) -> None:
    witness = (
        "<script>const wait = setInterval(() => { const root = document.documentElement;"
        " if (!root.dataset.drawn && document.getElementById('charts')) return; clearInterval(wait);"
        " document.body.dataset.widths = `${root.scrollWidth} ${innerWidth}`; }, 50);</script></body>"
    )
    narrow = tmp_path / "narrow.html"
    text = (hostile / "report.html").read_text(encoding="utf-8")
    narrow.write_text(text.replace("</body>", witness), encoding="utf-8")
    dom, console, _ = browse(narrow, tmp_path, "--window-size=390,844")
    assert console == ""
    found = re.search(r'data-widths="(\d+) (\d+)"', dom)
    assert found is not None
    assert int(found[1]) <= int(found[2]) <= 500
