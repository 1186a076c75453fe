"""The sentences at the top of a run's report, against the numbers of its folder."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_folders
from program import answer
from run_pages import answers, metrics_of, said_of, without_intervals


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
    assert f"layer {layer}, head {head}: where " in by_figure["induction"]
    assert f" another copy, {100 * score.max():.0f} % [" in by_figure["induction"]
    assert by_figure["massive_ratio"].endswith("at layer 11 in dimension 19 of the token \u2423the.")
    agreed = [state["agreement_with_final"]["mean"] for state in metrics["layers"]]
    settled = max(k for k in range(13) if agreed[k] < 0.5) + 1
    assert by_figure["agreement_with_final"].startswith(f"From layer {settled - 1} on ")
    assert by_figure["bounds"].startswith(
        "All 24,576 comparisons keep the Lipschitz bound; the largest uses 13 %"
    )
    assert "end more alike than they begin" in by_figure["mean_cosine"]


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
    assert said["first_key_mass"].startswith("1 of 3 layers has a sink")
    assert said["bounds"].startswith("2 of 288 comparisons break the Lipschitz bound")
    assert "end less alike than they begin" in said["mean_cosine"]


@pytest.mark.parametrize(
    ("last", "half", "alike", "goes"),
    [
        (0.167, None, "end more alike than they begin (by values without an interval):", "rises (by values"),
        (0.012, None, "end less alike than they begin (by values without an interval):", "falls (by values"),
        (0.0296, None, "end as alike as they begin (by values without an interval):", "stays (by values"),
        (0.167, 0.01, "end more alike than they begin:", "rises from"),
        (0.0123, 0.01, "end neither clearly more nor", "goes, within overlapping intervals, from"),
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
    table = (
        "method,output_tv,nll_per_token,perplexity,output_tv_low,output_tv_high,nll_per_token_low,nll_per_token_high\n"
        "softmax,0,8,2981,0,0,7.9,8.1\nsoftmax/online:4,0.0838,8.1,3294,0.08,0.0877,8,8.2\n"
    )
    (folder / "tables" / "methods.csv").write_text(table, encoding="utf-8")
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
    # Of one method nothing is the least.
    one = (
        "Under softmax/online:4 in place of softmax predictions change by a total variation of "
        "0.0838 [0.0800, 0.0877]; perplexity goes from 2,981 [2,697, 3,294] to 3,294 [2,981, 3,641]."
    )
    assert said["methods_perplexity"] == one
    more = table + "softmax/online:2,0.2,8.4,4447,0.1,0.3,8.3,8.5\n"
    (folder / "tables" / "methods.csv").write_text(more, encoding="utf-8")
    said = said_of(metrics_of(folder), folder)
    assert said["methods_perplexity"] == one.replace("change by", "change least, by")


def test_no_saturation_leads_to_its_numbers(tmp_path: Path) -> None:
    for table in (False, True):
        folder = run_folders.write(tmp_path / f"run-{table}", layers=3, heads=2, tokens=24)
        (folder / "tables" / "events.csv").unlink()
        if table:
            (folder / "tables" / "table4.csv").write_text("property,value\nevents,0\n", encoding="utf-8")
        metrics = metrics_of(folder)
        metrics["events"] = {"count": 0, "frequency": 0.0}
        said = said_of(metrics, folder)
        assert " is saturated" in said["saturation_figures"]
        text = (folder / "report.html").read_text(encoding="utf-8")
        shown = text[text.index('id="saturation_figures"') :]
        caption = re.search("<caption>([^<]*)", shown)
        assert caption is not None
        assert caption[1].startswith("Table 4. Saturation events" if table else "Saturation in figures")
