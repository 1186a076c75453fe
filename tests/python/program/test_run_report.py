"""The report of a run: its page in a browser, its figures and LaTeX tables against what the folder holds.

The folders come from run_folders.py. Numbers on the page are compared with formulas written here.
"""

from __future__ import annotations

import base64
import csv
import gzip
import html
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_folders
import spec
from browser import Tab, browse, drawn_dom, needs_browser, outline
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


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 layers, whose page is as tall as that of few."""
    folder = run_folders.write(tmp_path_factory.mktemp("deep") / "run", layers=80, heads=8, tokens=24)
    answer(folder.parent, "report", "run")
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
        ("drift", "relative_l2", "transitions", 0),
        ("tv", "tv", "transitions", 0),
        # A state stands at the layer that it leaves, the model's input at -1.
        ("entropy", "entropy", "layers", -1),
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
        assert isinstance(figure["width"], int) or set(figure["width"]) == {"step"}
        assert "$axis" not in file.read_text(encoding="utf-8")
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
    exponent = re.search(r"the number of layers passed, 1 at layer 0, to the power (-?\d+\.\d+)", text)
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
    # Events are transitions: one bar a layer, none for the model's input.
    assert [bar["layer"] for bar in drawn] == list(range(12))
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
    assert len(rows) == 21 * 4 + 9 * 5
    assert all(row["layer"] == row["second_layer"] for row in rows)
    assert "different numbers of layers" not in (both / "both.html").read_text(encoding="utf-8")
    for row in rows:
        place = int(row["layer"]) + (row["part"] == "layers")
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


@pytest.mark.parametrize(("first", "second"), [(4, 9), (9, 4), (4, 1)])
def test_runs_of_different_depths_are_aligned(tmp_path: Path, first: int, second: int) -> None:
    """Each layer beside the one at the same share of the depth, ends beside ends."""
    for name, layers in (("a", first), ("b", second)):
        run_folders.write(tmp_path / name, layers=layers, heads=2, tokens=20, seed=layers)
    answer(tmp_path, "report", "a", "--compare", "b", "-o", "both.html")
    runs = metrics_of(tmp_path / "a"), metrics_of(tmp_path / "b")
    with (tmp_path / "a" / "tables" / "compare.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        after = row["part"] == "layers"
        places = [int(row[name]) + after for name in ("layer", "second_layer")]
        lengths = [len(run[row["part"]]) for run in runs]
        share = places[0] * (lengths[1] - 1) / max(lengths[0] - 1, 1)
        assert abs(places[1] - share) <= 0.5
        a, b = (run[row["part"]][k][row["measure"]] for run, k in zip(runs, places, strict=True))
        assert float(row["difference"]) == pytest.approx(b["mean"] - a["mean"], rel=1e-6, abs=1e-9)
    text = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "different numbers of layers" in text


def test_same_folder_same_bytes(hostile: Path, tmp_path: Path) -> None:
    """Whatever the locale, whose decimal comma is in no number."""
    copy = tmp_path / "run"
    shutil.copytree(hostile, copy)
    assert run(tmp_path, "report", "run", LC_ALL="de_DE.UTF-8").returncode == 0
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
    assert {file.stem for file in files} == {
        "table1",
        "table5",
        "events",
        "massive",
        "methods",
        "temperatures",
    }
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
    maps = re.findall(r'<figure class="chart maps"[^>]* data-layers="(\d+)" data-heads="(\d+)"', dom)
    assert maps
    drawn = re.findall(r'<figure class="chart maps"[^>]* data-drawn="(\d+)"', dom)
    assert [int(count) for count in drawn] == [int(layers) * int(heads) for layers, heads in maps]
    assert dom.count('class="map"') == sum(map(int, drawn))
    assert "Save as CSV" in dom or page.name == "both.html"
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
    said = told(dom)
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
def test_cells_of_heads_are_read_by_rows_and_chosen(hostile: Path, tmp_path: Path) -> None:
    """Arrow keys go along a layer's heads and to the next layer; Enter chooses the head that is read."""
    tab = Tab((hostile / "report.html").as_uri(), tmp_path)
    try:
        tab.show(1280, 900)
        tab.wait("document.documentElement?.dataset.drawn")
        tab.evaluate("document.querySelector('#first_key_mass .plot').focus()")
        reading = "document.querySelector('#first_key_mass .reading').textContent"
        mean = [
            [head["first_key_mass"]["mean"] for head in layer] for layer in metrics_of(hostile)["attention"]
        ]
        for keys, layer, head in (("Home", 0, 0), ("ArrowRight", 0, 1), ("ArrowDown", 1, 1), ("End", 1, 3)):
            tab.key(keys)
            said = re.fullmatch(
                r"layer (\d+), head (\d+), mean (\S+),.* \((\d+) of 4\)", tab.evaluate(reading)
            )
            assert said is not None, tab.evaluate(reading)
            assert [int(said[k]) for k in (1, 2, 4)] == [layer, head, head + 1]
            # A page holds six digits.
            assert float(said[3]) == float(f"{float(f'{mean[layer][head]:.6g}'):.4g}")
        tab.key("Enter")
        assert tab.evaluate("document.querySelector('figure.maps h4').textContent") == "layer 1, head 3"
        assert tab.complaints() == []
    finally:
        tab.close()


# ---- what stands first ----


def answers(page: Path) -> list[tuple[str, str | None]]:
    """The sentences at the top, all of them, with the id that each leads to."""
    text = page.read_text(encoding="utf-8")
    found: list[tuple[str, str | None]] = []
    for item in re.findall(r"<li>(.*?)</li>", text, re.DOTALL):
        link = re.search(r' <a href="#([^"]*)">[^<]*</a>$', item)
        found.append((item[: link.start()] if link else item, link and link[1]))
    return found


def test_answers_are_true_and_lead_to_their_figures(whole: Path) -> None:
    metrics = metrics_of(whole)
    said = answers(whole / "report.html")
    text = (whole / "report.html").read_text(encoding="utf-8")
    assert len(said) >= 5
    shown = re.search(r'<ol class="answers">(.*?)</ol>', text, re.DOTALL)
    assert shown is not None
    assert 5 <= shown[1].count("<li>") <= 8
    assert text.index('class="facts"') < text.index('class="answers"') < text.index('<figure class="chart"')
    assert all(name is not None and f' id="{name}"' in text for _, name in said)

    by_figure = {name: sentence for sentence, name in said}
    sinks = [[head["sink_rate"]["mean"] > 0.5 for head in layer] for layer in metrics["attention"]]
    mass = np.array([[head["first_key_mass"]["mean"] for head in layer] for layer in metrics["attention"]])
    layer, head = np.unravel_index(mass.argmax(), mass.shape)
    sentence = by_figure["first_key_mass"]
    if any(map(any, sinks)):
        assert sentence.startswith(f"{sum(map(any, sinks))} of 12 layers have a sink")
        assert f"{sum(map(sum, sinks))} of 144 heads" in sentence
    else:
        assert sentence.startswith("No head has a sink")
    assert f"layer {layer}, head {head}" in sentence
    assert f"{100 * mass.max():.0f} % [" in sentence

    moves = [move["tv"] for move in metrics["transitions"]]
    most, least = (pick(range(12), key=lambda k: moves[k]["mean"]) for pick in (max, min))
    low, high = moves[most]["ci95"]
    assert by_figure["tv"] == (
        f"Predictions move most in layer {most}, by a total variation of {moves[most]['mean']:#.3g} "
        f"[{low:#.3g}, {high:#.3g}], and least in layer {least}, by {moves[least]['mean']:#.3g} "
        f"[{moves[least]['ci95'][0]:#.3g}, {moves[least]['ci95'][1]:#.3g}]."
    )
    names = [head["name"] for layer in metrics["attention"] for head in layer]
    counted = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(filter(None, names)))
    known = len(names) - names.count(None)
    assert by_figure["heads_named"] == f"{known} of 144 heads have a name by what they do: {counted}."
    score = np.array([[head["induction"]["mean"] for head in layer] for layer in metrics["attention"]])
    layer, head = np.unravel_index(score.argmax(), score.shape)
    assert f"layer {layer}, head {head}: {100 * score.max():.0f} %" in by_figure["induction"]
    assert by_figure["massive_ratio"].endswith("at layer 11 in dimension 19 of the token \u2423the.")
    agreed = [state["agreement_with_final"]["mean"] for state in metrics["layers"]]
    settled = max(k for k in range(13) if agreed[k] < 0.5) + 1
    assert by_figure["agreement_with_final"].startswith(f"From layer {settled - 1} on ")
    assert by_figure["bounds"].startswith(
        "All 24,576 comparisons keep the Lipschitz bound; the largest uses 13 %"
    )
    assert "become more alike with depth" in by_figure["mean_cosine"]


def test_two_runs_answer_with_their_differences(both: Path) -> None:
    first, second = metrics_of(both / "a"), metrics_of(both / "b")
    # Behind them the sentences of each run by itself are folded.
    count = (both / "both.html").read_text(encoding="utf-8").split("</ol>")[0].count("<li>")
    assert count >= 2
    said = answers(both / "both.html")[:count]
    found = re.fullmatch(r"(\d+) of (\d+) means of .* differ by an interval that leaves out 0\.", said[0][0])
    assert found is not None
    with (both / "a" / "tables" / "compare.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    apart = [float(row["lower"]) > 0 or float(row["upper"]) < 0 for row in rows]
    assert [int(found[1]), int(found[2])] == [sum(apart), len(rows)]
    for sentence, figure in said[1:]:
        found = re.search(r"is ([-.\d]+) \[.* in the first and ([-.\d]+) \[.* at (layer|the emb)", sentence)
        assert found is not None, sentence
        key = {"drift": "relative_l2"}.get(str(figure), figure)
        part = "transitions" if key in first["transitions"][0] else "layers"
        means = [[f"{layer[key]['mean']:#.3g}".rstrip(".") for layer in run[part]] for run in (first, second)]
        assert (found[1], found[2]) in zip(*means, strict=True)


def test_a_change_of_the_numbers_changes_the_answer(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=3, heads=2, tokens=24)
    metrics = metrics_of(folder)
    metrics["attention"][2][1]["sink_rate"]["mean"] = 0.9
    metrics["bounds"]["violations"] = 2
    metrics["layers"].reverse()
    for number, state in enumerate(metrics["layers"]):
        state["layer"] = number
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    answer(tmp_path, "report", "run")
    said = {name: sentence for sentence, name in answers(folder / "report.html")}
    assert said["first_key_mass"].startswith("1 of 3 layers have a sink")
    assert said["bounds"].startswith("2 of 288 comparisons break the Lipschitz bound")
    assert "become less alike with depth" in said["mean_cosine"]


def said_of(metrics: dict[str, Any], folder: Path) -> dict[str | None, str]:
    """The sentences of the folder with other metrics, by the id that each leads to."""
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    answer(folder.parent, "report", folder.name)
    return {name: sentence for sentence, name in answers(folder / "report.html")}


def without_intervals(part: Any) -> Any:
    """As one window leaves it."""
    if isinstance(part, list):
        return [without_intervals(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {name: None if name == "ci95" else without_intervals(one) for name, one in part.items()}


@pytest.mark.parametrize(
    ("last", "half", "alike", "goes"),
    [
        (0.167, None, "become more alike with depth (by values without an interval):", "rises (by values"),
        (0.012, None, "become less alike with depth (by values without an interval):", "falls (by values"),
        (0.0296, None, "stay as alike with depth (by values without an interval):", "stays (by values"),
        (0.167, 0.01, "become more alike with depth:", "rises from"),
        (0.0123, 0.01, "become neither clearly more nor", "goes, within overlapping intervals, from"),
    ],
)
def test_ends_are_told_apart_by_intervals_or_values(
    last: float, half: float | None, alike: str, goes: str, tmp_path: Path
) -> None:
    folder = run_folders.write(tmp_path / "run", layers=4, heads=2, tokens=24)
    metrics = metrics_of(folder)
    if half is None:
        metrics = {**without_intervals(metrics), "windows": 1}
    for part, key in (("layers", "mean_cosine"), ("transitions", "alignment")):
        for place, mean in ((0, 0.0296), (-1, last)):
            ends = None if half is None else [mean - half, mean + half]
            metrics[part][place][key].update(mean=mean, ci95=ends)
    said = said_of(metrics, folder)
    assert said["mean_cosine"].startswith(f"The states of one window {alike}")
    assert said["alignment"].startswith(f"What alignment leaves, R, {goes}")
    assert ("[" in said["mean_cosine"]) == (half is not None)
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert ("tokens in 1 window<" in text) == (half is None)


def test_runs_of_one_window_are_not_told_apart(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 4)):
        folder = run_folders.write(tmp_path / name, layers=3, heads=2, tokens=20, seed=seed)
        (folder / "metrics.json").write_text(json.dumps(without_intervals(metrics_of(folder))))
    answer(tmp_path, "report", "a", "--compare", "b", "-o", "both.html")
    first, _ = answers(tmp_path / "both.html")[0]
    assert first.startswith("0 of ")
    assert first.endswith("have an interval, which takes two windows of both: none is told apart.")


def test_medians_and_methods_have_their_intervals(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=5, heads=3, tokens=24)
    (folder / "tables" / "methods.csv").write_text(
        "method,output_tv,nll_per_token,perplexity,output_tv_low,output_tv_high,nll_per_token_low,nll_per_token_high\n"
        "softmax,0,8,2981,0,0,7.9,8.1\nsoftmax/online:4,0.0838,8.1,3294,0.08,0.0877,8,8.2\n",
        encoding="utf-8",
    )
    said = said_of(metrics_of(folder), folder)

    def told(figure: dict[str, Any]) -> str:
        mean, low, high = (f"{number:#.3g}" for number in (figure["mean"], *figure["ci95"]))
        return f"{mean} [{low}, {high}]"

    drift = sorted(
        (move["relative_l2"] for move in metrics_of(folder)["transitions"]), key=lambda k: k["mean"]
    )
    assert said["drift"].endswith(f"; the median layer by {told(drift[2])}.")
    full = [head["receiver_max"] for layer in metrics_of(folder)["attention"] for head in layer]
    full.sort(key=lambda k: k["mean"])
    assert said["receiver_max"].endswith(f"that of the median head {told(full[7])} times.")
    assert said["methods_perplexity"] == (
        "Under softmax/online:4 in place of softmax predictions change least, by a total variation of "
        "0.0838 [0.0800, 0.0877]; perplexity goes from 2,981 [2,697, 3,294] to 3,294 [2,981, 3,641]."
    )


def test_no_saturation_leads_to_its_numbers(tmp_path: Path) -> None:
    for table in (False, True):
        folder = run_folders.write(tmp_path / f"run-{table}", layers=3, heads=2, tokens=24)
        (folder / "tables" / "events.csv").unlink()
        if table:
            (folder / "tables" / "table4.csv").write_text("property,value\nevents,0\n", encoding="utf-8")
        metrics = metrics_of(folder)
        metrics["events"] = {"count": 0, "frequency": 0.0}
        said = said_of(metrics, folder)
        assert said["saturation_figures"].endswith("is saturated.")
        text = (folder / "report.html").read_text(encoding="utf-8")
        shown = text[text.index('id="saturation_figures"') :]
        caption = re.search("<caption>([^<]*)", shown)
        assert caption is not None
        assert caption[1].startswith("Table 4. Saturation events" if table else "Saturation in figures")


def test_axes_have_titles_and_one_numbering(whole: Path) -> None:
    for file in sorted((whole / "figures").glob("*.vl.json")):
        figure = json.loads(file.read_text(encoding="utf-8"))
        encodings = [one.get("encoding", {}) for one in [figure, *figure.get("layer", [])]]
        for axis in ("x", "y"):
            drawn = [one[axis] for one in encodings if one.get(axis) and "field" in one[axis]]
            titles = [one["title"] for one in drawn if "title" in one]
            assert titles, (file.name, axis)
            assert all(title and "+ 1" not in title for title in titles), (file.name, axis)


def test_what_is_one_number_everywhere_is_told_and_not_drawn(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=3, heads=2, tokens=24)
    metrics = metrics_of(folder)
    same = run_folders.figure(np.full(4, 12.5))
    for layer in metrics["attention"]:
        for head in layer:
            head["support"] = same
    for move in metrics["transitions"]:
        move["spearman"] = move["raw"]["spearman"] = same
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    answer(tmp_path, "report", "run")
    text = (folder / "report.html").read_text(encoding="utf-8")
    told = re.search(r"Not drawn, being the same number everywhere: ([^<]*)", text)
    assert told is not None
    assert "Keys with weight (12.5)" in told[1]
    assert "Rank correlation of p and p&#39; (12.5)" in told[1]
    assert not (folder / "figures" / "support.vl.json").exists()
    assert not (folder / "figures" / "spearman.vl.json").exists()
    assert (folder / "figures" / "gini.vl.json").exists()


SIZES = """<script>
const wait = setInterval(() => {
  const root = document.documentElement, maps = document.querySelector("figure.maps");
  if (!root.dataset.drawn || !maps.dataset.drawn) return;
  clearInterval(wait);
  setTimeout(() => {
    const figures = [...document.querySelectorAll("figure")].filter((one) => one.checkVisibility());
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()
      && !one.closest(".scroll, .plot, pre") && one.getBoundingClientRect().right > innerWidth + 1);
    const said = { height: root.scrollHeight, width: root.scrollWidth, inner: innerWidth,
      figures: figures.length, wide: wide.map((one) => one.tagName + "." + one.className) };
    parent.postMessage(JSON.stringify(said), "*");
  }, 200);
}, 50);
</script></body>"""
FRAME = """<body style="margin:0"><iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<script>
addEventListener("message", (event) => {{ document.body.dataset.said = event.data; }});</script></body>"""


def sizes(page: Path, folder: Path, width: int) -> dict[str, Any]:
    """What the page measures in a window of this width; the browser's own is never narrower than 500."""
    framed = folder / f"framed-{width}.html"
    framed.write_text(page.read_text(encoding="utf-8").replace("</body>", SIZES), encoding="utf-8")
    frame = folder / f"frame-{width}.html"
    frame.write_text(FRAME.format(page=framed.name, width=width), encoding="utf-8")
    dom, console, _ = browse(frame, folder, "--window-size=1400,1000", "--allow-file-access-from-files")
    assert console == ""
    return told(dom)


def told(dom: str) -> dict[str, Any]:
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found is not None
    return dict(json.loads(html.unescape(found[1])))


@needs_browser
@pytest.mark.parametrize(
    ("page", "width"), [("whole", 1280), ("both", 1280), ("deep", 1280), ("hostile", 390)], indirect=["page"]
)
def test_a_desk_and_a_phone_see_the_answer_first(page: Path, width: int, tmp_path: Path) -> None:
    if 'id="charts"' not in page.read_text(encoding="utf-8"):
        pytest.skip("this build has no chart library (OTATTN_CHARTS)")
    seen = sizes(page, tmp_path, width)
    assert seen["inner"] == width
    assert seen["width"] <= width, seen["wide"]
    assert seen["wide"] == []
    if width > 1000:
        assert seen["height"] < 6000
        assert seen["figures"] <= 12


@needs_browser
def test_a_grid_of_many_layers_scrolls_within_itself(deep: Path, tmp_path: Path) -> None:
    """By keys as well: the cell that is read is in sight, in all of the 81 rows."""
    tab = Tab((deep / "report.html").as_uri(), tmp_path)
    rows = """(() => {
      const plot = document.querySelector("#lens .plot"), ring = plot.querySelector(".crosshair");
      return [...Array(81)].map(() => {
        plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
        const [outer, inner] = [plot, ring].map((one) => one.getBoundingClientRect());
        const seen = inner.height > 10 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
        return [plot.scrollTop, seen, plot.nextElementSibling.textContent];
      });
    })()"""
    try:
        tab.show(1280, 900)
        tab.wait("document.documentElement?.dataset.drawn")
        # Of the axes what is to be read is in sight and apart: the title of the rows, layers below the lines.
        title, plot = tab.evaluate("""(() => {
          const plot = document.querySelector("#lens .plot");
          const title = [...plot.querySelectorAll("text")].find((one) => one.textContent === "after layer");
          const ends = ({ top, bottom }) => [top, bottom];
          return [title, plot].map((one) => ends(one.getBoundingClientRect()));
        })()""")
        assert plot[0] <= title[0]
        assert title[1] <= plot[1]
        for name in ("mean_cosine", "agreement_with_final", "drift"):
            labels = tab.evaluate(
                f"[...document.querySelector('#{name} .plot .role-axis-label').querySelectorAll('text')]"
                ".filter((one) => one.textContent && getComputedStyle(one).opacity !== '0')"
                ".map((one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
            )
            labels.sort()
            assert len(labels) > 3
            assert all(left[1] + 2 <= right[0] for left, right in itertools.pairwise(labels)), name
        tab.evaluate("document.querySelector('#lens .plot').focus()")
        read = tab.evaluate(rows)
        for row, (_, seen, reading) in enumerate(read):
            assert f"after layer {79 - row if row < 80 else 'emb'}," in reading
            assert seen, reading
        assert read[80][0] > 500
        tab.evaluate("document.querySelector('#lens .plot').scrollTop = 0")
        for _ in range(4):
            tab.key("PageDown")
        tab.wait("document.querySelector('#lens .plot').scrollTop > 300")
        assert tab.complaints() == []
    finally:
        tab.close()


ACTS = """<script>
window.addEventListener("error", () => { document.body.dataset.failed = "1"; });
const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });
const until = async (holds) => {
  for (let k = 0; k < 200 && !holds(); k += 1) await sleep(50);
  return holds();
};
(async () => {
  const root = document.documentElement, maps = document.querySelector("figure.maps");
  await until(() => root.dataset.drawn && maps.dataset.drawn);
  const said = {}, first = root.dataset.drawn;
  const fold = document.querySelector("details.fold figure.chart[id]");
  said.hidden = fold.checkVisibility();
  const link = document.createElement("a");
  link.href = `#${fold.id}`;
  document.querySelector("main").append(link);
  link.click();
  said.unfolds = await until(() => fold.checkVisibility() && fold.querySelector("svg") !== null);
  await sleep(500);
  said.more = Number(root.dataset.drawn) > Number(first);

  const title = () => maps.querySelector("h4").textContent;
  const cell = [...document.querySelectorAll("#heads_named .mark-rect path")]
    .find((one) => /(head: 1; layer: 2|layer: 2; head: 1);/.test(one.getAttribute("aria-label")));
  cell.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await until(() => title().startsWith("layer 2, head 1:"));
  said.chosen = title();
  await sleep(200);
  said.marked = [...document.querySelectorAll("#first_key_mass .mark-rect path")]
    .filter((one) => one.getAttribute("aria-label") && one.getAttribute("stroke") === "#d1242f")
    .map((one) => one.getAttribute("aria-label"));

  const [sort, layer, kind] = maps.querySelectorAll("select"), least = maps.querySelector("input");
  const shown = () => [...maps.querySelectorAll("button.map")].map((one) => one.getAttribute("aria-label"));
  const set = (control, value, name = "change") => {
    control.value = value;
    control.dispatchEvent(new Event(name));
  };
  set(sort, 0);
  said.sorted = shown();
  set(least, "0.2", "input");
  said.least = shown();
  set(least, "", "input");
  set(sort, "");
  set(layer, 1);
  said.layer = shown();
  set(layer, "");
  set(kind, "induction");
  said.kind = shown();
  set(kind, "");

  const plot = document.querySelector("#tv .plot svg");
  const box = plot.getBoundingClientRect();
  const area = document.querySelector("#tv .plot");
  area.scrollIntoView();
  await sleep(100);
  const tips = [];
  for (const share of [0.25, 0.6, 0.95]) {
    const at = plot.getBoundingClientRect();
    const [x, y] = [at.left + share * at.width, at.top + 0.5 * at.height];
    const target = document.elementFromPoint(x, y);
    for (const kind of ["pointerover", "pointermove"]) {
      target.dispatchEvent(new PointerEvent(kind, { bubbles: true, clientX: x, clientY: y }));
    }
    await sleep(80);
    tips.push(document.getElementById("vg-tooltip-element")?.textContent ?? "");
  }
  said.tips = tips;
  document.body.dataset.said = JSON.stringify(said);
})();
</script></body>"""


@needs_browser
def test_clicks_choose_sort_and_unfold(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=4, heads=3, tokens=30, seed=5)
    answer(tmp_path, "report", "run")
    text = (folder / "report.html").read_text(encoding="utf-8")
    if 'id="charts"' not in text:
        pytest.skip("this build has no chart library (OTATTN_CHARTS)")
    acted = tmp_path / "acted.html"
    acted.write_text(text.replace("</body>", ACTS), encoding="utf-8")
    dom, console, _ = browse(acted, tmp_path, "--window-size=1280,900")
    assert console == ""
    assert "data-failed" not in dom
    said = told(dom)
    assert said["hidden"] is False
    assert said["unfolds"]
    assert said["more"]
    assert said["chosen"] == "layer 2, head 1: previous token"
    assert len(said["marked"]) == 1
    assert re.search("head: 1; layer: 2;", said["marked"][0])
    mass = [[head["first_key_mass"]["mean"] for head in layer] for layer in metrics_of(folder)["attention"]]
    ordered = sorted(
        ((mass[k // 3][k % 3], f"layer {k // 3}, head {k % 3}") for k in range(12)), reverse=True
    )
    assert said["sorted"] == [name for _, name in ordered]
    assert said["least"] == [name for value, name in ordered if value >= 0.2]
    assert said["layer"] == [f"layer 1, head {head}" for head in range(3)]
    named = [f"layer {k // 3}, head {k % 3}" for k in range(12) if (k // 3 + k % 3) % 9 == 0]
    assert said["kind"] == named
    # The nearest point answers wherever the pointer stands.
    assert all("median" in tip for tip in said["tips"]), said["tips"]
    assert len(set(said["tips"])) == 3
    assert "undefined" not in "".join(said["tips"])
