"""Prints tables 1 to 5 of `otattn analyze` runs and the receivers of their layers side by side in Markdown,
or the claims of their source.

    study_tables.py NAME=RUN NAME=RUN ... [--claims]

RUN is a folder that analyze wrote. A cell is what the run's table has, rounded to three digits; a dash
stands where a run has no such number (one window has no sd, no event has no mean). Table 1 and the claims
are about the final_norm probe. Receivers are the masses r of each head's busiest key, means over windows,
1 being a fair share; Delta of a window, the largest |mass - 1| of a key, is r - 1 for r >= 2, else at most 1.
--claims prints one line for each thing that the source says, with what every run measured.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[dict[str, str]]


def read(run: Path, table: str) -> Rows:
    with (run / "tables" / f"{table}.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def short(text: object) -> str:
    """Three digits of a number, counts as they are, a dash for nothing."""
    try:
        value = float(str(text))
    except ValueError:
        return str(text) or "–"
    if math.isnan(value):
        return "–"
    if abs(value) < 1e15 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}"


def print_table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def spread(row: dict[str, str] | None) -> str:
    if row is None:
        return "–"
    return short(row["mean"]) + (f" ± {short(row['sd'])}" if short(row["sd"]) != "–" else "")


def table1(runs: dict[str, Path]) -> None:
    found = {
        name: {row["Layer Range"]: row for row in read(run, "table1") if row["probe"] == "final_norm"}
        for name, run in runs.items()
    }
    labels = dict.fromkeys(label for rows in found.values() for label in rows)
    ranges = sorted(labels, key=lambda label: int(label.split("-")[0]) if label[0].isdigit() else math.inf)
    print_table(
        ["layers", *runs], [[label, *(spread(found[name].get(label)) for name in runs)] for label in ranges]
    )


def table2(runs: dict[str, Path]) -> None:
    rows = {name: read(run, "table2")[0] for name, run in runs.items()}
    columns = [column for column in next(iter(rows.values())) if column != "Model"]
    print_table(
        ["model", *columns], [[name, *(short(row[c]) for c in columns)] for name, row in rows.items()]
    )


def side_by_side(runs: dict[str, Path], table: str, key: str, value: Callable[[dict[str, str]], str]) -> None:
    found = {name: {row[key]: value(row) for row in read(run, table)} for name, run in runs.items()}
    labels = list(dict.fromkeys(label for rows in found.values() for label in rows))
    print_table(
        [key, *runs], [[label, *(short(found[name].get(label, "")) for name in runs)] for label in labels]
    )


def table5(runs: dict[str, Path]) -> None:
    found = {name: read(run, "table5") for name, run in runs.items()}
    rows = []
    for k, row in enumerate(next(iter(found.values()))):
        cells = [
            f"{short(other[k]['Mean Iterations'])} ± {short(other[k]['Std Dev'])}, "
            f"{short(other[k]['Max Iterations'])}" for other in found.values()
        ]  # fmt: skip
        predicted = ", ".join(short(other[k]["predicted share"]) for other in found.values())
        rows.append([row["epsilon"], row["Tolerance"], *cells, predicted, short(row["most possible"])])
    print_table(["ε", "tolerance", *runs, "share predicted", "most possible"], rows)


def receivers(runs: dict[str, Path]) -> None:
    found: dict[str, dict[int, list[float]]] = {name: {} for name in runs}
    for name, run in runs.items():
        for row in read(run, "attention"):
            found[name].setdefault(int(row["layer"]), []).append(float(row["receiver_max"]))
    rows = []
    for layer in sorted({layer for layers in found.values() for layer in layers}):
        heads = [layers.get(layer, [math.nan]) for layers in found.values()]
        rows.append([str(layer), *(f"{short(sum(r) / len(r))} ({short(max(r))})" for r in heads)])
    print_table(["layer", *runs], rows)


# ---- claims -----------------------------------------------------------------------------------------


def growth(run: Path, figures: dict[str, Any]) -> str:
    rows = {r["Layer Range"]: r for r in read(run, "table1") if r["probe"] == "final_norm"}
    tau, decreases = rows["Mann-Kendall tau"]["mean"], rows["decreases"]["mean"]
    return f"tau {short(tau)}, {short(decreases)} decreases in {len(figures['transitions'])} layers"


def exponent(run: Path, figures: dict[str, Any]) -> str:
    rows = {r["Layer Range"]: r for r in read(run, "table1") if r["probe"] == "final_norm"}
    return short(rows["growth exponent"]["mean"])


def worst_ratio(run: Path, figures: dict[str, Any]) -> str:
    bounds = figures["bounds"]
    middle = [t["bound_ratio"]["mean"] for t in figures["transitions"]]
    count = bounds["violations"] + bounds["coherence_violations"]
    return f"{count} violations, largest {short(bounds['largest'])}, mean {short(sum(middle) / len(middle))}"


def saturation(run: Path, figures: dict[str, Any]) -> str:
    events = figures["events"]
    return f"{short(events['window_frequency'])} of windows, {short(events['frequency'])} of transitions"


def runs_of_layers(run: Path, figures: dict[str, Any]) -> str:
    events = figures["events"]
    longest, mean = short(events["longest_run"]), short(events["mean_run"] or "")
    return f"mean {mean}, longest {longest}"


def outer(run: Path, figures: dict[str, Any]) -> str:
    events = figures["events"]
    return f"{short(events['outer'])} of {short(events['count'])}"


def rounds_at_one(run: Path, figures: dict[str, Any]) -> str:
    return ", ".join(short(row["Mean Iterations"]) for row in read(run, "table5") if row["epsilon"] == "1")


def sinks(run: Path, figures: dict[str, Any]) -> str:
    heads = [float(row["sink_rate"]) for row in read(run, "attention")]
    return f"{sum(rate > 0.5 for rate in heads)} of {len(heads)} heads"


CLAIMS: list[tuple[str, Callable[[Path, dict[str, Any]], str]]] = [
    ("R grows with depth in every layer (tau = 1, no decrease)", growth),
    ("... with an exponent of about 1 (printed 1.35, 0.72; here of R over layers)", exponent),
    ("bound of Theorem 2: no violation; printed ratio at most 0.126, mean 0.043", worst_ratio),
    ("saturation happens: share of windows with an event", saturation),
    ("... it lasts two to five layers", runs_of_layers),
    ("... it is not in the first or last tenth of the layers: events there", outer),
    ("Sinkhorn at ε = 1 takes 42, 59, 75 rounds (at most 12, 15, 18 are possible)", rounds_at_one),
    ("heads whose first key gets more than 0.3 in most windows (no claim)", sinks),
]


def print_claims(runs: dict[str, Path]) -> None:
    figures = {name: json.loads((run / "metrics.json").read_text("utf-8")) for name, run in runs.items()}
    print_table(
        ["claim", *runs],
        [[claim, *(measure(run, figures[name]) for name, run in runs.items())] for claim, measure in CLAIMS],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--claims", action="store_true")
    options = parser.parse_args()
    runs = {name: Path(run) for name, run in (pair.split("=", 1) for pair in options.runs)}
    if options.claims:
        print_claims(runs)
        return
    print("Table 1: R / √V\n")
    table1(runs)
    print("Table 2: sizes\n")
    table2(runs)
    print("Table 3: R of the last layer, over windows\n")
    side_by_side(runs, "table3", "Statistic", lambda row: list(row.values())[1])
    print("Table 4: saturation\n")
    side_by_side(runs, "table4", "Property", lambda row: row["Value"])
    print("Table 5: Sinkhorn rounds on neighbouring predictions: mean ± sd, most\n")
    table5(runs)
    print("Receivers: mass of the busiest key, mean over heads (most)\n")
    receivers(runs)


if __name__ == "__main__":
    main()
