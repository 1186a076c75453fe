"""A table and a figure of runs of `otattn analyze` on windows of other lengths: sinks and saturation.

    python scripts/study_lengths.py RUN RUN ... [--svg FILE]

All runs are of one model. Only the layers that every run measured (--layers) are counted. A run's line
has the tokens of a window, the number of windows, nll per token, the mass of the first key and of the
busiest one as shares of all mass and the busiest key's mass in fair shares, each the mean over heads and
windows, the heads whose first key has more than 0.3 of the mass, the mean largest probability of the
states behind these layers, TV of a transition, the saturated transitions (`events`) and their share.
--svg needs vl-convert-python.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sink_surgery import write_picture
from study_tables import print_table, short

FIGURE = ("first key", "heads with a sink", "largest p", "TV of a transition")

Row = dict[str, Any]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def line_of(metrics: Row, layers: range) -> Row:
    first = metrics["first_layer"]
    tokens = metrics["tokens"] // metrics["windows"]
    heads = [head for layer in layers for head in metrics["attention"][layer - first]]
    masses = [head["first_key_mass"]["mean"] for head in heads]
    busiest = [head["receiver_max"]["mean"] for head in heads]
    events = sum(metrics["events"]["by_layer"][layer - first] for layer in layers)
    transitions = [metrics["transitions"][layer - first] for layer in layers]
    return {
        "tokens": tokens,
        "windows": metrics["windows"],
        "nll": metrics["nll_per_token"]["mean"],
        "first key": mean(masses),
        "busiest key": mean(busiest) / tokens,
        "fair shares": mean(busiest),
        "heads with a sink": mean([float(mass > 0.3) for mass in masses]),
        "largest p": mean(
            [metrics["layers"][layer + 1 - first]["max_probability"]["mean"] for layer in layers]
        ),
        "TV of a transition": mean([transition["tv"]["mean"] for transition in transitions]),
        "events": events,
        "share of transitions": events / (metrics["tokens"] * len(layers)),
    }


def figure(rows: list[Row]) -> Row:
    values = [{"tokens": row["tokens"], "measure": key, "value": row[key]} for row in rows for key in FIGURE]
    x: Row = {"field": "tokens", "type": "quantitative", "title": "tokens of a window"}
    x["scale"] = {"type": "log", "base": 2, "nice": False}
    x["axis"] = {"values": [row["tokens"] for row in rows]}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": values},
        "width": 380,
        "height": 220,
        "mark": {"type": "line", "point": {"filled": True, "size": 40}},
        "encoding": {
            "x": x,
            "y": {"field": "value", "type": "quantitative", "title": None, "scale": {"domain": [0, 1]}},
            "color": {"field": "measure", "type": "nominal", "title": None, "sort": list(FIGURE)},
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--svg", type=Path, metavar="FILE")
    args = parser.parse_args()
    found = [json.loads((run / "metrics.json").read_text("utf-8")) for run in args.runs]
    ends = [(run["first_layer"], run["first_layer"] + len(run["attention"])) for run in found]
    layers = range(max(first for first, _ in ends), min(end for _, end in ends))
    if not layers:
        raise SystemExit("the runs have no layer in common; run analyze with the same --layers")
    rows = sorted((line_of(run, layers) for run in found), key=lambda row: row["tokens"])
    print(f"layers {layers[0]} to {layers[-1]}\n")
    print_table(list(rows[0]), [[short(value) for value in row.values()] for row in rows])
    if args.svg:
        write_picture(figure(rows), args.svg)


if __name__ == "__main__":
    main()
