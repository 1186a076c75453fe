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


def half_width(values: list[float]) -> float:
    """Of Student's interval at 95 %; NaN for fewer than two values."""
    if len(values) < 2:
        return math.nan
    quantile = float(scipy.stats.t.ppf(0.975, len(values) - 1))
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def difference(values: list[float]) -> str:
    """Mean and interval; bold where the interval leaves out 0."""
    mean, half = statistics.fmean(values), half_width(values)
    if math.isnan(half):
        return f"{mean:+.4f}"
    text = f"{mean:+.4f} ({mean - half:+.4f} to {mean + half:+.4f})"
    return f"**{text}**" if abs(mean) > half else text


def paired(found: dict[str, dict[int, dict[str, Any]]], method: str, metric: str, base: str) -> list[float]:
    """The measure less that of the base, for every seed that both have."""
    ours, theirs = found[method], found.get(base, {})
    return [
        row[metric] - theirs[seed][metric]
        for seed, row in ours.items()
        if metric in row and metric in theirs.get(seed, {})
    ]


def differences(rows: list[dict[str, Any]], metric: str, base: str) -> list[dict[str, Any]]:
    """{task, method, mean, low, high} of every method that was run with two or more seeds of the base's."""
    made = []
    for task in sorted({row["task"] for row in rows}):
        found = last_steps(rows, task)
        for method in found:
            values = paired(found, method, metric, base)
            if method == base or len(values) < 2:
                continue
            mean, half = statistics.fmean(values), half_width(values)
            made.append(
                {"task": task, "method": method, "mean": mean, "low": mean - half, "high": mean + half}
            )
    return made


def learned_numbers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """{task, method, label, value} of every learned number at the last steps."""
    return [
        {"task": task, "method": method, "label": f"{place.rsplit('.', 1)[-1]} of {method}", "value": value}
        for task in sorted({row["task"] for row in rows})
        for method, seeds in last_steps(rows, task).items()
        for row in seeds.values()
        for place, values in row.get("learned", {}).items()
        for value in values
    ]


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
        whole = [row for row in seeds.values() if "failed" not in row and metric in row]
        if not whole:
            lines.append(f"| `{method}` | {len(failed)} failed | – | – | – |")
            continue
        pairs = paired(found, method, metric, base)
        count = f"{len(whole)}" + (f", {len(failed)} failed" if failed else "")
        cells = [count, spread([row[metric] for row in whole])]
        cells += ["–" if method == base or not pairs else difference(pairs), learned(whole) or "–"]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build/training"))
    parser.add_argument("--task", nargs="+", help="of those in the folder (all)")
    parser.add_argument("--metric", help="of the table (bits of text, else accuracy)")
    parser.add_argument("--base", default="softmax")
    options = parser.parse_args()
    rows = read(options.folder)
    for task in options.task or sorted({row["task"] for row in rows}):
        text = any("bits" in row for row in rows if row["task"] == task)
        metric = options.metric or ("bits" if text else "accuracy")
        print(f"{task}\n\n{table(rows, task, metric, options.base)}\n")


if __name__ == "__main__":
    main()
