"""Tables of runs against softmax, seed by seed, and of what was learned.

compare.py --folder FOLDER [--task NAME ...] [--metric NAME]

A difference is a method's measure at the last step less that of the base with the same seed, hence the same
first weights and data. Its interval is Student's at 95 % over seeds, for one comparison: of many, one in
twenty leaves out 0 by chance.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import Any

import scipy.stats
from loop import read, spread


def last_steps(rows: list[dict[str, Any]], task: str) -> dict[str, dict[int, dict[str, Any]]]:
    """The last record of every method and seed of the task, or the one that says why it failed."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        if row["task"] == task and ("failed" in row or row["step"] == row["steps"]):
            found.setdefault(row["method"], {})[row["seed"]] = row
    return found


def difference(values: list[float]) -> str:
    """Mean and interval; bold where the interval leaves out 0."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:+.4f}"
    quantile = float(scipy.stats.t.ppf(0.975, len(values) - 1))
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    text = f"{mean:+.4f} ({mean - half:+.4f} to {mean + half:+.4f})"
    return f"**{text}**" if abs(mean) > half else text


def learned(rows: list[dict[str, Any]]) -> str:
    """Least to largest over heads, layers and seeds of every learned number."""
    ranges: dict[str, list[float]] = {}
    for row in rows:
        for place, values in row.get("learned", {}).items():
            ranges.setdefault(place.rsplit(".", 1)[-1], []).extend(values)
    return ", ".join(f"{name} {min(x):.2f} to {max(x):.2f}" for name, x in ranges.items())


def table(rows: list[dict[str, Any]], task: str, metric: str, base: str) -> str:
    found = last_steps(rows, task)
    lines = [
        f"| method | seeds | {metric} | difference from `{base}` | learned |",
        "|---|---|---|---|---|",
    ]
    for method, seeds in found.items():
        failed = [row for row in seeds.values() if "failed" in row]
        whole = {seed: row for seed, row in seeds.items() if "failed" not in row and metric in row}
        if not whole:
            lines.append(f"| `{method}` | {len(failed)} failed | – | – | – |")
            continue
        both = [seed for seed in whole if seed in found.get(base, {}) and metric in found[base][seed]]
        other = "–" if method == base or not both else ""
        pairs = [whole[seed][metric] - found[base][seed][metric] for seed in both]
        count = f"{len(whole)}" + (f", {len(failed)} failed" if failed else "")
        cells = [count, spread([row[metric] for row in whole.values()])]
        cells += [other or difference(pairs), learned(list(whole.values())) or "–"]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build/training"))
    parser.add_argument("--task", nargs="+", help="of those in the folder (all)")
    parser.add_argument("--metric", default="accuracy")
    parser.add_argument("--base", default="softmax")
    options = parser.parse_args()
    rows = read(options.folder)
    for task in options.task or sorted({row["task"] for row in rows}):
        print(f"{task}\n\n{table(rows, task, options.metric, options.base)}\n")


if __name__ == "__main__":
    main()
