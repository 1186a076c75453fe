"""Draws the curves of docs/research/training.md from the records of the training examples.

draw.py --folder FOLDER -o FOLDER

Every figure is a Vega-Lite file in examples/training/figures with the theme of the program's reports; this
writes training_NAME.svg for those whose task has runs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import natural
import vl_convert
from compare import differences, learned_numbers
from loop import read

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build/training"))
    parser.add_argument("-o", "--output", type=Path, default=Path("docs"))
    options = parser.parse_args()
    rows = [row for row in read(options.folder) if "failed" not in row]
    derived = {
        "differences": differences(rows, "accuracy", "softmax"),
        "learned": learned_numbers(rows),
        "natural": natural.records(options.folder),
    }
    theme = json.loads((HERE.parents[1] / "program/report/theme.json").read_text(encoding="utf-8"))["light"]
    for path in sorted((HERE / "figures").glob("*.vl.json")):
        specification: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        name = path.name.removesuffix(".vl.json")
        task = specification["data"]["name"]
        if task in derived:
            found = derived[task]
        else:
            found = [row for row in rows if row["task"].split("-")[0] == task]
        if not found:
            continue
        specification["datasets"] = {task: found}
        specification["config"] = {**theme, "background": "white"}
        svg = vl_convert.vegalite_to_svg(json.dumps(specification))
        (options.output / f"training_{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
