"""Trains a set transformer to tell clouds of points on solids apart, with any attention method.

Eight surfaces, stretched along their axes, turned about the vertical one and disturbed by noise; a cloud is
a set of points of shape (points, 3) with mean 0 and mean square radius 1. Training clouds are drawn anew
for every step, the test clouds are the same for every seed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from layers import Block
from loop import Batch, classified, parser, run_all
from torch import Tensor, nn

METHODS = [
    "torch",
    "softmax",
    "softmax/exact{rounds=1}",
    "softmax/exact{rounds=2}",
    "softmax/exact{rounds=10}",
    "softmax/elastic:0.5,4",
    "softmax/elastic:0.5,4{anneal=4:0.5:1}",
    "softmax/elastic:0.5,4 learn=strength,temperature",
    "entmax:1.5 learn=alpha",
    "softmax/capped:2 learn=cap",
]

POOLS = 4

# ---- surfaces: (clouds, points) and a generator to (clouds, points, 3) ---------------------------------


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator)


def ball(power: float) -> Callable[[tuple[int, int], torch.Generator], Tensor]:
    """|x|^power + |y|^power + |z|^power = 1: 1 an octahedron, 2 a sphere, infinity a cube."""

    def draw(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
        x = torch.randn((*shape, 3), generator=generator)
        return x / torch.linalg.vector_norm(x, power, dim=-1, keepdim=True)

    return draw


def turned(radius: Tensor, height: Tensor, generator: torch.Generator) -> Tensor:
    """The profile (radius, height) at random angles about the third axis."""
    angle = 2.0 * math.pi * uniform(tuple(radius.shape), generator)
    return torch.stack((radius * angle.cos(), radius * angle.sin(), height), -1)


def cylinder(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Radius 1, height 2; a third of the points lie on the two ends, as a third of the area does."""
    u, end = uniform(shape, generator), uniform(shape, generator)
    height = torch.where(end < 1 / 3, torch.where(end < 1 / 6, -1.0, 1.0), 2.0 * u - 1.0)
    return turned(torch.where(end < 1 / 3, u.sqrt(), 1.0), height, generator)


def cone(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Radius 1, height 2; side and base in the ratio of their areas, sqrt(5) to 1."""
    radius, part = uniform(shape, generator).sqrt(), uniform(shape, generator)
    on_base = part < 1.0 / (1.0 + math.sqrt(5.0))
    return turned(radius, torch.where(on_base, -1.0, 1.0 - 2.0 * radius), generator)


def torus(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Radii 1 and 0.4, uniform in both angles."""
    angle = 2.0 * math.pi * uniform(shape, generator)
    return turned(1.0 + 0.4 * angle.cos(), 0.4 * angle.sin(), generator)


def tetrahedron(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """A face is three of the four corners; weights uniform on the triangle."""
    corners = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    weights = -uniform((*shape, 4), generator).clamp_min(1e-12).log()
    missing = torch.randint(4, (*shape, 1), generator=generator)
    weights = weights.scatter(-1, missing, 0.0)
    return (weights / weights.sum(-1, keepdim=True)) @ corners


def coil(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Two turns of a tube of radius 0.3 about a helix of radius 1, uniform in both angles."""
    along = 4.0 * math.pi * uniform(shape, generator)
    around = 2.0 * math.pi * uniform(shape, generator)
    radius = 1.0 + 0.3 * around.cos()
    height = along / (2.0 * math.pi) - 1.0 + 0.3 * around.sin()
    return torch.stack((radius * along.cos(), radius * along.sin(), height), -1)


SOLIDS = [ball(1.0), ball(2.0), ball(math.inf), cylinder, cone, torus, tetrahedron, coil]


def draw(per_solid: int, points: int, noise: float, generator: torch.Generator) -> Batch:
    """per_solid clouds of each solid: points (clouds, points, 3) and numbers of the solids (clouds,)."""
    x = torch.cat([solid((per_solid, points), generator) for solid in SOLIDS])
    clouds = x.shape[0]
    x = x * (0.7 + 0.6 * uniform((clouds, 1, 3), generator))
    angle = 2.0 * math.pi * uniform((clouds,), generator)
    c, s, zero = angle.cos(), angle.sin(), torch.zeros(clouds)
    turn = torch.stack((c, s, zero, -s, c, zero, zero, zero, zero + 1.0), -1).unflatten(-1, (3, 3))
    x = x @ turn + noise * torch.randn(tuple(x.shape), generator=generator)
    x = x - x.mean(1, keepdim=True)
    x = x / x.square().sum(-1).mean(1).sqrt()[:, None, None]
    return x, torch.arange(len(SOLIDS)).repeat_interleave(per_solid)


class SetTransformer(nn.Module):
    """Clouds (batch, points, 3) to logits (batch, classes), whatever the order of the points."""

    def __init__(self, method: str, width: int, depth: int, heads: int, classes: int = len(SOLIDS)) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.blocks = nn.Sequential(*(Block(method, width, heads) for _ in range(depth)))
        self.norm, self.score = nn.LayerNorm(width), nn.Linear(width, POOLS)
        self.head = nn.Linear(POOLS * width, classes)

    def forward(self, points: Tensor) -> Tensor:
        # Steeper first features: a solid's shape lies in differences much smaller than the solid.
        x = self.norm(self.blocks(self.embed(3.0 * points)))
        # Pooling by a few queries stays softmax: with one query, exact columns would make it a mean.
        return self.head((self.score(x).softmax(1).transpose(1, 2) @ x).flatten(1))


class Clouds:
    name, metric = "clouds", "accuracy"

    def __init__(self, points: int, noise: float, test: int) -> None:
        self.points, self.noise = points, noise
        self.sizes = {"width": 32, "depth": 2, "heads": 2}
        self.facts: dict[str, Any] = {**self.sizes, "points": points, "noise": noise, "test": test}
        self.test = draw(test, points, noise, torch.Generator().manual_seed(10**6))

    def model(self, method: str) -> nn.Module:
        return SetTransformer(method, **self.sizes)

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        return draw(max(1, size // len(SOLIDS)), self.points, self.noise, generator)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return classified(outputs, targets)

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        inputs, labels = self.test
        logits = torch.cat([model(part) for part in inputs.split(200)])
        return {
            "accuracy": (logits.argmax(-1) == labels).double().mean().item(),
            "test_loss": nn.functional.cross_entropy(logits, labels).item(),
        }


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 1500, 32, 5e-3)
    flags.add_argument("--points", type=int, default=128)
    flags.add_argument("--noise", type=float, default=0.05)
    flags.add_argument("--test", type=int, default=100, help="test clouds of each solid")
    options = flags.parse_args(arguments)
    return run_all(Clouds(options.points, options.noise, options.test), options)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
