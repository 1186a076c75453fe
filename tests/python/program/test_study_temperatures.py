"""Tables of temperature and saturation out of runs of analyze."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts/study_temperatures.py"
COLUMNS = ("nll_per_token", "tv", "relative_l2", "saturated_states")


def write(run: Path, rows: dict[float, dict[str, tuple[float, float, float]]]) -> None:
    names = [name for column in COLUMNS for name in (column, f"{column}_low", f"{column}_high")]
    lines = [",".join(["temperature", *names])]
    for temperature, values in rows.items():
        cells = [f"{x:g}" if not math.isnan(x) else "" for column in COLUMNS for x in values[column]]
        lines.append(",".join([f"{temperature:g}", *cells]))
    (run / "tables").mkdir(parents=True)
    (run / "tables/temperatures.csv").write_text("\n".join(lines) + "\n")


def tables(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_directions_of_a_run(tmp_path: Path) -> None:
    none = (float("nan"),) * 3
    low = {"nll_per_token": none, "tv": (0.5, 0.4, 0.6), "relative_l2": (1.0, 0.9, 1.1)}
    high = {"nll_per_token": none, "tv": (0.2, 0.1, 0.3), "relative_l2": (1.2, 1.05, 1.3)}
    same = {"saturated_states": (0.25, 0.25, 0.25)}
    write(tmp_path / "run", {2.0: {**high, **same}, 0.5: {**low, **same}})
    found = tables(f"model={tmp_path / 'run'}")
    assert found.returncode == 0, found.stderr
    right = [
        "| 0.5 | – | 0.5 (0.4 to 0.6) | 1 (0.9 to 1.1) | 0.25 |",
        "| model | attention's temperature | – | falls, 0.5 to 0.2 "
        "| rises, 1 to 1.2, intervals meet | the same |",
    ]
    assert all(line in found.stdout for line in right)


def test_a_run_without_temperatures_is_refused(tmp_path: Path) -> None:
    found = tables(f"model={tmp_path}")
    assert found.returncode == 1 and "run analyze with --temperatures" in found.stderr
    assert "Traceback" not in found.stderr
