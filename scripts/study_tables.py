"""Prints tables 1 to 5 of `otattn analyze` runs and the receivers of their layers side by side in Markdown,
or the claims of their source, or bounds on their layers.

    study_tables.py NAME=RUN NAME=RUN ... [--claims | --bounds]

RUN is a folder that analyze wrote. A cell is what the run's table has, rounded to three digits; a dash
stands where a run has no such number (one window has no sd, no event has no mean). Table 1 and the claims
are about the final_norm probe. Receivers are the masses r of each head's busiest key, means over windows,
1 being a fair share; Delta of a window, the largest |mass - 1| of a key, is r - 1 for r >= 2, else at most 1.
--claims prints one line for each thing that the source says, with what every run measured. --bounds prints
what runs with `analyze --bounds` say of their layers, and the measures of the source's E.4 by transition.
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


# ---- --bounds ----


def all_layers(run: Path) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["statement"], row["change"]): row for row in read(run, "bounds") if row["layer"] == ""}


def print_bounds(runs: dict[str, Path]) -> None:
    """Means over layers and windows of the worst token; tightness also its largest."""
    found = {name: all_layers(run) for name, run in runs.items()}
    keys = list(dict.fromkeys(key for rows in found.values() for key in rows))
    sizes, tight = [], []
    for key in keys:
        cells = [rows[key] for rows in found.values()]
        names = [key[0], key[1] or "–"]
        bounds = ("measured", "sharp_bound", "printed_bound")
        sizes.append(names + [" ≤ ".join(short(row[one]) for one in bounds if row[one]) for row in cells])
        tight.append(names)
        for row in cells:
            for form in ("printed", "sharp"):
                mean, most = row[f"{form}_tightness"], row[f"{form}_tightness_max"]
                tight[-1].append(f"{short(mean)}, {short(most)}" if mean else "–")
    print(
        "Measured ≤ sharp bound ≤ printed bound (where there is a sharp one), means over layers and windows\n"
    )
    print_table(["statement", "change", *runs], sizes)
    print("Tightness, measured / bound: mean and largest\n")
    forms = [f"{name}, {form}" for name in runs for form in ("printed", "sharp")]
    print_table(["statement", "change", *forms], tight)
    broken = {
        name: sum(
            float(row[f"{form}_violations"] or 0)
            for row in read(run, "bounds")
            if row["layer"] != "" or row["statement"] == "coherence"
            for form in ("printed", "sharp")
        )
        for name, run in runs.items()
    }
    print("Violations: " + ", ".join(f"{name} {short(count)}" for name, count in broken.items()) + "\n")


def print_ranks(runs: dict[str, Path]) -> None:
    lines: dict[str, list[str]] = {}

    def put(name: str, cell: str) -> None:
        lines.setdefault(name, []).append(cell)

    for run in runs.values():
        heads = read(run, "ranks")
        pairs = [row for row in heads if row["two_layers"] != ""]
        width = float(heads[0]["head_width"])
        put("width of a head", heads[0]["head_width"])
        put("largest rank the matrix can have", heads[0]["most"])
        for words, column, rows in (
            ("one layer", "one_layer", heads),
            ("one layer, coarse", "one_layer_coarse", heads),
            ("two layers", "two_layers", pairs),
            ("two layers, coarse", "two_layers_coarse", pairs),
        ):
            ranks = [float(row[column]) for row in rows if row[column] != ""]
            mean = sum(ranks) / len(ranks)
            put(f"{words}: least, mean, most", f"{short(min(ranks))}, {short(mean)}, {short(max(ranks))}")
            if rows is pairs:
                above = sum(rank > width for rank in ranks)
                put(f"{words}: heads above the width", f"{above} of {len(ranks)}")
    print_table(["rank", *runs], [[name, *cells] for name, cells in lines.items()])


E4 = [
    *("tv", "w1", "kl", "js", "entropy_change", "top1", "top5", "top10", "top100", "spearman"),
    *("relative_l2", "cosine", "max_coordinate_change"),
    *("max_logit_change", "logit_correlation", "effective_temperature"),
]


def print_metrics(runs: dict[str, Path]) -> None:
    figures = {name: json.loads((run / "metrics.json").read_text("utf-8")) for name, run in runs.items()}

    def cell(run: str, key: str) -> str:
        means = [one[key]["mean"] for one in figures[run]["transitions"] if one[key] is not None]
        return f"{short(sum(means) / len(means))} ({short(min(means))} to {short(max(means))})"

    print("E.4: mean over transitions (least to most of a transition)\n")
    print_table(["metric", *runs], [[f"`{key}`", *(cell(run, key) for run in runs)] for key in E4])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--claims", action="store_true")
    kind.add_argument("--bounds", action="store_true")
    options = parser.parse_args()
    runs = {name: Path(run) for name, run in (pair.split("=", 1) for pair in options.runs)}
    if options.claims:
        print_claims(runs)
        return
    if options.bounds:
        print_bounds(runs)
        print_ranks(runs)
        print_metrics(runs)
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
