"""Certificates on real scores: how far plans and outputs of a model's heads move when their scores are
rounded or divided by a temperature, and how far they can. [CETA-16, 17, 20, DER-17 to 19]

    python scripts/score_certificates.py MODEL TEXT -o FOLDER [--lengths 64,128,256,512] [--windows 2]

The scores S = Q K^T / sqrt(d) and the values V of every head are captured in f32 on --windows windows of
each length. S is changed to T:

    bf16, f16              every score rounded to the nearest number of that type
    int8                   every row to multiples of its largest |score| / 127: symmetric, one scale a row
    temperature=FACTOR     S / FACTOR, whose plan is that of S at temperature FACTOR

`otattn certify` measures and bounds, for each head, ||P - Q||_1 of the plans of S and T, and the largest
row ||(P V - Q V)_i||_2 of the outputs. Plans are written as shares of 2n, outputs as shares of the diameter
of V: nothing can move by more than 1, and a bound of 1 or more is vacuous. The share of heads that move by
at most --safe is `safe`, that of heads whose sharp bound is at most --safe is `sharp_safe`.

Masked pairs take no part. Methods are those with a bound: softmax, and by default softmax/exact where no
pair is masked (a causal mask leaves it the identity only), softmax/relaxed:1 in causal models, where later
tokens change its earlier rows.

FOLDER gets certificates.csv, a line per length, layer, method and change, with Delta = max_j |m_j - 1| and
max_j m_j of the receiver mass m of the unchanged plans (a killed run goes on from it; heads is 0 where a
method did not converge), certificates.vl.json and, with --svg (vl-convert-python), certificates.svg.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from model_arguments import model_parser, parse_model
from numpy.typing import NDArray
from row_file import RowFile, write_whole
from safetensors import safe_open
from sink_surgery import NUMERIC, RefusedError, write_picture
from study_tables import print_table, short

Array: TypeAlias = NDArray[Any]
Figures = list[dict[str, Any]]
KEYS = ("length", "layer", "method", "change")
MEASURED = {"plan": ("l1", "bound", "bound_printed"),
            "output": ("output_change", "output_bound", "output_bound_printed")}  # fmt: skip
FIELDS = (
    *KEYS,
    "heads",
    *(
        f"{kind}_{word}"
        for kind in MEASURED
        for word in ("mean", "max", "sharp_mean", "sharp_max", "printed_mean", "printed_max",
                     "sharp_vacuous", "printed_vacuous", "safe", "sharp_safe", "violations")
    ),
    *("delta_mean", "delta_max", "receiver_mean", "receiver_max"),
)  # fmt: skip
ALLOWED = 1e-6  # of the largest change possible: solvers stop at an error of 1e-9 in a column


class Program:
    """otattn on one model, and its files of one run."""

    def __init__(self, args: argparse.Namespace, folder: str) -> None:
        self.args, self.folder = args, Path(folder)
        self.facts = self.ask("info", args.model)
        self.causal = bool(self.facts["causal"])

    def ask(self, *words: Any) -> dict[str, Any]:
        command = [self.args.program, *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            raise RefusedError(done.returncode, f"otattn {words[0]}: {done.stderr.decode().strip()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def solve(self, *words: Any) -> Figures:
        """The heads of certify or plan; none where one of them did not converge."""
        try:
            heads: Figures = self.ask(
                *words, "--per-head", "--max-rounds", 100000, "--threads", self.args.threads
            )["heads"]
        except RefusedError as refused:
            if refused.args[0] != NUMERIC:
                raise
            return []
        return heads

    def save(self, name: str, array: Array) -> Path:
        np.save(self.folder / f"{name}.npy", array)
        return self.folder / f"{name}.npy"


def load_windows(args: argparse.Namespace, length: int) -> Array:
    if args.ids is not None:
        ids = np.load(args.ids).reshape(-1)
    else:
        words = subprocess.check_output([args.program, "tokenize", args.model, args.text, "--no-special"])
        ids = np.array(words.split(), np.int64)
    wanted = args.windows * length
    if len(ids) < wanted:
        raise SystemExit(f"the text has {len(ids)} tokens, and {args.windows} windows of {length} are wanted")
    return ids[:wanted].reshape(args.windows, length)


def captured_layers(program: Program, ids: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Of each layer: scores [windows, heads, n, n] in f32 with -inf where masked, values and outputs
    [windows, heads, n, d]."""
    rotated = "rot_" if program.facts["architecture"] in ("llama", "gemma3") else ""
    points = [f"hook_{rotated}q", f"hook_{rotated}k", "hook_v", "hook_z"]
    run = program.folder / "run.safetensors"
    words = ["--points", ",".join(f"attn.{point}" for point in points), "--threads", program.args.threads]
    program.ask("capture", program.args.model, "--ids", program.save("ids", ids), "-f", "-o", run, *words)
    with safe_open(run, "numpy") as file:
        for layer in range(program.facts["layers"]):
            q, k, v, z = (
                np.moveaxis(file.get_tensor(f"blocks.{layer}.attn.{point}"), 2, 1) for point in points
            )
            k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
            scores = (q @ np.swapaxes(k, -1, -2)) / np.float32(np.sqrt(q.shape[-1]))
            if program.causal:
                scores[..., ~np.tri(ids.shape[1], dtype=bool)] = -np.inf
            yield scores, v, z


def round_bf16(x: Array) -> Array:
    """To nearest, ties to even: half of the last place that stays, less one unit where that place is even."""
    bits = x.astype(np.float32).view(np.uint32)
    carried = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (carried & np.uint32(0xFFFF0000)).view(np.float32)


def round_int8(x: Array) -> Array:
    finite = np.isfinite(x)
    step = np.abs(np.where(finite, x, 0)).max(-1, keepdims=True).astype(np.float64) / 127
    step[step == 0] = 1
    return np.where(finite, np.rint(x / step) * step, x)


def changed(scores: Array, change: str) -> Array:
    word, _, factor = change.partition("=")
    if word == "temperature":
        return scores.astype(np.float64) / float(factor)
    if word == "bf16":
        return round_bf16(scores)
    if word == "f16":
        with np.errstate(over="raise"):
            return scores.astype(np.float16).astype(np.float32)
    if word == "int8":
        return round_int8(scores)
    raise SystemExit(f"--roundings has {change}, and only bf16, f16 and int8 are known")


def receivers(program: Program, method: str, values: Array, outputs: Array) -> dict[str, float]:
    """Delta and the mass of the busiest key, in units of a row. Plans of softmax must give the model's own
    outputs, or the scores are not the model's."""
    words = ["--method", method, "-f", "-o", program.folder / "plan.npy"]
    heads = program.solve("plan", program.folder / "scores.npy", *words)
    if heads and method == "softmax":
        plans = np.load(program.folder / "plan.npy").reshape(*values.shape[:2], values.shape[2], -1)
        error = float(np.abs(plans @ values - outputs).max())
        if not error <= 1e-3 * float(np.abs(values).max()):
            raise SystemExit(f"softmax of the scores is {error:.2g} away from the model's own outputs")
    delta, most = ([head[name] for head in heads] or [float("nan")] for name in ("delta", "receiver_max"))
    return {"delta_mean": float(np.mean(delta)), "delta_max": max(delta),
            "receiver_mean": float(np.mean(most)), "receiver_max": max(most)}  # fmt: skip


def summed(heads: Figures, length: int, safe: float) -> dict[str, float]:
    """Over heads: changes and bounds as shares of the largest change that is possible."""
    row: dict[str, float] = {"heads": len(heads)}
    for kind, names in MEASURED.items():
        if not heads:
            continue
        most = np.array([2 * length if kind == "plan" else head["values_diameter"] for head in heads])
        change, sharp, printed = (np.array([head[name] for head in heads]) / most for name in names)
        for word, value in (("", change), ("sharp_", sharp), ("printed_", printed)):
            row[f"{kind}_{word}mean"], row[f"{kind}_{word}max"] = float(value.mean()), float(value.max())
        row[f"{kind}_sharp_vacuous"] = float((sharp >= 1).mean())
        row[f"{kind}_printed_vacuous"] = float((printed >= 1).mean())
        row[f"{kind}_safe"] = float((change <= safe).mean())
        row[f"{kind}_sharp_safe"] = float((sharp <= safe).mean())
        row[f"{kind}_violations"] = int((change > np.minimum(sharp, printed) + ALLOWED).sum())
    return row


def measure(program: Program, length: int, done: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """The rows of one length that are not done."""
    args = program.args
    wanted = {
        (length, layer, method, change)
        for layer in range(program.facts["layers"])
        for method in args.methods
        for change in args.changes
    } - done
    if not wanted:
        return
    for layer, (scores, values, outputs) in enumerate(captured_layers(program, load_windows(args, length))):
        if not any(key[1] == layer for key in wanted):
            continue
        # In f64, or plans would be solved to the tolerance of f32.
        given = program.save("scores", scores.astype(np.float64)), program.save("values", values)
        files = ["--scores", given[0], "--values", given[1]]
        for method in args.methods:
            left = [change for change in args.changes if (length, layer, method, change) in wanted]
            received = receivers(program, method, values, outputs) if left else {}
            for change in left:
                files_of_t = ["--perturbed", program.save("perturbed", changed(scores, change))]
                heads = program.solve("certify", *files, *files_of_t, "--method", method)
                key = dict(zip(KEYS, (length, layer, method, change), strict=True))
                yield {**key, **summed(heads, length, args.safe), **received}


def read(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value or "nan")
        except ValueError:
            continue
    return value


def run(program: Program) -> Figures:
    """Every row; those of an earlier run of the same model, text and sizes are read."""
    args = program.args
    table, mark = args.output / "certificates.csv", args.output / "certificates.key"
    ids = load_windows(args, max(args.lengths))
    stamp = json.dumps([str(args.model), int(ids.sum()), args.windows, args.safe])
    rows: Figures = []
    kept_rows = RowFile(table, FIELDS)
    if table.exists() and mark.exists() and mark.read_text() == stamp:
        rows = [{name: read(value) for name, value in row.items()} for row in kept_rows.read()]
    elif table.exists():
        table.unlink()
    write_whole(mark, stamp)
    done = {tuple(row[name] for name in KEYS) for row in rows}
    each = program.facts["layers"] * len(args.methods) * len(args.changes)
    # The time of a row goes with the square of the length.
    total = sum(length**2 * (each - sum(key[0] == length for key in done)) for length in args.lengths)
    count, work, begun = 0, 0, time.monotonic()
    told = begun
    with kept_rows.writing(rows) as add:
        for length in args.lengths:
            for row in measure(program, length, done):
                rows.append(row)
                add(row)
                count, work, now = count + 1, work + length**2, time.monotonic()
                if now - told >= 10 or work == total:
                    told = now
                    left = (now - begun) / work * (total - work) / 60
                    print(f"  {count} rows, length {length}, {left:.1f} minutes left", flush=True)
    order = {change: place for place, change in enumerate(args.changes)}
    kept = [row for row in rows if row["length"] in args.lengths and row["change"] in order]
    kept = [row for row in kept if row["method"] in args.methods]
    return sorted(
        kept,
        key=lambda row: (
            args.methods.index(row["method"]),
            row["length"],
            row["layer"],
            order[row["change"]],
        ),
    )


# ---- tables and figure ------------------------------------------------------------------------------


def mean(rows: Figures, field: str) -> float:
    values = [row[field] for row in rows if row["heads"]]
    return float(np.mean(values)) if values else float("nan")


def most(rows: Figures, field: str) -> float:
    return max((row[field] for row in rows if row["heads"]), default=float("nan"))


def three(rows: Figures, kind: str) -> str:
    return " / ".join(short(mean(rows, f"{kind}_{word}mean")) for word in ("", "sharp_", "printed_"))


def print_lengths(rows: Figures, method: str, args: argparse.Namespace) -> None:
    for kind in MEASURED:
        what = "plans, shares of 2n" if kind == "plan" else "outputs, shares of the values' diameter"
        print(f"{method}, {what}; over all layers and heads\n")
        cells = []
        for change in args.changes:
            for length in args.lengths:
                here = [row for row in rows if row["length"] == length and row["change"] == change]
                cells.append(
                    [change, str(length), three(here, kind), short(most(here, f"{kind}_max")),
                     *(short(mean(here, f"{kind}_{word}_vacuous")) for word in ("sharp", "printed")),
                     *(short(mean(here, f"{kind}_{word}")) for word in ("safe", "sharp_safe"))]
                )  # fmt: skip
        safe = f"{args.safe:g}"
        print_table(
            ["change", "n", "changed / sharp / printed", "most changed", "sharp vacuous", "printed vacuous",
             f"changed ≤ {safe}", f"sharp ≤ {safe}"],
            cells,
        )  # fmt: skip


def print_layers(rows: Figures, method: str, args: argparse.Namespace) -> None:
    length = max(args.lengths)
    rows = [row for row in rows if row["length"] == length]
    for kind in MEASURED:
        what = "plans" if kind == "plan" else "outputs"
        print(f"{method}, {what} by layer at n = {length}: changed / sharp / printed, means over heads\n")
        cells = []
        for layer in sorted({int(row["layer"]) for row in rows}):
            here = [row for row in rows if row["layer"] == layer]
            by_change = ([row for row in here if row["change"] == change] for change in args.changes)
            cells.append([str(layer), *(three(one, kind) for one in by_change)])
        print_table(["layer", *args.changes], cells)


def print_receivers(rows: Figures, method: str, args: argparse.Namespace) -> None:
    print(f"{method}: Delta and mass of the busiest key, mean over heads (most)\n")
    cells = []
    for layer in sorted({int(row["layer"]) for row in rows}):
        cells.append([str(layer)])
        for length in args.lengths:
            here = [row for row in rows if row["length"] == length and row["layer"] == layer]
            for name in ("delta", "receiver"):
                cells[-1].append(f"{short(mean(here, f'{name}_mean'))} ({short(most(here, f'{name}_max'))})")
    heads = [f"{name}, n = {length}" for length in args.lengths for name in ("Δ", "busiest")]
    print_table(["layer", *heads], cells)


def print_rows(rows: Figures, args: argparse.Namespace) -> None:
    for method in args.methods:
        here = [row for row in rows if row["method"] == method]
        print_lengths(here, method, args)
        print_layers(here, method, args)
        print_receivers(here, method, args)
    violations = sum(row[f"{kind}_violations"] for row in rows if row["heads"] for kind in MEASURED)
    count = sum(row["heads"] for row in rows)
    failed = sum(not row["heads"] for row in rows)
    print(f"{count:.0f} pairs of plans, {violations:.0f} violations of a bound, {failed} rows not converged")


def figure(rows: Figures, title: str) -> dict[str, Any]:
    length = max(row["length"] for row in rows)
    values = [
        {"layer": row["layer"], "change": row["change"], "kind": f"{row['method']}, {kind}",
         "what": what, "share": row[f"{kind}_{word}mean"]}
        for row in rows if row["length"] == length and row["heads"]
        for kind in MEASURED
        for word, what in (("printed_", "printed bound"), ("sharp_", "sharp bound"), ("", "changed in fact"))
        if row[f"{kind}_{word}mean"] > 0
    ]  # fmt: skip
    names = list(dict.fromkeys(value["kind"] for value in values))
    changes = list(dict.fromkeys(value["change"] for value in values))
    series = ["printed bound", "sharp bound", "changed in fact"]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {
            "text": f"{title}, n = {length:.0f}",
            "subtitle": "means over heads, plans as shares of 2n, outputs as shares of the diameter of V; "
            "a bound above the dashed line is vacuous",
        },
        "data": {"values": values},
        "facet": {
            "row": {"field": "kind", "type": "nominal", "sort": names, "title": None,
                    "header": {"labelFontSize": 10}},
            "column": {"field": "change", "type": "nominal", "sort": changes, "title": None},
        },
        "spec": {
            "width": 140,
            "height": 130,
            "layer": [
                {"mark": {"type": "line", "strokeWidth": 1.5, "aria": False},
                 "encoding": {
                     "x": {"field": "layer", "type": "quantitative",
                           "axis": {"tickMinStep": 1, "tickCount": 4}},
                     "y": {"field": "share", "type": "quantitative", "scale": {"type": "log"},
                           "axis": {"format": ".0e", "tickCount": 5}, "title": None},
                     "color": {"field": "what", "type": "nominal", "sort": series, "title": None,
                               "legend": {"orient": "bottom"}}}},
                # One rule a facet, not one a number.
                {"transform": [{"filter": "datum.layer == 0 && datum.what == 'printed bound'"}],
                 "mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"y": {"datum": 1}}},
            ],
        },
        "resolve": {"scale": {"y": "shared"}},
    }  # fmt: skip


def chosen_methods(program: Program, given: list[str] | None) -> list[str]:
    methods = given or ["softmax", "softmax/relaxed:1" if program.causal else "softmax/exact"]
    if program.causal and any(method.startswith("softmax/exact") for method in methods):
        raise SystemExit(
            "--methods has softmax/exact, and a causal mask leaves it the identity only: use "
            "softmax/relaxed:RHO or softmax/capped:CAP"
        )
    return methods


def main() -> None:
    def listed(convert: Any) -> Any:
        return lambda text: [convert(word) for word in text.split(",") if word]

    parser = model_parser(__doc__)
    parser.add_argument("--lengths", type=listed(int), default=[64, 128, 256, 512], help="tokens of a window")
    parser.add_argument("--windows", type=int, default=2, help="of each length")
    parser.add_argument("--roundings", type=listed(str), default=["bf16", "f16", "int8"])
    parser.add_argument("--temperatures", type=listed(str), default=["0.99", "1.01"])
    parser.add_argument("--methods", type=listed(str), help="softmax and one more, see above")
    parser.add_argument("--safe", type=float, default=0.01, help="a share that is no harm")
    parser.add_argument("--threads", type=int, default=1)
    args = parse_model(parser)
    args.lengths.sort()
    args.changes = [*args.roundings, *(f"temperature={factor}" for factor in args.temperatures)]
    with tempfile.TemporaryDirectory() as folder:
        program = Program(args, folder)
        args.methods = chosen_methods(program, args.methods)
        rows = run(program)
    print_rows(rows, args)
    drawing = figure(rows, f"Changed scores: {args.title or Path(args.model).name}")
    write_whole(args.output / "certificates.vl.json", json.dumps(drawing))
    if args.svg:
        write_picture(drawing, args.output / "certificates.svg")


if __name__ == "__main__":
    main()
