"""scripts/early_exit.py on a small random model: its table is what the program measures; runs go on."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import spec
from program import PROGRAM, ROOT, answer
from test_models import draw_ids, make_model


def trace(folder: Path, *words: str) -> str:
    command = [sys.executable, ROOT / "scripts" / "early_exit.py", "model", "--ids", "all.npy", "-o", "out"]
    command += ["--program", PROGRAM, "--tokens", "40", "--context", "16", "--thresholds", "0.13", "0.5"]
    done = subprocess.run(
        [*map(str, command), "--transitions", "1", "2", *words], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_grid_equals_single_runs_and_goes_on(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "llama")
    ids = draw_ids(1, 60)[0]
    np.save(tmp_path / "all.npy", ids)
    printed = trace(tmp_path)
    table = tmp_path / "out" / "exits.csv"
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["threshold"] for row in rows] == ["0.13", "0.13", "0.5", "0.5", "oracle", "oracle"]
    np.save(tmp_path / "used.npy", ids[:48])  # three windows predict 45 tokens
    for row in rows:
        rule = f"{row['threshold']},{row['transitions']}"
        found = answer(tmp_path, "perplexity", "model", "--ids", "used.npy", "--context", 16, "--exit", rule)
        assert int(row["tokens"]) == found["tokens"] == 45
        for name in ("layers_saved", "agreement", "nll_whole", "nll_change"):
            spec.check("TOT-119", abs(float(row[name]) - found["exit"][name]), 1e-12)
    assert float(rows[0]["layers_saved"]) > 0 == float(rows[2]["layers_saved"])
    assert "45 predicted tokens" in printed and "6 of 6 settings" in printed
    drawn = json.loads((tmp_path / "out" / "exits.vl.json").read_text())["data"]["values"]
    assert [value["layers_saved"] for value in drawn] == [float(row["layers_saved"]) for row in rows]
    # A killed run left four rows; the other two are measured, and of another text all.
    kept = table.read_text()
    table.write_text("".join(kept.splitlines(keepends=True)[:5]))
    assert "2 of 2 settings" in trace(tmp_path) and table.read_text() == kept
    np.save(tmp_path / "all.npy", ids[::-1])
    assert "6 of 6 settings" in trace(tmp_path)
