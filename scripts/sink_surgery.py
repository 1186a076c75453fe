"""Sink surgery: what taking mass away from the keys that receive most of it costs, per layer and head.

    python scripts/sink_surgery.py MODEL TEXT -o FOLDER [--program build/otattn] [--windows 2] [--tokens 128]

Every layer and every head (--heads N: the N whose busiest key receives most) gets every method of the sweep
in turn, the rest of the model stays as it is, so that a run begins at the layer that is changed:

    capped:C online:C    no key receives more than C            relaxed:R   RHO of the penalty on columns
    elastic:L,4          lambda of four damped steps            temperature T, a factor on the model's own

For each: nll per token (causal models), change of the last states |h' - h| / |h|, the mass of the busiest
key (1 is a fair share, mean over the heads changed), and the share of rows whose largest weight exceeds
0.9 (saturation). capped, relaxed and elastic let later tokens change earlier rows; in a causal model their
nll is that of a model that has seen the answer: it is written down, marked, and kept out of the frontier.

The frontier combines methods of different places: steps of most mass taken per squared change first, a step
being a setting that takes the place of a weaker one, of a layer or of a head, until the change of all, the
root of the sum of squares, reaches each of --budgets. It measures each combination on --report windows of
their own. Those that nothing beats in mass and nll (BERT: change) are saved as methods-BUDGET.json for
`--method @FILE`.

FOLDER gets sweep.csv (a killed run goes on from it; nan where a method did not converge), frontier.csv,
sweep.vl.json, frontier.vl.json, methods-*.json; with --svg (vl-convert-python) the figures as pictures too,
that of the sweep with whole layers only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from model_arguments import model_parser, parse_model
from numpy.typing import NDArray
from row_file import RowFile, write_whole
from safetensors.numpy import load_file

NUMERIC = 3  # exit code of what did not converge
COLUMNS = ("capped", "relaxed", "elastic")
SWEEP = [
    *(f"softmax/{rule}:{cap}" for rule in ("capped", "online") for cap in (2, 4, 8, 16)),
    *(f"softmax/relaxed:{rho}" for rho in (0.1, 1, 10)),
    *(f"softmax/elastic:{strength},4" for strength in (0.1, 0.3, 0.6)),
    *(f"softmax{{temperature={factor}}}" for factor in (0.7, 0.85, 1.2, 1.5, 2)),
]  # fmt: skip


@dataclass
class Row:
    """A place with a method: what it does to the heads there and to the model."""

    place: str
    method: str
    nll: float
    change: float
    receiver: float
    saturation: float
    leaks: bool


class RefusedError(Exception):
    """The program's exit code and sentence."""


class Model:
    """A model, its windows of tokens, and the plain run that others are compared with."""

    def __init__(self, program: str, path: str, ids: NDArray[np.int64]) -> None:
        self.program, self.path = program, path
        facts = self.ask("info", path)
        self.layers, self.heads = int(facts["layers"]), int(facts["heads"])
        self.causal = facts["architecture"] != "bert"
        last = f"blocks.{self.layers - 1}.hook_normalized_resid_post"
        self.state = "ln_final.hook_normalized" if self.causal else last
        self.ids = ids
        self.folder = tempfile.TemporaryDirectory()
        np.save(self.file("ids.npy"), ids)
        self.plain: NDArray[np.float32] | None = None

    def file(self, name: str) -> Path:
        return Path(self.folder.name) / name

    def ask(self, *words: str) -> dict[str, Any]:
        done = subprocess.run([self.program, *words, "--json"], capture_output=True, check=False)
        if done.returncode != 0:
            raise RefusedError(done.returncode, f"otattn {words[0]}: {done.stderr.decode().strip()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def capture(self, run: Path, points: list[str], *flags: str) -> dict[str, NDArray[np.float32]]:
        words = ["capture", self.path, "--ids", str(self.file("ids.npy")), "-f", "-o", str(run)]
        points = [self.state, *points, *(["logits"] if self.causal else [])]
        self.ask(*words, "--points", ",".join(points), "--threads", "1", *flags)
        arrays: dict[str, NDArray[np.float32]] = load_file(run)
        return arrays

    def nll(self, logits: NDArray[np.float32]) -> float:
        total = 0.0
        for window, ids in zip(logits, self.ids, strict=True):
            # Row by row: a window of logits in f64 leaves the caches.
            for row, following in zip(window[:-1], ids[1:], strict=True):
                most = row.max()
                sums = np.exp((row - most).astype(np.float64)).sum()
                total += float(most) + float(np.log(sums)) - float(row[following])
        return total / (len(self.ids) * (self.ids.shape[1] - 1))

    def begin(self) -> None:
        """The plain run: its last states, and what goes into every layer."""
        inputs = [f"blocks.{layer}.hook_resid_pre" for layer in range(self.layers)]
        self.plain = self.capture(self.file("plain.safetensors"), inputs)[self.state]

    def measure(self, methods: list[str], layers: list[int], heads: list[int]) -> tuple[float, float, Any]:
        """nll, change of the last states, patterns [layers, windows, heads, n, n] of the places asked for. No
        method is one of a layer before layers[0]."""
        if self.plain is None:
            self.begin()
        assert self.plain is not None
        stream = f"{self.file('plain.safetensors')}:blocks.{layers[0]}.hook_resid_pre"
        flags = ["--residual", stream, "--start-at-layer", str(layers[0])]
        flags += [word for method in methods for word in ("--method", method)]
        patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
        with tempfile.TemporaryDirectory() as folder:
            arrays = self.capture(Path(folder) / "run.safetensors", patterns, *flags)
        nll = self.nll(arrays["logits"]) if self.causal else float("nan")
        change = float(np.linalg.norm(arrays[self.state] - self.plain) / np.linalg.norm(self.plain))
        return nll, change, np.stack([arrays[name][:, heads] for name in patterns])


def receiver(patterns: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mass of the busiest key of every head, a fair share being 1: mean over windows, [layers, heads]."""
    share: NDArray[np.float64] = patterns.astype(np.float64).sum(-2).max(-1).mean(1)
    return share


def saturation(patterns: NDArray[np.float32]) -> float:
    """Share of rows whose largest weight exceeds 0.9; the first row of a causal model has one key only."""
    return float((patterns[..., 1:, :].max(-1) > 0.9).mean())


def leaks(model: Model, method: str) -> bool:
    return model.causal and any(f"/{rule}" in method for rule in COLUMNS)


def parts(model: Model, place: str) -> tuple[list[int], list[int]]:
    layer, _, head = place.partition(".")
    return [int(layer)], [int(head)] if head else list(range(model.heads))


def measure_place(model: Model, place: str, method: str) -> Row:
    layers, heads = parts(model, place)
    nothing = float("nan")
    try:
        nll, change, patterns = model.measure([f"{method}@{place}"], layers, heads)
    except RefusedError as refused:
        if refused.args[0] != NUMERIC:
            raise
        return Row(place, method, nothing, nothing, nothing, nothing, leaks(model, method))
    mean = float(receiver(patterns).mean())
    return Row(place, method, nll, change, mean, saturation(patterns), leaks(model, method))


def read_row(record: dict[str, str]) -> Row:
    nll, change, receiver, saturation = (
        float(record[name]) for name in ("nll", "change", "receiver", "saturation")
    )
    leaks = record["leaks"] == "True"
    return Row(record["place"], record["method"], nll, change, receiver, saturation, leaks)


def report_progress(rows: Iterator[Row], count: int) -> Iterator[Row]:
    """The rows, and on a terminal or in a log every ten seconds how many there are."""
    start = told = time.monotonic()
    for done, row in enumerate(rows, 1):
        now = time.monotonic()
        if now - told >= 10:
            told, each = now, (now - start) / done
            left = each * (count - done) / 60
            print(f"{done} of {count} settings, {each:.2f} s each, {left:.1f} min left", file=sys.stderr)
        yield row


def sweep(model: Model, places: list[str], methods: list[str], path: Path, jobs: int) -> list[Row]:
    table = RowFile(path, [field.name for field in fields(Row)])
    rows = [read_row(record) for record in table.read()]
    done = {(row.place, row.method) for row in rows}
    left = [(place, method) for place in places for method in methods if (place, method) not in done]
    with table.writing(asdict(row) for row in rows) as add, ThreadPoolExecutor(jobs) as pool:
        measured = pool.map(lambda setting: measure_place(model, *setting), left)
        try:
            for row in report_progress(measured, len(left)):
                rows.append(row)
                add(asdict(row))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return rows


# ---- the frontier ----


@dataclass
class Option:
    """A setting of one place, in the units that a budget counts."""

    loss: float
    gain: float  # mass taken, over the heads of the place
    row: Row


def price(model: Model, rows: list[Row], received: NDArray[np.float64]) -> dict[str, list[Option]]:
    """What the settings of every place cost and take. The cost is the square of the change: changes of
    different places have little to do with one another, so their squares nearly add up. Losses of nll do
    not: alone, most heads cost nothing that a few windows could tell from noise, and together much."""
    options: dict[str, list[Option]] = {}
    for row in rows:
        layers, heads = parts(model, row.place)
        gain = (float(received[layers[0], heads].mean()) - row.receiver) * len(heads)
        if gain > 0 and not row.leaks:
            options.setdefault(row.place, []).append(Option(row.change**2, gain, row))
    return options


def replaced(place: str, chosen: dict[str, Option]) -> list[str]:
    """The places that lose their settings when `place` gets one: itself, its layer, the heads of a layer."""
    layer, _, head = place.partition(".")
    return [
        other for other in chosen if other in (place, layer) or (not head and other.startswith(f"{layer}."))
    ]


def choose(options: dict[str, list[Option]], budget: float) -> list[Row]:
    """Steps of most mass per loss first, each a setting that takes the place of weaker ones, while the sum of
    the losses stays within the budget."""
    chosen: dict[str, Option] = {}
    total = 0.0
    while True:
        best: tuple[float, float, str, Option] | None = None
        for place, settings in options.items():
            old = [chosen[other] for other in replaced(place, chosen)]
            loss, gain = sum(one.loss for one in old), sum(one.gain for one in old)
            for option in settings:
                more, cost = option.gain - gain, option.loss - loss
                if more <= 1e-9 or total + cost > budget:
                    continue
                ratio = more / max(cost, 1e-9)
                if best is None or ratio > best[0]:
                    best = ratio, cost, place, option
        if best is None:
            return [option.row for option in chosen.values()]
        _, cost, place, option = best
        for other in replaced(place, chosen):
            del chosen[other]
        chosen[place] = option
        total += cost


def known(value: Any) -> Any:
    """JSON has no word for what is no number."""
    return None if isinstance(value, float) and math.isnan(value) else value


def methods_file(model: Model, chosen: list[Row], measured: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": "otattn methods", "version": 1, "layers": model.layers, "heads": model.heads,
        "note": "scripts/sink_surgery.py",
        "measured": {name: known(value) for name, value in measured.items()},
        "methods": [{"place": row.place, "method": row.method} for row in chosen],
    }  # fmt: skip


def beaten(one: dict[str, Any], others: list[dict[str, Any]], harm: str) -> bool:
    return any(
        other[harm] <= one[harm] and other["receiver"] <= one["receiver"]
        and (other[harm] < one[harm] or other["receiver"] < one["receiver"])
        for other in others
    )  # fmt: skip


def frontier(model: Model, rows: list[Row], received: Any, held_out: Model, args: Any) -> Any:
    everywhere = list(range(model.layers)), list(range(model.heads))
    points = []
    options = price(model, rows, received)
    for budget in [0.0, *args.budgets]:
        chosen = choose(options, budget**2) if budget > 0 else []
        texts = [f"{row.method}@{row.place}" for row in chosen]
        path = args.output / f"methods-{budget:g}.json"
        write_whole(path, json.dumps(methods_file(model, chosen, {}), indent=1))
        nll, change, patterns = held_out.measure([f"@{path}"] if texts else [], *everywhere)
        point = {
            "budget": budget, "places": len(chosen), "nll": nll, "change": change,
            "receiver": float(receiver(patterns).mean()), "saturation": saturation(patterns),
            "file": path.name,
        }  # fmt: skip
        write_whole(path, json.dumps(methods_file(model, chosen, point), indent=1))
        points.append(point)
    harm = "nll" if model.causal else "change"
    for point in points:
        point["on_frontier"] = not beaten(point, points, harm)
        if not point["on_frontier"] or point["budget"] == 0:
            (args.output / str(point["file"])).unlink()
            point["file"] = ""
    table = RowFile(args.output / "frontier.csv", points[0])
    write_whole(table.path, table.text(points, True))
    return points


# ---- figures ----


def figure(values: list[dict[str, Any]], title: str, harm: str, label: str, colour: Any) -> dict[str, Any]:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": title,
        "data": {"values": [{name: known(value) for name, value in row.items()} for row in values]},
        "width": 520,
        "height": 320,
        "mark": {"type": "point", "filled": True, "tooltip": True},
        "encoding": {
            "x": {"field": "receiver", "type": "quantitative", "scale": {"type": "log"},
                  "title": "mass of the busiest key, fair shares (log)"},
            "y": {"field": harm, "type": "quantitative", "title": label, "scale": {"zero": False}},
            "color": {"field": "saturation", "type": "quantitative", "scale": {"scheme": "viridis"},
                      "title": "rows with a weight > 0.9"},
            **colour,
        },
    }  # fmt: skip


def write_picture(specification: dict[str, Any], path: Path) -> None:
    import vl_convert

    theme = json.loads((Path(__file__).parents[1] / "program/report/theme.json").read_text())["light"]
    specification["config"] = {**theme, "background": "white"}
    write_whole(path, vl_convert.vegalite_to_svg(json.dumps(specification)))


def write_figures(model: Model, rows: list[Row], points: Any, args: Any) -> None:
    title = args.title or Path(model.path).name
    harm = "nll" if model.causal else "change"
    label = "nll per token, nats" if model.causal else "change of the last states, |h' - h| / |h|"
    shapes = {"shape": {"field": "kind", "type": "nominal", "title": "method"}}
    values = []
    for row in rows:
        word = row.method.partition("/")[2].partition(":")[0] or "temperature"
        values.append({**asdict(row), "kind": word + (" (leaks)" if row.leaks else "")})
    heading = f"One place at a time: {title}"
    write_whole(args.output / "sweep.vl.json", json.dumps(figure(values, heading, harm, label, shapes)))
    if args.svg:
        values = [value for value in values if "." not in value["place"]]
        heading = f"One layer at a time: {title}"
        write_picture(figure(values, heading, harm, label, shapes), args.output / "sweep.svg")
    kept = {"shape": {"field": "on_frontier", "type": "nominal", "title": "on the frontier"}}
    heading = f"Combinations, windows of their own: {title}"
    write_whole(args.output / "frontier.vl.json", json.dumps(figure(points, heading, harm, label, kept)))
    if args.svg:
        write_picture(figure(points, heading, harm, label, kept), args.output / "frontier.svg")


# ---- the command ----


def load_windows(args: argparse.Namespace) -> NDArray[np.int64]:
    """[windows + report, tokens]: those to choose by, then those to report."""
    ask = [args.program, "tokenize", args.model]
    frame: list[int] = []
    if args.ids is not None:
        ids = np.load(args.ids).reshape(-1)
    else:
        frame = [int(word) for word in subprocess.check_output(ask, input=b"").split()]
        words = subprocess.check_output([*ask, args.text, "--no-special"]).split()
        ids = np.array(words, np.int64)
    inner = args.tokens - len(frame)
    count = args.windows + args.report
    if len(ids) < count * inner:
        raise SystemExit(f"the text has {len(ids)} tokens, and {count} windows of {args.tokens} are wanted")
    windows = ids[: count * inner].reshape(count, inner)
    first, last = frame[:1], frame[1:]
    rows: NDArray[np.int64] = np.array([[*first, *row, *last] for row in windows], np.int64)
    return rows


def print_methods(plain: Row, rows: list[Row], methods: list[str]) -> None:
    """The model as it is, all heads, and every method, mean over the layers that have it as a whole."""
    print(f"{'method in one layer':24}{'nll':>9}{'change':>9}{'busiest':>9}{'> 0.9':>9}")
    for method in ["none", *methods]:
        there = [row for row in rows if row.method == method and "." not in row.place] or [plain]
        numbers = np.array([[row.nll, row.change, row.receiver, row.saturation] for row in there])
        mark = " leaks" if any(row.leaks for row in there) else ""
        print(f"{method:24}" + "".join(f"{number:9.4f}" for number in numbers.mean(0)) + mark)


def main() -> None:
    parser = model_parser(__doc__)
    parser.add_argument("--windows", type=int, default=2, help="to choose by")
    parser.add_argument("--report", type=int, default=8, help="windows to report")
    parser.add_argument("--tokens", type=int, default=128, help="of a window")
    parser.add_argument("--layers", type=int, nargs="*", help="all")
    parser.add_argument("--heads", type=int, help="how many are swept one by one; all")
    parser.add_argument("--methods", nargs="*", default=SWEEP)
    parser.add_argument("--budgets", type=float, nargs="*", default=[0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    args = parse_model(parser)
    windows = load_windows(args)
    model = Model(args.program, args.model, windows[: args.windows])
    held_out = Model(args.program, args.model, windows[args.windows :])
    layers = list(range(model.layers)) if args.layers is None else args.layers
    nll, change, patterns = model.measure([], list(range(model.layers)), list(range(model.heads)))
    received = receiver(patterns)
    plain = Row("", "softmax", nll, change, float(received.mean()), saturation(patterns), leaks=False)
    del patterns
    busiest = sorted(
        ((received[layer, head], layer, head) for layer in layers for head in range(model.heads)),
        reverse=True,
    )
    places = [str(layer) for layer in layers]
    places += [f"{layer}.{head}" for _, layer, head in busiest[: args.heads]]
    rows = sweep(model, places, args.methods, args.output / "sweep.csv", args.jobs)
    points = frontier(model, rows, received, held_out, args)
    write_figures(model, rows, points, args)
    print(f"{len(rows)} settings at {len(places)} places")
    print_methods(plain, rows, args.methods)
    for point in points:
        line = (
            f"budget {point['budget']:g}: {point['places']} places, nll {point['nll']:.4f}, change "
            f"{point['change']:.4f}, busiest key {point['receiver']:.2f} {point['file']}"
        )
        print(line.rstrip())


if __name__ == "__main__":
    main()
