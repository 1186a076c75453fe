"""Trains flows from noise to images of digits, with pairs drawn from transport plans or at random.

A velocity v(x, t) is fitted to x1 - x0 at x = (1 - t) x0 + t x1 [lipman2023]. Methods say which noise
x0 is paired with which image x1 of a minibatch: random, or the exact or sinkhorn plan of
otattn.ot.PlanSampler [tong2024]. Euler's method moves as many samples of noise as there are test
images; reported are the Wasserstein distances W2 to the test set after so many steps (`w2_4`: four),
`w2_train`, that of as many training images, and `bend`, how far velocities turn on the way:
||v(x_t, t) - (x_1 - x_0)||^2 / ||x_1 - x_0||^2 on average.
"""

from __future__ import annotations

import sys
from typing import Any

import otattn
import torch
from loop import Batch, parser, run_all
from torch import Tensor, nn
from vision import digits

METHODS = ["random", "exact", "sinkhorn"]
STEPS = (1, 2, 4, 8, 16, 64)


class Velocity(nn.Module):
    """Points and times (batch, pixels + 1) to velocities (batch, pixels)."""

    def __init__(self, pixels: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(pixels + 1, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, pixels),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


def distance(found: Tensor, wanted: Tensor) -> float:
    """W2 of two sets of equally many points: the cheapest matching's root mean square distance."""
    costs = torch.cdist(found.double(), wanted.double()) ** 2
    rows, columns = otattn.linear_sum_assignment(costs)
    return float(costs[rows, columns].mean().sqrt())


def path(model: nn.Module, x: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Where Euler's method comes in so many steps, and the velocities on the way (steps, batch, pixels)."""
    velocities = []
    for k in range(steps):
        times = torch.full((len(x), 1), k / steps)
        velocities.append(model(torch.cat((x, times), 1)))
        x = x + velocities[-1] / steps
    return x, torch.stack(velocities)


class Flow:
    name = "flow"
    metric = "w2_4"

    def __init__(self, width: int, reg: float) -> None:
        images = digits()
        self.train, self.test = images.pixels.flatten(1), images.test_pixels.flatten(1)
        self.noise = torch.randn(self.test.shape, generator=torch.Generator().manual_seed(10**6))
        self.width, self.reg = width, reg
        self.facts: dict[str, Any] = {"width": width, "reg": reg, "images": len(self.train)}

    def model(self, method: str) -> nn.Module:
        if method not in METHODS:
            raise SystemExit(f"method is {method!r}, wanted one of {', '.join(METHODS)}")
        self.method = method
        return Velocity(self.train.shape[1], self.width)

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        x1 = self.train[torch.randint(len(self.train), (size,), generator=generator)]
        x0 = torch.randn(x1.shape, generator=generator)
        if self.method != "random":
            sampler = otattn.ot.PlanSampler(self.method, self.reg, generator=generator)
            x0, x1 = sampler.sample_plan(x0, x1)
        t = torch.rand((size, 1), generator=generator)
        return torch.cat(((1 - t) * x0 + t * x1, t), 1), x1 - x0

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.mse_loss(outputs, targets)

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        found = {}
        for steps in STEPS:
            made, velocities = path(model, self.noise, steps)
            found[f"w2_{steps}"] = distance(made, self.test)
        way = made - self.noise
        turns = ((velocities - way) ** 2).sum(-1).mean(0)
        found["bend"] = float((turns / (way**2).sum(-1)).mean())
        found["w2_train"] = distance(self.train[: len(self.test)], self.test)
        return found


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 3000, 128, 2e-3)
    flags.add_argument("--width", type=int, default=256)
    flags.add_argument("--reg", type=float, default=4.0, help="of sinkhorn, in squared distances")
    options = flags.parse_args(arguments)
    return run_all(Flow(options.width, options.reg), options)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
