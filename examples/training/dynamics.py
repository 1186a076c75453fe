"""Learning dynamics on digits: what gradients do to scores, layer by layer, and which steps follow them.

dynamics.py --part traces    advantage, score gradient, Fisher norm and entropy of every layer while softmax,
                             entmax:1.5, softmax/exact and `barrier`, the regulariser of barrier.py, train
dynamics.py --part natural   natural-gradient against plain steps on scores, with equal budgets
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import barrier
import natural
import otattn
import torch
from loop import parser, read, run_all
from probe import measures, watch
from torch import Tensor, nn
from vision import Vision

TASK = "dynamics"
METHODS = ["softmax", "entmax:1.5", "softmax/exact", "barrier"]
# 1 / Omega'' of the methods with free columns.
STIFFNESS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda p: p,
    "entmax:1.5": torch.sqrt,
    "barrier": barrier.stiffness,
}


@functools.cache
def own() -> otattn.Regulariser:
    return barrier.compiled()


class Dynamics(Vision):
    """Digits as in vision.py; each evaluation adds the traces of every layer on the same training images."""

    def __init__(self, images: int) -> None:
        super().__init__("digits", Path())
        self.name = TASK
        self.facts = {**self.facts, "probe": images, "mu": barrier.MU}
        self.probe = self.images.pixels[:images], self.images.labels[:images]

    def model(self, method: str) -> nn.Module:
        if method not in METHODS:
            raise SystemExit(f"--method is {method!r}, wanted some of {', '.join(METHODS)}")
        if method != "barrier":
            return super().model(method)
        made = super().model("softmax")
        for layer in made.modules():
            if isinstance(layer, otattn.nn.Attention):
                layer.method = own()
        return made

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        found = super().evaluate(model, last)
        pixels, labels = self.probe

        def loss() -> Tensor:
            return nn.functional.cross_entropy(model(pixels), labels, reduction="sum")

        method = next(layer.method for layer in model.modules() if isinstance(layer, otattn.nn.Attention))
        method = "barrier" if isinstance(method, otattn.Regulariser) else method
        for depth, seen in enumerate(watch(model, loss, len(labels)), 1):
            trace = measures(seen, method, STIFFNESS.get(method))
            found |= {f"{name}_{depth}": value for name, value in trace.items()}
        return found


def traces(folder: Path) -> str:
    """Two Markdown tables of the runs that are done: traces at the first and last step, and their checks."""
    runs: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in read(folder):
        if row["task"] == TASK and "step" in row and "failed" not in row:
            runs[row["method"]][row["seed"]].append(row)
    names = ("advantage", "gradient", "fisher", "entropy", "weights")
    checks = ("printed", "identity", "library")
    values = ["| method | layer | seeds | " + " | ".join(names) + " |", "|---" * (3 + len(names)) + "|"]
    errors = ["| method | layer | seeds | " + " | ".join(checks) + " |", "|---" * (3 + len(checks)) + "|"]
    for method in (name for name in METHODS if name in runs):
        whole = [rows for rows in runs[method].values() if rows[-1]["step"] == rows[-1]["steps"]]
        for depth in (1, 2) if whole else ():
            start = f"| `{method}` | {depth} | {len(whole)} | "
            cells = []
            for name in names:
                first, last = (
                    statistics.median(rows[k][f"{name}_{depth}"] for rows in whole) for k in (0, -1)
                )
                cells.append(f"{first:.2g} to {last:.2g}")
            values.append(start + " | ".join(cells) + " |")
            most = (
                [row[f"{name}_{depth}"] for rows in whole for row in rows if f"{name}_{depth}" in row]
                for name in checks
            )
            errors.append(start + " | ".join(f"{max(found):.1e}" if found else "" for found in most) + " |")
    return "\n".join([*values, "", *errors])


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 800, 64, 7e-3)
    flags.set_defaults(evaluations=40)
    flags.add_argument("--part", nargs="+", choices=["traces", "natural"], default=["traces", "natural"])
    flags.add_argument("--probe", type=int, default=64, help="training images of the traces")
    options = flags.parse_args(arguments)
    start = time.monotonic()
    if "traces" in options.part:
        if not run_all(Dynamics(options.probe), options):
            return False
        print("\n" + traces(options.folder), end="\n\n")
    if "natural" not in options.part:
        return True
    torch.set_num_threads(options.threads)
    otattn.set_num_threads(options.threads)
    return natural.run(natural.SIZES, options.folder, start + 60.0 * options.budget)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
