"""Natural-gradient against plain steps on the scores of softmax attention, with equal steps and equal grids.

A plain step on a row's scores goes along -dL/ds = p (u - E_p u), a natural one along -F^+ dL/ds = u - mean u:
F is the Fisher information of the row's plan p, u = -dL/dp [LIT-28, LIT-29]. Problems:

fit-even     free scores S of rows whose output p V is to be a target; every row starts even
fit-wrong    the same, but 0.99 of each row starts on one key, drawn at random
model        digits with SGD; the gradient that reaches the scores of every layer is kept or turned, and
             multiplied by a share of its own

Both rules run the whole grid on tuning seeds; the best point of each, by the mean logarithm of the last loss,
is then run on other seeds, whose differences are paired. FOLDER/natural/PROBLEM.jsonl has every run.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import otattn
import torch
import torch.nn.functional as F
from otattn import analysis
from probe import split
from torch import Tensor, nn
from vision import Vision

RULES = ("plain", "natural")
# Runs with these seeds choose a rule's rate and share; no run that is reported shares them.
TUNING = 100


class Sizes(NamedTuple):
    seeds: int
    fit_rates: tuple[float, ...]
    fit_steps: int
    fit_tuning: int
    """Seeds on which the rates are chosen."""
    model_rates: tuple[float, ...]
    model_shares: tuple[float, ...]
    model_steps: int
    model_tuning: int


# Both grids were written down before anything was run, but for the two smallest shares: they were added for
# both rules when the best natural point lay at the edge. A natural step is about as many times longer than a
# plain one as there are keys: the grids reach over more than that.
SIZES = Sizes(
    seeds=5,
    fit_rates=tuple(10.0 ** (k / 2) for k in range(-6, 7)),
    fit_steps=200,
    fit_tuning=5,
    model_rates=(0.03, 0.1, 0.3),
    model_shares=(1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0, 4.0),
    model_steps=150,
    model_tuning=1,
)


class Point(NamedTuple):
    rate: float
    share: float
    """What the scores' gradient is multiplied by."""


class Problem(Protocol):
    name: str
    points: list[Point]
    tuning: int
    facts: dict[str, Any]

    def run(self, rule: str, point: Point, seed: int) -> dict[str, Any]:
        """loss, the last; at, curve: the steps and losses on the way."""
        ...


class Fit:
    """Free scores [rows, keys], loss 1/2 |p V - target|^2 by row; other scores reach the target."""

    ROWS, KEYS, WIDTH = 16, 32, 8

    def __init__(self, start: str, sizes: Sizes) -> None:
        self.name, self.start, self.steps = f"fit-{start}", start, sizes.fit_steps
        self.points = [Point(rate, 1.0) for rate in sizes.fit_rates]
        self.tuning = sizes.fit_tuning
        self.facts: dict[str, Any] = {"steps": self.steps, "sizes": [self.ROWS, self.KEYS, self.WIDTH]}

    def run(self, rule: str, point: Point, seed: int) -> dict[str, Any]:
        random = np.random.default_rng(seed)
        V = random.standard_normal((self.KEYS, self.WIDTH))
        target = softmax(2.0 * random.standard_normal((self.ROWS, self.KEYS))) @ V
        S = np.zeros((self.ROWS, self.KEYS))
        if self.start == "wrong":
            S[np.arange(self.ROWS), random.integers(self.KEYS, size=self.ROWS)] = 8.0
        at, curve = [], []
        for step in range(self.steps + 1):
            p = softmax(S)
            error = p @ V - target
            if step % max(1, self.steps // 40) == 0 or step == self.steps:
                at.append(step)
                curve.append(0.5 * float(np.square(error).sum(-1).mean()))
            u = -error @ V.T
            for row in range(self.ROWS):
                if rule == "natural":
                    S[row] += point.rate * analysis.natural_gradient(p[row], u[row])
                else:
                    S[row] -= point.rate * analysis.advantage(p[row], u[row])[1]
        return {"loss": curve[-1], "at": at, "curve": curve}


def softmax(S: Any) -> Any:
    weights = np.exp(S - S.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class Turned(otattn.nn.Attention):
    """Softmax attention whose scores pass on a natural or a plain gradient, times a share."""

    rule, share = "plain", 1.0

    def forward(self, query: Tensor, *rest: Any, **named: Any) -> tuple[Tensor, None]:
        projected = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        q, k, v = (split(x, self.num_heads) for x in projected)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        p = otattn.coupling(scores, method="softmax")
        if scores.requires_grad:
            kept: dict[str, Tensor] = {"p": p.detach()}
            # The gradient of p is complete before that of the scores begins.
            p.register_hook(lambda gradient: kept.update(u=-gradient))
            scores.register_hook(lambda gradient: self.turn(gradient, **kept))
        return self.out_proj((p @ v).transpose(1, 2).flatten(-2)), None

    def turn(self, gradient: Tensor, p: Tensor, u: Tensor) -> Tensor:
        return self.share * (natural_gradient(p, u) if self.rule == "natural" else gradient)


def natural_gradient(p: Tensor, u: Tensor) -> Tensor:
    """F^+ dL/ds of every row at once; `analysis.natural_gradient` gives minus that of one."""
    inside = p > 0.0
    mean = (u * inside).sum(-1, keepdim=True) / inside.sum(-1, keepdim=True)
    return -torch.where(inside, u - mean, 0.0)


class Model:
    """The transformer of vision.py on digits by SGD with momentum 0.9, in batches of 32."""

    name = "model"

    def __init__(self, sizes: Sizes) -> None:
        self.steps, self.tuning = sizes.model_steps, sizes.model_tuning
        self.points = [Point(*pair) for pair in product(sizes.model_rates, sizes.model_shares)]
        self.task = Vision("digits", Path())
        self.facts = {"steps": self.steps, "batch": 32, **self.task.facts}

    def made(self, rule: str, share: float) -> nn.Module:
        model = self.task.model("softmax")
        for block in model.get_submodule("blocks").children():
            before = block.get_submodule("attention")
            assert isinstance(before, otattn.nn.Attention)
            layer = Turned(before.embed_dim, before.num_heads, batch_first=True)
            layer.load_state_dict(before.state_dict())
            layer.rule, layer.share = rule, share
            block.attention = layer
        return model

    def run(self, rule: str, point: Point, seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        model = self.made(rule, point.share)
        optimizer = torch.optim.SGD(model.parameters(), lr=point.rate, momentum=0.9, fused=True)
        at, curve, losses = [], [], []
        for step in range(1, self.steps + 1):
            inputs, targets = self.task.batch(generator, 32)
            loss = nn.functional.cross_entropy(model(inputs), targets)
            if not loss.isfinite():
                break
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step % max(1, self.steps // 15) == 0 or step == self.steps:
                at.append(step)
                curve.append(statistics.fmean(losses))
                losses = []
        found = {"loss": math.nan, "accuracy": math.nan, "at": at, "curve": curve}
        if at and at[-1] == self.steps and all(x.isfinite().all() for x in model.parameters()):
            with torch.no_grad():
                images = self.task.images
                found["loss"] = nn.functional.cross_entropy(model(images.pixels), images.labels).item()
                found["accuracy"] = self.task.evaluate(model, True)["accuracy"]
        return found


def records(folder: Path) -> list[dict[str, Any]]:
    """Every run below the folder together with the configuration of its problem."""
    rows: list[dict[str, Any]] = []
    for path in sorted((folder / "natural").glob("*.jsonl")):
        facts, *runs = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        rows += [{**facts, **run} for run in runs]
    return rows


class Ledger:
    """The runs of a problem that are done, on disk."""

    def __init__(self, folder: Path, problem: Problem) -> None:
        self.path = folder / "natural" / f"{problem.name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.facts = {"problem": problem.name, "tuning": problem.tuning, **problem.facts}
        # As they will be read again.
        self.facts = json.loads(json.dumps(self.facts))
        self.runs: list[dict[str, Any]] = []
        if self.path.exists():
            facts, *self.runs = map(json.loads, self.path.read_text(encoding="utf-8").splitlines())
            if facts != self.facts:
                raise SystemExit(f"{self.path} has {facts}, wanted {self.facts}; choose another --folder")

    def find(self, rule: str, point: Point, seed: int) -> dict[str, Any] | None:
        key = {"rule": rule, **point._asdict(), "seed": seed}
        return next((run for run in self.runs if key.items() <= run.items()), None)

    def add(self, rule: str, point: Point, seed: int, found: dict[str, Any]) -> None:
        finite = {name: None if found[name] != found[name] else found[name] for name in found}
        self.runs.append({"rule": rule, **point._asdict(), "seed": seed, **finite})
        partial = self.path.with_suffix(".partial")
        partial.write_text(
            "".join(json.dumps(row) + "\n" for row in [self.facts, *self.runs]), encoding="utf-8"
        )
        partial.replace(self.path)

    def losses(self, rule: str, point: Point, seeds: range) -> list[float]:
        """Logarithms to base 10; infinite where a run overflowed."""
        found = [self.find(rule, point, seed) for seed in seeds]
        losses = [math.inf if run is None or run["loss"] is None else run["loss"] for run in found]
        # Below the rounding of f64 all is one.
        return [math.log10(max(loss, 1e-32)) for loss in losses]

    def best(self, rule: str, points: list[Point], seeds: range) -> Point:
        return min(points, key=lambda point: statistics.fmean(self.losses(rule, point, seeds)))


def run(sizes: Sizes, folder: Path, deadline: float) -> bool:
    """Every problem, or False when the deadline came first."""
    for problem in (Fit("even", sizes), Fit("wrong", sizes), Model(sizes)):
        ledger = Ledger(folder, problem)
        tuning = range(TUNING, TUNING + problem.tuning)
        wanted = list(product(RULES, problem.points, tuning))
        if not finish(problem, ledger, wanted, deadline):
            return False
        best = {rule: ledger.best(rule, problem.points, tuning) for rule in RULES}
        seeds = range(sizes.seeds)
        if not finish(
            problem, ledger, [(rule, best[rule], seed) for rule in RULES for seed in seeds], deadline
        ):
            return False
        print(grid(problem, ledger, tuning), end="\n\n")
        print(judged(problem, ledger, best, seeds), end="\n\n")
    return True


def finish(problem: Problem, ledger: Ledger, wanted: list[tuple[str, Point, int]], deadline: float) -> bool:
    for rule, point, seed in wanted:
        if ledger.find(rule, point, seed) is not None:
            continue
        if time.monotonic() > deadline:
            print("the budget is spent; the same command goes on from here")
            return False
        ledger.add(rule, point, seed, problem.run(rule, point, seed))
    print(f"natural {problem.name}: {len(wanted)} runs are done", flush=True)
    return True


def shown(logarithm: float) -> str:
    return "overflow" if math.isinf(logarithm) else f"{10.0**logarithm:.3g}"


def grid(problem: Problem, ledger: Ledger, tuning: range) -> str:
    """The geometric mean of the last loss over the tuning seeds at every point."""
    lines = [f"| `{problem.name}`: rate | share | " + " | ".join(RULES) + " |", "|---|---|---|---|"]
    for point in problem.points:
        cells = [shown(statistics.fmean(ledger.losses(rule, point, tuning))) for rule in RULES]
        lines.append(f"| {point.rate:.3g} | {point.share:.3g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def judged(problem: Problem, ledger: Ledger, best: dict[str, Point], seeds: range) -> str:
    """The best points on seeds of their own, and the paired ratio of natural to plain losses."""
    lines = ["| problem | rule | rate | share | last loss | test accuracy |", "|---|---|---|---|---|---|"]
    for rule in RULES:
        point = best[rule]
        logarithms = ledger.losses(rule, point, seeds)
        accuracies = [(ledger.find(rule, point, seed) or {}).get("accuracy") for seed in seeds]
        known = [x for x in accuracies if x is not None]
        mean = f"{statistics.fmean(known):.3f}" if known else ""
        lines.append(
            f"| `{problem.name}` | {rule} | {point.rate:.3g} | {point.share:.3g} | "
            f"{shown(statistics.fmean(logarithms))} | {mean} |"
        )
    pairs = zip(*(ledger.losses(rule, best[rule], seeds) for rule in RULES), strict=True)
    return "\n".join([*lines, "", f"`{problem.name}`: {ratio([b - a for a, b in pairs])}"])


def ratio(differences: list[float]) -> str:
    """The mean ratio whose logarithms are given, with Student's interval of 95 %."""
    from scipy.stats import t

    lower = sum(x < 0.0 for x in differences)
    text = f"natural below plain at {lower} of {len(differences)} seeds"
    if len(differences) < 2 or not all(map(math.isfinite, differences)):
        return text
    mean = statistics.fmean(differences)
    half = t.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / math.sqrt(len(differences))
    low, middle, high = (10.0**x for x in (mean - half, mean, mean + half))
    return f"loss of natural over that of plain steps {middle:.3g} (95 %: {low:.3g} to {high:.3g}), {text}"
