"""Learning dynamics on digits: what gradients do to scores, layer by layer, and which steps follow them.

dynamics.py --part traces    advantage, score gradient, Fisher norm and entropy of every layer while softmax,
                             entmax:1.5, softmax/exact and `barrier`, the regulariser of barrier.py, train
dynamics.py --part natural   natural-gradient against plain steps on scores, with equal budgets
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import barrier
import natural
import otattn
import torch
from loop import parser, run_all
from probe import measures, watch
from torch import Tensor, nn
from vision import Vision

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
        self.name = "dynamics"
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


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 800, 64, 7e-3)
    flags.set_defaults(evaluations=40)
    flags.add_argument("--part", nargs="+", choices=["traces", "natural"], default=["traces", "natural"])
    flags.add_argument("--probe", type=int, default=64, help="training images of the traces")
    options = flags.parse_args(arguments)
    start = time.monotonic()
    if "traces" in options.part and not run_all(Dynamics(options.probe), options):
        return False
    if "natural" not in options.part:
        return True
    torch.set_num_threads(options.threads)
    otattn.set_num_threads(options.threads)
    return natural.run(natural.SIZES, options.folder, start + 60.0 * options.budget)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
