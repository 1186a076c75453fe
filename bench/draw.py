"""Draws the figures of docs/records/speed.md and docs/records/many-machines.md from the tables of benches.

draw.py --peers PEERS.csv --scaling SCALING.csv --ranks RANKS.csv -o FOLDER

The tables are those of peers.py, scaling.py and ranks_simulator.py.

Every figure is a Vega-Lite file in bench/figures with the theme of the program's reports; this writes
speed_NAME.svg.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers")
    parser.add_argument("--scaling")
    parser.add_argument("--ranks")
    parser.add_argument("-o", "--output", default="docs")
    options = parser.parse_args()
    theme = json.loads((HERE.parent / "program/report/theme.json").read_text(encoding="utf-8"))["light"]
    for name, data in FIGURES:
        source = getattr(options, data)
        if source is None:
            continue
        specification = json.loads((HERE / f"figures/{name}.vl.json").read_text(encoding="utf-8"))
        specification["datasets"] = {data: table(source)}
        specification["config"] = {**theme, "background": "white"}
        svg = vl_convert.vegalite_to_svg(json.dumps(specification))
        Path(options.output, f"speed_{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
