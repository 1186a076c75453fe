"""The report of a run: its page, its figures and LaTeX tables against what the folder holds.

The folders come from run_folders.py and conftest.py; numbers on the page are compared with formulas written
here.
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
from browser import outline
from program import answer, run
from run_pages import metrics_of
from safetensors.numpy import load_file, save_file

LARGEST = 2_500_000


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
    told = re.search(r'id="constant"><summary>.*?<p>([^<]*)', text, re.DOTALL)
    assert told is not None
    assert "Keys with weight (12.5)" in told[1]
    assert "Rank correlation of p and p&#39; (12.5)" in told[1]
    assert not (folder / "figures" / "support.vl.json").exists()
    assert not (folder / "figures" / "spearman.vl.json").exists()
    assert (folder / "figures" / "gini.vl.json").exists()
