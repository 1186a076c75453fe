"""Tables of drift, of receivers and of windows of other lengths out of runs of analyze."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def figure(mean: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"mean": mean, "ci95": [low, high]}


def write(run: Path, first_layer: int, layers: int, tokens: int) -> str:
    """Layer k: TV k / 10, first key 0.2 and 0.4 in two heads, busiest key half of all mass, k events."""
    numbers = range(first_layer, first_layer + layers)
    metrics = {
        "windows": 2,
        "tokens": 2 * tokens,
        "first_layer": first_layer,
        "nll_per_token": figure(3.5),
        "transitions": [
            {"tv": figure(k / 10, k / 20, k / 5), "alignment_per_sqrt_vocabulary": figure(0.25)}
            for k in numbers
        ],
        "layers": [{"max_probability": figure(0.75)} for _ in range(layers + 1)],
        "attention": [
            [{"receiver_max": figure(tokens / 2), "first_key_mass": figure(mass)} for mass in (0.2, 0.4)]
            for _ in numbers
        ],
        "events": {"by_layer": list(numbers)},
    }
    run.mkdir()
    (run / "metrics.json").write_text(json.dumps(metrics))
    return str(run)


def tables(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_drift_and_receivers_of_a_run(tmp_path: Path) -> None:
    found = tables("study_layers.py", "one=" + write(tmp_path / "run", 0, 3, 10))
    assert found.returncode == 0, found.stderr
    right = ["| 2 | 0.2 (0.1 to 0.4) |", "| 1 | 0.25 (0.25 to 0.25) |", "| 0 | 0.5 (0.5 to 0.5) |",
             "| 0 | 0.3 (0.2 to 0.4) |"]  # fmt: skip
    assert all(line in found.stdout for line in right)


def test_lengths_count_the_layers_that_all_runs_have(tmp_path: Path) -> None:
    long = write(tmp_path / "long", 2, 2, 20)
    found = tables("study_lengths.py", long, write(tmp_path / "short", 0, 4, 10))
    assert found.returncode == 0, found.stderr
    right = ["layers 2 to 3", "| 10 | 2 | 3.5 | 0.3 | 0.5 | 5 | 0.5 | 0.75 | 0.25 | 5 | 0.125 |",
             "| 20 | 2 | 3.5 | 0.3 | 0.5 | 10 | 0.5 | 0.75 | 0.25 | 5 | 0.0625 |"]  # fmt: skip
    assert all(line in found.stdout for line in right)


def test_runs_without_a_common_layer_are_refused(tmp_path: Path) -> None:
    found = tables("study_lengths.py", write(tmp_path / "a", 0, 2, 10), write(tmp_path / "b", 2, 2, 20))
    assert found.returncode == 1 and "no layer in common" in found.stderr
    assert "Traceback" not in found.stderr
