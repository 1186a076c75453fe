"""Tables and a figure of runs of `otattn analyze` with --temperatures and --probe-temperatures [TOT-35].

    python scripts/study_temperatures.py NAME=RUN NAME=RUN ... [--svg FILE]

For each run a table against the attention's temperature and one against the probe's: nll, total variation
of a transition, change of a state and share of saturated states, each with its 95 % interval over windows. A
dash stands where a run has no such number. The last table says for every model which way each goes from the
lowest to the highest temperature, and where the two intervals meet. --svg draws it (vl-convert-python).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from sink_surgery import write_picture
from study_tables import print_table, read, short

MEASURES = {
    "nll_per_token": "nll",
    "tv": "TV of a transition",
    "relative_l2": "change of a state",
    "saturated_states": "saturated states",
}
TABLES = {"temperatures": "attention's temperature", "probe_temperatures": "probe's temperature"}

Row = dict[str, Any]


def load(name: str, run: Path) -> list[Row]:
    """{model, kind, temperature, measure, value, low, high} of both tables; what is missing is left out."""
    made: list[Row] = []
    for table, kind in TABLES.items():
        if not (run / "tables" / f"{table}.csv").exists():
            continue
        for line in read(run, table):
            for measure, title in MEASURES.items():
                values = [float(line[key] or "nan") for key in (measure, f"{measure}_low", f"{measure}_high")]
                if not math.isnan(values[0]):
                    row: Row = {"model": name, "kind": kind, "measure": title}
                    row["temperature"] = float(line["temperature"])
                    made.append({**row, **dict(zip(("value", "low", "high"), values, strict=True))})
    return made


def cell(row: Row | None) -> str:
    if row is None:
        return "–"
    value, low, high = (short(row[key]) for key in ("value", "low", "high"))
    return value if low == high else f"{value} ({low} to {high})"


def print_tables(rows: list[Row]) -> None:
    for kind in TABLES.values():
        for name in dict.fromkeys(row["model"] for row in rows):
            mine = [row for row in rows if row["model"] == name and row["kind"] == kind]
            if not mine:
                continue
            print(f"{name}, {kind}\n")
            found = {(row["temperature"], row["measure"]): row for row in mine}
            lines = [
                [short(t), *(cell(found.get((t, title))) for title in MEASURES.values())]
                for t in dict.fromkeys(row["temperature"] for row in mine)
            ]
            print_table([kind, *MEASURES.values()], lines)


def direction(mine: list[Row]) -> str:
    """Which way the measure goes from the lowest temperature to the highest."""
    first, last = (pick(mine, key=lambda row: row["temperature"]) for pick in (min, max))
    if first["value"] == last["value"]:
        return "the same"
    up = last["value"] > first["value"]
    apart = first["high"] < last["low"] if up else last["high"] < first["low"]
    ends = f"{'rises' if up else 'falls'}, {short(first['value'])} to {short(last['value'])}"
    return ends if apart else f"{ends}, intervals meet"


def print_directions(rows: list[Row]) -> None:
    lines = []
    for kind in TABLES.values():
        for name in dict.fromkeys(row["model"] for row in rows):
            cells = []
            for title in MEASURES.values():
                mine = [r for r in rows if (r["model"], r["kind"], r["measure"]) == (name, kind, title)]
                cells.append(direction(mine) if mine else "–")
            if any(text != "–" for text in cells):
                lines.append([name, kind, *cells])
    print_table(["model", "from lowest to highest", *MEASURES.values()], lines)


def figure(rows: list[Row]) -> dict[str, Any]:
    x: Row = {"field": "temperature", "type": "quantitative", "title": "temperature"}
    x["scale"] = {"type": "log", "nice": False}
    x["axis"] = {"values": sorted({row["temperature"] for row in rows}), "grid": False}
    color = {"field": "model", "type": "nominal", "title": None}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "facet": {
            "row": {"field": "kind", "type": "nominal", "title": None},
            "column": {"field": "measure", "type": "nominal", "title": None, "sort": list(MEASURES.values())},
        },
        "resolve": {"scale": {"y": "independent"}},
        "spec": {
            "width": 170,
            "height": 150,
            "layer": [
                {
                    "mark": {"type": "area", "opacity": 0.2},
                    "encoding": {
                        "x": x,
                        "y": {
                            "field": "low",
                            "type": "quantitative",
                            "scale": {"zero": False},
                            "title": None,
                        },
                        "y2": {"field": "high"},
                        "color": color,
                    },
                },
                {
                    "mark": {"type": "line", "point": {"filled": True, "size": 24}},
                    "encoding": {"x": x, "y": {"field": "value", "type": "quantitative"}, "color": color},
                },
            ],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--svg", type=Path)
    args = parser.parse_args()
    rows: list[Row] = []
    for text in args.runs:
        name, _, run = text.partition("=")
        found = load(name, Path(run))
        if not found:
            raise SystemExit(f"{run} has no tables/temperatures.csv; run analyze with --temperatures")
        rows += found
    print_tables(rows)
    print_directions(rows)
    if args.svg:
        write_picture(figure(rows), args.svg)


if __name__ == "__main__":
    main()
