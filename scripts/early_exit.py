"""Early exit [TOT-119]: layers saved against nll when tokens stop as soon as their prediction looks settled.

    python scripts/early_exit.py MODEL TEXT -o FOLDER [--program build/otattn] [--tokens 5000]

A token stops behind the layer where its largest probability has been above THETA behind K layers in a
row, for every THETA of --thresholds and K of --transitions, and, as the oracle, where its likeliest next
token has been that of the whole run, which no rule can know in time. For each setting, on the first
--tokens predicted tokens of the text: the share of layers saved, the share of predictions of the whole
run that are kept, and the change of nll per token. Later tokens see the states of stopped ones, so even
the oracle loses predictions.

FOLDER gets exits.csv (a killed run goes on from it), exits.vl.json and, with --svg (vl-convert-python),
exits.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from model_arguments import model_parser, parse_model
from row_file import RowFile, write_whole
from sink_surgery import write_picture

FIELDS = (
    "rule",
    "threshold",
    "transitions",
    "layers_saved",
    "agreement",
    "nll_whole",
    "nll_change",
    "tokens",
)


def load_ids(args: argparse.Namespace) -> np.ndarray:
    """As many ids as windows of `context` need to predict `tokens`: all of a window but its first."""
    if args.ids is not None:
        ids = np.load(args.ids).reshape(-1)
    else:
        words = subprocess.check_output([args.program, "tokenize", args.model, args.text, "--no-special"])
        ids = np.array(words.split(), np.int64)
    windows = -(-args.tokens // (args.context - 1))
    if len(ids) < windows * args.context:
        raise SystemExit(
            f"the text has {len(ids)} tokens, and {windows} windows of {args.context} are wanted"
        )
    return ids[: windows * args.context]


def measure(args: argparse.Namespace, ids: Path, rule: str, transitions: int) -> dict[str, Any]:
    words = [args.program, "perplexity", args.model, "--ids", ids, "--context", args.context, "--json"]
    words += ["--threads", args.threads, "--exit", f"{rule},{transitions}"]
    found = json.loads(subprocess.check_output([str(word) for word in words], stderr=subprocess.DEVNULL))
    exits = found["exit"]
    return {"rule": exits["rule"], "threshold": rule, "transitions": transitions,
            **{name: exits[name] for name in FIELDS[3:7]}, "tokens": found["tokens"]}  # fmt: skip


def run(args: argparse.Namespace, ids: Path) -> list[dict[str, Any]]:
    """Every setting; those of an earlier run of the same model, text and sizes are read."""
    settings = [(f"{theta:g}", k) for theta in args.thresholds for k in args.transitions]
    settings += [("oracle", k) for k in args.transitions]
    table = args.output / "exits.csv"
    stamp = json.dumps([str(args.model), int(np.load(ids).sum()), args.tokens, args.context])
    mark = args.output / "exits.key"
    rows = RowFile(table, FIELDS)
    done: dict[tuple[str, int], dict[str, Any]] = {}
    if table.exists() and mark.exists() and mark.read_text() == stamp:
        done = {(row["threshold"], int(row["transitions"])): row for row in rows.read()}
    elif table.exists():
        table.unlink()
    write_whole(mark, stamp)
    begun = time.monotonic()
    left = [setting for setting in settings if setting not in done]
    with rows.writing(done.values()) as add, ThreadPoolExecutor(args.jobs) as pool:
        for count, row in enumerate(pool.map(lambda setting: measure(args, ids, *setting), left), 1):
            add(row)
            done[row["threshold"], row["transitions"]] = row
            seconds = (time.monotonic() - begun) / count * (len(left) - count)
            print(f"  {count} of {len(left)} settings, {seconds / 60:.0f} minutes left", flush=True)
    return [
        {name: value if name in FIELDS[:2] else float(value) for name, value in done[setting].items()}
        for setting in settings
    ]


def figure(rows: list[dict[str, Any]], title: str) -> dict[str, Any]:
    values = [{**row, "K": f"{row['rule']}, K = {row['transitions']:.0f}"} for row in rows]
    for value in values:
        if value["rule"] == "oracle":
            value["K"] = "oracle, K = " + ", ".join(
                f"{row['transitions']:.0f}" for row in rows if row["rule"] == "oracle"
            )
    line = {
        "encoding": {
            "x": {"field": "layers_saved", "type": "quantitative", "title": "share of layers saved"},
            "y": {"field": "nll_change", "type": "quantitative",
                  "scale": {"type": "symlog", "constant": 0.01, "nice": False},
                  "title": "change of nll per token, nats (symlog)"},
            "color": {"field": "K", "type": "nominal", "title": None},
            "order": {"field": "layers_saved"},
        }
    }  # fmt: skip
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": title,
        "data": {"values": values},
        "width": 520,
        "height": 320,
        **line,
        "layer": [
            {"mark": {"type": "line", "point": True}},
            {
                "transform": [{"filter": "datum.rule == 'threshold'"}],
                "mark": {"type": "text", "align": "left", "dx": 6, "dy": -6, "fontSize": 9},
                "encoding": {"text": {"field": "threshold"}},
            },
        ],
    }


def print_rows(rows: list[dict[str, Any]]) -> None:
    print(f"{'stops at':>9}{'K':>4}{'layers saved':>14}{'top-1 kept':>12}{'nll':>10}")
    for row in rows:
        print(
            f"{row['threshold']:>9}{row['transitions']:4.0f}{row['layers_saved']:14.4f}"
            f"{row['agreement']:12.4f}{row['nll_change']:+10.4f}"
        )
    print(f"nll of the whole model {rows[0]['nll_whole']:.4f}, {rows[0]['tokens']:.0f} predicted tokens")


def main() -> None:
    parser = model_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=5000, help="to predict, at least")
    parser.add_argument("--context", type=int, default=512, help="tokens of a window")
    parser.add_argument("--thresholds", type=float, nargs="*", default=[0.5, 0.9, 0.99, 0.999, 0.9999])
    parser.add_argument("--transitions", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    parser.add_argument("--threads", type=int, default=1, help="of a run")
    args = parse_model(parser)
    ids = args.output / "ids.npy"
    np.save(ids, load_ids(args))
    rows = run(args, ids)
    print_rows(rows)
    heading = f"Early exit: {args.title or Path(args.model).name}"
    write_whole(args.output / "exits.vl.json", json.dumps(figure(rows, heading)))
    if args.svg:
        write_picture(figure(rows, heading), args.output / "exits.svg")


if __name__ == "__main__":
    main()
