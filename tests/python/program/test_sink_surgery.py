"""scripts/sink_surgery.py on a small random model: what it writes is what the program measures."""

from __future__ import annotations

import csv
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_models
from program import PROGRAM, ROOT, answer
from test_models import capture, draw_ids, make_model

METHODS = ["softmax/online:1.5", "softmax/relaxed:0.5", "softmax{temperature=2}"]


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def operate(folder: Path, *words: Any) -> str:
    command = [sys.executable, ROOT / "scripts" / "sink_surgery.py", "model", "--ids", "all.npy", "-o", "out"]
    command += ["--program", PROGRAM, "--windows", "1", "--tokens", "30", "--heads", "1", "--report", "1"]
    done = subprocess.run(
        [*map(str, command), *map(str, words)], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_choosing_takes_the_best_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    surgery = importlib.import_module("sink_surgery")

    def option(place: str, loss: float, gain: float) -> Any:
        return surgery.Option(loss, gain, surgery.Row(place, f"{place}:{gain}", 0, 0, 0, 0, leaks=False))

    options = {
        "0": [option("0", 4, 10)],
        "0.1": [option("0.1", 1, 3), option("0.1", 3, 4)],
        "1.0": [option("1.0", 1, 5)],
    }
    # Two heads; then a layer in the place of its head; nothing where nothing fits.
    wanted = {2: ["0.1:3", "1.0:5"], 4.5: ["0.1:4", "1.0:5"], 5: ["0:10", "1.0:5"], 0.5: []}
    for budget, methods in wanted.items():
        assert sorted(row.method for row in surgery.choose(options, budget)) == methods


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_sweep_and_frontier(tmp_path: Path, name: str) -> None:
    make_model(tmp_path / "model", name)
    ids = draw_ids(1, 60)[0]
    np.save(tmp_path / "all.npy", ids)
    words = ["--layers", "0", "1", "--methods", *METHODS, "--budgets", "0.5"]
    operate(tmp_path, *words)
    rows = read(tmp_path / "out" / "sweep.csv")
    assert len(rows) == 3 * len(METHODS)  # two layers and a head
    causal = name == "llama"
    for row in rows:
        assert (row["leaks"] == "True") == (causal and "relaxed" in row["method"])
        if "online" in row["method"]:
            assert float(row["receiver"]) <= 1.5 + 1e-5
    # One row against the program itself, on the windows that choose.
    row = next(row for row in rows if row["place"] == "1" and "temperature" in row["method"])
    ours = capture(tmp_path, tmp_path / "model", ids[None, :30], "-m", row["method"] + "@1")
    pattern = ours["blocks.1.attn.hook_pattern"][0].astype(float)
    assert abs(float(row["receiver"]) - pattern.sum(1).max(-1).mean()) <= 1e-5
    assert abs(float(row["saturation"]) - (pattern[:, 1:].max(-1) > 0.9).mean()) <= 1e-12
    points = read(tmp_path / "out" / "frontier.csv")
    assert [float(point["budget"]) for point in points] == [0, 0.5] and points[0]["places"] == "0"
    assert int(points[1]["places"]) >= 1 and float(points[1]["receiver"]) < float(points[0]["receiver"])
    file = tmp_path / "out" / "methods-0.5.json"
    saved = json.loads(file.read_text())
    assert not causal or not any("relaxed" in entry["method"] for entry in saved["methods"])
    again = capture(tmp_path, tmp_path / "model", ids[None, 30:], "--method", f"@{file}")
    pattern = np.stack([again[f"blocks.{k}.attn.hook_pattern"][0] for k in range(saved["layers"])])
    assert abs(pattern.astype(float).sum(-2).max(-1).mean() - float(points[1]["receiver"])) <= 1e-5
    if causal:
        np.save(tmp_path / "held.npy", ids[30:])
        held = answer(tmp_path, "perplexity", "model", "--ids", "held.npy", "--method", f"@{file}")
        # A matrix product of another number of rows rounds otherwise.
        assert abs(held["nll_per_token"] - float(points[1]["nll"])) <= 1e-6
    for figure in ("sweep.vl.json", "frontier.vl.json"):
        text = (tmp_path / "out" / figure).read_text()
        assert json.loads(text)["data"]["values"] and "NaN" not in text
    # A killed run goes on: rows that are there are not measured again.
    before = (tmp_path / "out" / "sweep.csv").read_text()
    (tmp_path / "out" / "sweep.csv").write_text("".join(before.splitlines(keepends=True)[:4]))
    operate(tmp_path, *words)
    assert (tmp_path / "out" / "sweep.csv").read_text() == before


SHAPES = {
    "minilm": {
        "type": "bert", "num_hidden_layers": 6, "num_attention_heads": 12, "hidden_size": 48,
        "intermediate_size": 24, "max_position_embeddings": 32,
    },
    "smollm2": {
        "type": "llama", "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "hidden_size": 72, "intermediate_size": 24, "max_position_embeddings": 32,
        "tie_word_embeddings": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("file", sorted((ROOT / "data/surgery").glob("*.json")), ids=lambda file: file.stem)
def test_files_that_are_shipped_load(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On random models with the layers and heads of those they were made for: they change the patterns."""
    name = file.stem.rpartition("-")[0]
    monkeypatch.setitem(test_models.CONFIGS, name, SHAPES[name])
    make_model(tmp_path / "model", name)
    ids = draw_ids(1, 20)
    plain = capture(tmp_path, tmp_path / "model", ids)
    changed = capture(tmp_path, tmp_path / "model", ids, "--method", f"@{file}")
    places = [entry["place"] for entry in json.loads(file.read_text())["methods"]]
    first = min(int(place.partition(".")[0]) for place in places)
    for layer in range(first + 1):
        pattern = f"blocks.{layer}.attn.hook_pattern"
        assert np.array_equal(plain[pattern], changed[pattern]) == (layer < first)
