"""Draws the figures of docs/records/speed.md and docs/records/many-machines.md from the tables of benches.

draw.py --peers PEERS.csv --scaling SCALING.csv --ranks RANKS.csv --curves CURVES.csv -o FOLDER

The tables are those of peers.py, scaling.py, ranks_simulator.py and curves.py.

Every figure is a Vega-Lite file in bench/figures with the theme of the program's reports; this writes
speed_NAME.svg, and of curves one of each family, speed_curves_FAMILY.svg.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import vl_convert

HERE = Path(__file__).parent
FIGURES = [("ratios", "peers"), ("time", "scaling"), ("memory", "scaling"), ("ranks", "ranks")]


def table(path: str) -> list[dict[str, object]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return [{key: number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def draw(name: str, data: str, rows: list[dict[str, object]], output: Path) -> None:
    theme = json.loads((HERE.parent / "program/report/theme.json").read_text(encoding="utf-8"))["light"]
    specification = json.loads((HERE / f"figures/{name}.vl.json").read_text(encoding="utf-8"))
    specification["datasets"] = {data: rows}
    specification["config"] = {**theme, "background": "white"}
    output.write_text(vl_convert.vegalite_to_svg(json.dumps(specification)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers")
    parser.add_argument("--scaling")
    parser.add_argument("--ranks")
    parser.add_argument("--curves")
    parser.add_argument("-o", "--output", default="docs")
    options = parser.parse_args()
    folder = Path(options.output)
    for name, data in FIGURES:
        source = getattr(options, data)
        if source is not None:
            draw(name, data, table(source), folder / f"speed_{name}.svg")
    rows = table(options.curves) if options.curves else []
    for family in dict.fromkeys(row["family"] for row in rows):
        of_family = [row for row in rows if row["family"] == family]
        draw("curves", "curves", of_family, folder / f"speed_curves_{family}.svg")


if __name__ == "__main__":
    main()
