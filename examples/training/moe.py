"""Trains a causal model of bytes whose maps are mixtures of experts, with several ways to balance loads.

Methods: topk (nothing balances), aux:W (top-k and the auxiliary loss of Switch Transformers with weight W),
bias:B (top-k with biases that move by B a step), and those of otattn.moe.route: sinkhorn, base, quantile,
each started from the potentials of the step before. --tune first runs a grid of W and of B on seed 0 alone
and goes on with one of each: that of the fewest bits among those whose judged load is at most --load, or of
the least load where none is. A trained model routes by top-k with its last potentials, which needs no other
token. load is the largest load over the mean, averaged over the training steps since the
last judgement and the layers; judged_load the same on the judged text.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from language import Language, add_text
from layers import Block
from loop import parser, place, run_all
from otattn.moe import route
from torch import Tensor, nn

# Those that take a number, with their grids; the number between is the one without --tune.
GRIDS = {"aux": (0.003, 0.01, 0.03), "bias": (0.007, 0.02, 0.06)}
METHODS = ["topk", "aux", "bias", "sinkhorn", "quantile", "base"]


def parsed(spelling: str) -> tuple[str, float]:
    """Name and number of a method; 0 where it takes none."""
    name, _, number = spelling.partition(":")
    if name not in METHODS or (number and name not in GRIDS):
        raise SystemExit(f"method is {spelling!r}, wanted one of {', '.join(METHODS)}, aux:W or bias:B")
    try:
        return name, float(number) if number else GRIDS.get(name, (0.0, 0.0))[1]
    except ValueError:
        raise SystemExit(f"method is {spelling!r}, wanted a number behind the colon") from None


class Experts(nn.Module):
    """Tokens (..., width) to the weighted sum of the maps of their k experts."""

    potentials: Tensor
    worst: Tensor
    steps: Tensor

    def __init__(self, method: str, width: int, hidden: int, experts: int, k: int) -> None:
        super().__init__()
        (self.method, self.number), self.k = parsed(method), k
        self.router = nn.Linear(width, experts, bias=False)
        self.first = nn.Parameter(torch.randn(experts, width, hidden) / width**0.5)
        self.second = nn.Parameter(torch.randn(experts, hidden, width) / hidden**0.5)
        # Buffers, so that a stopped run goes on with the same numbers.
        self.register_buffer("potentials", torch.zeros(experts, dtype=torch.float64))
        self.register_buffer("worst", torch.zeros((), dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.float64))
        self.auxiliary: Tensor | float = 0.0
        self.logits: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        logits = self.router(tokens)
        balanced = self.training and self.method in ("sinkhorn", "quantile", "base")
        found = route(
            logits,
            self.k,
            method=self.method if balanced else "topk",
            potentials=self.potentials,
            certificate=False,
        )
        share = found.load.double() / found.load.double().mean()
        self.worst += share.max()
        self.steps += 1
        self.logits = logits.detach()
        self.auxiliary = 0.0
        if self.training and self.method == "aux":
            self.auxiliary = self.number * (share.float() * logits.softmax(-1).mean(0)).sum()
        if self.training and self.method == "bias":
            self.potentials += self.number * torch.sign(1.0 - share)
        if balanced:
            self.potentials.copy_(found.potentials)
        # Weights that sum to 1 over the chosen experts, from logits without biases.
        weights = logits.gather(1, found.experts).softmax(-1) if self.k > 1 else found.weights
        order = found.experts.flatten().argsort(stable=True)
        places = order // self.k
        parts = tokens[places].split(found.load.tolist())
        maps = [
            nn.functional.gelu(part @ first) @ second
            for part, first, second in zip(parts, self.first, self.second, strict=True)
        ]
        out = torch.zeros_like(tokens).index_add(0, places, torch.cat(maps) * weights.flatten()[order, None])
        return out.view_as(x)

    def worst_load(self) -> float:
        """Largest load over the mean, on average since the last call."""
        found = (self.worst / self.steps).item()
        self.worst.zero_()
        self.steps.zero_()
        return found


def mixtures(model: nn.Module) -> list[Experts]:
    return [layer for layer in model.modules() if isinstance(layer, Experts)]


class Mixture(Language):
    """The task of language.py, with experts in the place of the maps."""

    other_metrics = ("load", "judged_load")

    def __init__(
        self,
        path: Path,
        context: int,
        sizes: dict[str, Any],
        judged: int,
        shape: dict[str, int],
        folder: Path,
    ) -> None:
        super().__init__(path, context, sizes, judged)
        self.name = f"moe-{shape['experts']}-{shape['k']}"
        self.shape, self.folder = shape, folder
        self.facts |= shape
        self.latest: nn.Module | None = None
        self.runs: dict[str, int] = {}

    def model(self, method: str) -> nn.Module:
        model = super().model("softmax")
        for block in model.modules():
            if isinstance(block, Block):
                block.map = Experts(method, self.sizes["width"], **self.shape)
        self.latest, self.method = model, method
        self.seed = self.runs[method] = self.runs.get(method, -1) + 1
        return model

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        assert self.latest is not None
        loss = super().loss(outputs, targets)
        return loss + sum(layer.auxiliary for layer in mixtures(self.latest))

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        layers = mixtures(model)
        trained = [layer.worst_load() for layer in layers]
        found = super().evaluate(model, last)
        judged = [layer.worst_load() for layer in layers]
        if last:
            tokens = self.rest[: 4096 // self.context * self.context].view(-1, self.context)
            model(tokens)
            for layer in layers:
                layer.worst_load()
            saved = [layer.logits.cpu().numpy() for layer in layers if layer.logits is not None]
            spelling = self.method.replace(":", "-")
            np.save(self.folder / f"{self.name}-{spelling}-{self.seed}.npy", np.stack(saved))
        return {
            "bits": found["bits"],
            "judged_bytes": found["judged_bytes"],
            "load": sum(trained) / len(trained),
            "judged_load": sum(judged) / len(judged),
        }


def tuned(task: Mixture, options: argparse.Namespace) -> bool:
    """Runs the grids on seed 0, prints them and takes the best of each. False: no time left."""
    grid = {name: [f"{name}:{x:g}" for x in numbers] for name, numbers in GRIDS.items()}
    first = argparse.Namespace(**vars(options) | {"seeds": 1})
    first.method = [method for name in options.method if name in grid for method in grid[name]]
    if not run_all(task, first):
        return False
    # Their seeds are counted anew.
    task.runs.clear()
    for at, name in enumerate(options.method):
        if name not in grid:
            continue
        files = [place(options.folder, task.name, method) / "0.jsonl" for method in grid[name]]
        last = [json.loads(file.read_text(encoding="utf-8").splitlines()[-1]) for file in files]
        print(f"{name}, seed 0, wanted a judged load of at most {options.load:g}")
        for method, row in zip(grid[name], last, strict=True):
            print(f"  {method:<12} {row['bits']:.3f} bits, judged load {row['judged_load']:.2f}")
        within = [k for k, row in enumerate(last) if row["judged_load"] <= options.load]
        best = min(within, key=lambda k: last[k]["bits"]) if within else None
        if best is None:
            best = min(range(len(last)), key=lambda k: last[k]["judged_load"])
        options.method[at] = grid[name][best]
    return True


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 100, 16, 4e-3)
    add_text(flags)
    flags.add_argument("--context", type=int, default=128)
    flags.add_argument("--width", type=int, default=64)
    flags.add_argument("--depth", type=int, default=2)
    flags.add_argument("--heads", type=int, default=2)
    flags.add_argument("--experts", type=int, default=64)
    flags.add_argument("--hidden", type=int, default=32, help="width of an expert")
    flags.add_argument("--k", type=int, default=2, help="experts a token")
    flags.add_argument("--judged", type=int, default=10000)
    flags.add_argument("--tune", action="store_true", help="choose the numbers of aux and bias on seed 0")
    flags.add_argument("--load", type=float, default=2.0, help="judged load that --tune looks for")
    options = flags.parse_args(arguments)
    # A copy: the default is METHODS itself, which --tune must not change.
    options.method = list(options.method)
    for method in options.method:
        parsed(method)
    sizes = {"width": options.width, "depth": options.depth, "heads": options.heads, "dropout": 0.0}
    sizes |= {"strings": 1, "rows": 1, "string_dropout": 0.0}
    shape = {"hidden": options.hidden, "experts": options.experts, "k": options.k}
    options.folder.mkdir(parents=True, exist_ok=True)
    task = Mixture(options.text, options.context, sizes, options.judged, shape, options.folder)
    return (not options.tune or tuned(task, options)) and run_all(task, options)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
