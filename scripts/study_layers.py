"""Figures of drift and of receivers by layer, from runs of `otattn analyze`.

    python scripts/study_layers.py NAME=RUN NAME=RUN ... --drift FILE --receivers FILE

--drift: total variation of a transition and R / sqrt(V), means over windows with their 95 % intervals.
--receivers: the busiest key's and the first key's shares of all mass, means over windows; the line is
the mean over the heads of a layer, the area reaches from the least to the most of a head. The x axis is
the layer as a share of the depth, so that models of other depths meet. Both need vl-convert-python. The
tables printed beside them have the same numbers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sink_surgery import write_picture
from study_tables import print_table, short

DRIFT = {"tv": "TV of a transition", "alignment_per_sqrt_vocabulary": "R / √V"}
RECEIVERS = {
    "receiver_max": "mass of the busiest key",
    "first_key_mass": "mass of the first key",
}

Row = dict[str, Any]


def drift(name: str, metrics: Row) -> list[Row]:
    made: list[Row] = []
    transitions = metrics["transitions"]
    for k, transition in enumerate(transitions):
        for key, title in DRIFT.items():
            value = transition[key]
            low, high = (value["mean"] if end is None else end for end in value["ci95"])
            made.append({"model": name, "layer": k, "depth": (k + 1) / len(transitions), "measure": title,
                         "value": value["mean"], "low": low, "high": high})  # fmt: skip
    return made


def receivers(name: str, metrics: Row) -> list[Row]:
    made: list[Row] = []
    layers = metrics["attention"]
    tokens = metrics["tokens"] / metrics["windows"]
    for k, heads in enumerate(layers):
        for key, title in RECEIVERS.items():
            # receiver_max is in fair shares, first_key_mass a share of all mass.
            share = tokens if key == "receiver_max" else 1.0
            means = [head[key]["mean"] / share for head in heads]
            depth = (k + 1) / len(layers)
            row = {
                "model": name,
                "layer": k,
                "depth": depth,
                "measure": title,
                "value": sum(means) / len(means),
            }
            made.append({**row, "low": min(means), "high": max(means)})
    return made


def print_rows(rows: list[Row], titles: dict[str, str]) -> None:
    names = list(dict.fromkeys(row["model"] for row in rows))
    found = {(row["model"], row["layer"], row["measure"]): row for row in rows}
    for title in titles.values():
        print(f"{title}: mean (low to high)\n")
        lines = []
        for layer in range(1 + max(row["layer"] for row in rows)):
            cells = [found.get((name, layer, title)) for name in names]
            lines.append([str(layer), *(f"{short(c['value'])} ({short(c['low'])} to {short(c['high'])})"
                                        if c else "–" for c in cells)])  # fmt: skip
        print_table(["layer", *names], lines)


def figure(rows: list[Row], titles: dict[str, str]) -> Row:
    x: Row = {"field": "depth", "type": "quantitative", "title": "layer / depth", "scale": {"domain": [0, 1]}}
    color = {"field": "model", "type": "nominal", "title": None}
    line = {"field": "value", "type": "quantitative", "title": None}
    area = {"field": "low", "type": "quantitative", "title": None}
    columns = [
        {
            "title": title,
            "width": 230,
            "height": 180,
            "transform": [{"filter": {"field": "measure", "equal": title}}],
            "layer": [
                {
                    "mark": {"type": "area", "opacity": 0.15},
                    "encoding": {"x": x, "y": area, "y2": {"field": "high"}, "color": color},
                },
                {
                    "mark": {"type": "line", "point": {"filled": True, "size": 20}},
                    "encoding": {"x": x, "y": line, "color": color},
                },
            ],
        }
        for title in titles.values()
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "hconcat": columns,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--drift", type=Path, metavar="FILE")
    parser.add_argument("--receivers", type=Path, metavar="FILE")
    args = parser.parse_args()
    runs = dict(text.split("=", 1) for text in args.runs)
    metrics = {
        name: json.loads((Path(run) / "metrics.json").read_text("utf-8")) for name, run in runs.items()
    }
    for rows_of, titles, path in ((drift, DRIFT, args.drift), (receivers, RECEIVERS, args.receivers)):
        rows = [row for name, figures in metrics.items() for row in rows_of(name, figures)]
        print_rows(rows, titles)
        if path:
            write_picture(figure(rows, titles), path)


if __name__ == "__main__":
    main()
