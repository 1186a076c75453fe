"""Reports of runs at the edges: some layers alone, one layer and head, one number, unlike models."""

from __future__ import annotations

import csv
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_folders
from program import answer
from run_pages import answers, metrics_of, said_of


def write_part(folder: Path, first: int, last: int, layers: int = 6, **values: Any) -> Path:
    """The folder of a run with --layers FIRST-LAST."""
    run_folders.write(folder, layers=layers, heads=2, tokens=20, **values)
    metrics = metrics_of(folder)
    metrics["first_layer"] = first
    metrics["transitions"] = metrics["transitions"][first : last + 1]
    metrics["layers"] = metrics["layers"][first : last + 2]
    metrics["attention"] = metrics["attention"][first : last + 1]
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["model"] = {"layers": layers, "heads": 2}
    manifest["settings"]["layers"] = [first, last]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (folder / "example.safetensors").unlink()
    return folder


def page_of(folder: Path) -> str:
    answer(folder.parent, "report", folder.name)
    return html.unescape((folder / "report.html").read_text(encoding="utf-8"))


def points(folder: Path, figure: str, name: str) -> list[dict[str, Any]]:
    return json.loads((folder / "figures" / f"{figure}.vl.json").read_text(encoding="utf-8"))["datasets"][
        name
    ]


def differences(folder: Path) -> list[dict[str, str]]:
    with (folder / "tables" / "compare.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_some_layers_are_called_some(tmp_path: Path) -> None:
    folder = write_part(tmp_path / "run", 2, 3)
    metrics = metrics_of(folder)
    for state, share in zip(metrics["layers"], (0.1, 0.2, 0.7), strict=True):
        state["agreement_with_final"]["mean"] = share
    said = said_of(metrics, folder)
    # The last layer that was measured is not the last one.
    assert said["agreement_with_final"].startswith(
        "From layer 3 on the likeliest token is that of the last layer"
    )
    text = page_of(folder)
    assert "layers 2 to 3 of 6" in text
    assert "<h2>What this run says of layers 2 to 3 alone</h2>" in text
    whole = page_of(write_part(tmp_path / "all", 0, 5))
    assert "<h2>What this run says</h2>" in whole
    assert re.search(r"layers \d+ to", whole) is None


def test_runs_are_compared_where_both_measured(tmp_path: Path) -> None:
    write_part(tmp_path / "all", 0, 5, seed=7)
    write_part(tmp_path / "some", 2, 3, seed=7)
    for first, second, layers in (("all", "some", {1, 2, 3}), ("some", "all", {1, 2, 3})):
        answer(tmp_path, "report", first, "--compare", second, "-o", "both.html")
        rows = differences(tmp_path / first)
        assert rows
        assert {int(row["layer"]) for row in rows} == layers
        # The same model on the same text.
        assert all(row["layer"] == row["second_layer"] and float(row["difference"]) == 0 for row in rows)
        text = (tmp_path / "both.html").read_text(encoding="utf-8")
        assert "different numbers of layers" not in text
        assert ": second less first" not in text


def test_layers_of_part_of_a_deeper_model_stand_at_its_share(tmp_path: Path) -> None:
    write_part(tmp_path / "a", 0, 3, layers=4, seed=1)
    write_part(tmp_path / "b", 4, 7, layers=8, seed=2)
    answer(tmp_path, "report", "a", "--compare", "b", "-o", "both.html")
    pairs = {
        (row["part"], int(row["layer"]), int(row["second_layer"])) for row in differences(tmp_path / "a")
    }
    assert {pair for pair in pairs if pair[0] == "transitions"} == {
        ("transitions", 2, 5),
        ("transitions", 3, 7),
    }
    assert ("layers", 3, 7) in pairs


def test_what_was_never_measured_together_is_not_compared(tmp_path: Path) -> None:
    write_part(tmp_path / "a", 0, 1)
    write_part(tmp_path / "b", 4, 5)
    answer(tmp_path, "report", "a", "--compare", "b", "-o", "both.html")
    first, _ = answers(tmp_path / "both.html")[0]
    assert first.endswith("measured no layer that could stand side by side.")


def test_unlike_vocabularies_and_texts_are_told(tmp_path: Path) -> None:
    for name, words, text in (("a", 97, "0" * 64), ("b", 50, "1" * 64)):
        folder = run_folders.write(tmp_path / name, layers=2, heads=2, tokens=20)
        metrics = metrics_of(folder)
        metrics.update(vocabulary=words, text_sha256=text, perplexity=9.0, nll_per_token={"ci95": None})
        (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    answer(tmp_path, "report", "a", "--compare", "b", "-o", "both.html")
    said = [sentence for sentence, _ in answers(tmp_path / "both.html")]
    assert said[0].endswith(
        "Their vocabularies differ (97 words and 50 words), on which probabilities and logits depend."
    )
    assert (
        said[1]
        == "Perplexity a token is 9.00 in the first and 9.00 in the second, which read different texts."
    )
    answer(tmp_path, "report", "a", "--compare", "a", "-o", "same.html")
    said = [sentence for sentence, _ in answers(tmp_path / "same.html")]
    assert "vocabularies" not in said[0]
    assert said[1] == "Perplexity a token is 9.00 in the first and 9.00 in the second."


def test_one_layer_and_one_head(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=1, heads=1, tokens=20)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["model"] = {"layers": 1, "heads": 1}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    metrics = metrics_of(folder)
    metrics["attention"][0][0]["sink_rate"]["mean"] = 1.0
    metrics["attention"][0][0]["name"] = "positional"
    said = said_of(metrics, folder)
    assert said["first_key_mass"].startswith("1 of 1 layer has a sink, ")
    assert ": 1 of 1 head does, most of all layer 0, head 0 with" in said["first_key_mass"]
    assert said["heads_named"] == "1 of 1 head has a name by what they do: 1 positional."
    text = page_of(folder)
    assert "1 layer \u00d7 1 head" in text
    # A point has no power law, and one number no range.
    assert "nan" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "to the power" not in text
    assert "most in layer" not in text
    value = metrics["attention"][0][0]["first_key_mass"]["mean"]
    assert f"Mean weight of the first key. {value:#.3g} in layer 0, head 0." in text


def test_means_that_are_missing_hide_no_extreme(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=5, heads=2, tokens=20)
    metrics = metrics_of(folder)
    for layer, mean in enumerate((0.5, 0.9, None, 0.7, 0.6)):
        metrics["transitions"][layer]["spearman"].update(mean=mean, ci95=None)
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    text = page_of(folder)
    assert "Mean 0.500 at layer 0, 0.600 at layer 4; most 0.900 at layer 1." in text


def test_what_is_one_number_is_linked_and_stays(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=3, heads=2, tokens=20)
    metrics = metrics_of(folder)
    none = run_folders.figure(np.zeros(4))
    for move in metrics["transitions"]:
        move["alignment"] = move["raw"]["alignment"] = none
    said = said_of(metrics, folder)
    assert said["constant"].startswith("What alignment leaves, R, stays from 0 [0, 0] logits in layer 0 ")
    text = page_of(folder)
    assert ' id="constant"' in text


def test_temperatures_of_attention_and_probe_are_told_apart(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=2, heads=2, tokens=20)
    table = "temperature,perplexity,gini\n0.5,30,0.4\n2,40,0.4\n"
    (folder / "tables" / "probe_temperatures.csv").write_text(table, encoding="utf-8")
    (folder / "tables" / "temperatures.csv").write_text(
        table.replace("2,40,0.4", "2,40,0.6"), encoding="utf-8"
    )
    text = page_of(folder)
    assert "Gini coefficient of received mass by temperature of the probe (0.4)" in text
    assert "Gini coefficient of received mass by temperature of attention<" in text
    assert "received mass by temperature (" not in text


@pytest.mark.parametrize(("head", "probe"), [("none", "table of embeddings"), ("tied", "model's whole head")])
def test_the_probe_is_the_checkpoint_s(head: str, probe: str, tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=2, heads=2, tokens=20)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["model"] = {"layers": 2, "head": head}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    text = page_of(folder)
    assert f"; probe: the {probe}" in text
    names = {point["series"] for point in points(folder, "entropy", "points")}
    assert names == {"raw probe", "probe by the embeddings" if head == "none" else "final-norm probe"}
    # An encoder's probe says what stands at a place, not what comes next.
    assert "likeliest next token" not in text


def test_commonest_places_have_their_shares(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=1, heads=1, tokens=20)
    head = "state,rank,ratio,dimension,dimension_share,token,token_share,n\n"
    rows = "0,1,9,7,1,a,0.5,4\n1,1,9,7,0.75,a,0.5,4\n"
    (folder / "tables" / "massive.csv").write_text(head + rows, encoding="utf-8")
    said = said_of(metrics_of(folder), folder)
    assert said["massive_ratio"].endswith(
        "at layer 0 in dimension 7 (in 75 % of the windows) of the token a (in 50 % of the windows)."
    )


def test_saturation_is_said_with_its_limits(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=2, heads=2, tokens=20)
    limits = "saturated (largest probability above 0.9999 before and after, total variation below 1e-10)"
    metrics = metrics_of(folder)
    metrics["events"]["by_layer"] = [1, 40]
    assert f"are {limits}, 40 of them in layer 1." in said_of(metrics, folder)["saturation"]
    metrics["events"]["count"] = 1
    assert f"is {limits}, 40" in said_of(metrics, folder)["saturation"]
    metrics["events"]["count"] = 0
    assert said_of(metrics, folder)["saturation_figures"].endswith(f"is {limits}.")
