"""Trains a small vision transformer on images, with any attention method.

vision.py --data digits     1797 images of 8 x 8 from scikit-learn; 360 of them are the test set
vision.py --data fashion    70000 images of 28 x 28, Debian's dataset-fashion-mnist; its own test set

An image, or what a stem of convolutions makes of it, is cut into patches; with a class token they are the
tokens.
"""

from __future__ import annotations

import gzip
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from layers import Block
from loop import Batch, classified, parser, run_all
from torch import Tensor, nn

METHODS = [
    "torch",
    "softmax",
    "entmax:1.5",
    "softmax/exact{rounds=1}",
    "softmax/exact{rounds=2}",
    "softmax/exact{rounds=10}",
    "softmax/exact",
    "softmax/relaxed:1",
    "softmax/capped:2",
    "softmax/elastic:0.5,4",
    "softmax/elastic:0.5,4{anneal=4:0.5:1}",
    "softmax/elastic:0.5,4 learn=strength,temperature",
    "entmax:1.5 learn=alpha",
    "softmax/capped:2 learn=cap",
]


class Images(NamedTuple):
    """Pixels (images, side, side) with mean 0 and variance 1 over the training set, labels (images,)."""

    pixels: Tensor
    labels: Tensor
    test_pixels: Tensor
    test_labels: Tensor


class Sizes(NamedTuple):
    stem: tuple[int, ...]
    """Channels of 3 x 3 convolutions before the patches are cut; each halves the side."""
    patch: int
    shift: int
    """Training images are moved by up to so many pixels each way."""
    noise: float
    """Deviation of the noise on training pixels, in units of theirs."""
    width: int
    depth: int
    heads: int


SIZES = {
    "digits": Sizes((), 2, 0, 0.3, 32, 2, 2),
    # Early convolutions [xiao2021] make minutes on a processor enough; they leave 4 x 4 tokens.
    "fashion": Sizes((16, 32, 48), 1, 0, 0.0, 48, 2, 3),
}


def digits() -> Images:
    from sklearn.datasets import load_digits

    found = load_digits()
    # The same split for every seed.
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    pixels, labels = torch.tensor(found.images)[order], torch.tensor(found.target)[order]
    return scaled(pixels[360:], labels[360:], pixels[:360], labels[:360])


def fashion(folder: Path) -> Images:
    if not folder.is_dir():
        raise SystemExit(f"{folder} is missing; install the package dataset-fashion-mnist or give --path")

    def idx(name: str, header: int) -> Tensor:
        data = gzip.decompress((folder / name).read_bytes())
        return torch.from_numpy(np.frombuffer(data, np.uint8, offset=header).copy())

    parts = []
    for kind in ("train", "t10k"):
        pixels = idx(f"{kind}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
        parts += [pixels, idx(f"{kind}-labels-idx1-ubyte.gz", 8).long()]
    return scaled(*parts)


def scaled(pixels: Tensor, labels: Tensor, test_pixels: Tensor, test_labels: Tensor) -> Images:
    pixels, test_pixels = pixels.float(), test_pixels.float()
    mean, deviation = pixels.mean(), pixels.std()
    return Images((pixels - mean) / deviation, labels, (test_pixels - mean) / deviation, test_labels)


def stem(channels: tuple[int, ...]) -> nn.Sequential:
    """Images (batch, 1, side, side) to maps of half the side, rounded up, for each entry."""
    layers: list[nn.Module] = []
    for before, after in pairwise((1, *channels)):
        layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class Transformer(nn.Module):
    """Pixels (batch, side, side) to logits (batch, 10)."""

    def __init__(self, method: str, sizes: Sizes, side: int) -> None:
        super().__init__()
        self.patch = sizes.patch
        self.stem = stem(sizes.stem)
        for _ in sizes.stem:
            side = (side + 1) // 2
        channels = (1, *sizes.stem)[-1]
        self.embed = nn.Linear(channels * sizes.patch**2, sizes.width)
        self.places = nn.Parameter(0.5 * torch.randn(1 + (side // sizes.patch) ** 2, sizes.width))
        self.blocks = nn.Sequential(*(Block(method, sizes.width, sizes.heads) for _ in range(sizes.depth)))
        self.head = nn.Sequential(nn.LayerNorm(sizes.width), nn.Linear(sizes.width, 10))

    def forward(self, pixels: Tensor) -> Tensor:
        maps = self.stem(pixels[:, None])
        patches = maps.unfold(2, self.patch, self.patch).unfold(3, self.patch, self.patch)
        # (batch, channels, rows, columns, patch, patch) to (batch, tokens, channels of the patch)
        x = self.embed(patches.movedim(1, 3).flatten(3).flatten(1, 2))
        # The class token is a zero patch at a place of its own.
        x = nn.functional.pad(x, (0, 0, 1, 0)) + self.places
        return self.head(self.blocks(x)[:, 0])


class Vision:
    metric = "accuracy"

    def __init__(self, data: str, path: Path) -> None:
        self.name = data
        self.images = digits() if data == "digits" else fashion(path)
        self.sizes = SIZES[data]
        # Training images in a frame of background, from which a batch is cut.
        frame, background = 4 * (self.sizes.shift,), self.images.pixels.min().item()
        self.framed = nn.functional.pad(self.images.pixels, frame, value=background)
        self.facts = {**self.sizes._asdict(), "images": len(self.images.labels)}

    def model(self, method: str) -> nn.Module:
        return Transformer(method, self.sizes, self.images.pixels.shape[-1])

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        chosen = torch.randint(len(self.images.labels), (size,), generator=generator)
        shift, side = self.sizes.shift, self.images.pixels.shape[-1]
        starts = torch.randint(2 * shift + 1, (2, size, 1), generator=generator)
        rows, columns = starts + torch.arange(side)
        pixels = self.framed[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]
        noise = self.sizes.noise * torch.randn(tuple(pixels.shape), generator=generator)
        return pixels + noise, self.images.labels[chosen]

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return classified(outputs, targets)

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        pixels, labels = self.images.test_pixels, self.images.test_labels
        logits = torch.cat([model(part) for part in pixels.split(500)])
        return {
            "accuracy": (logits.argmax(-1) == labels).double().mean().item(),
            "test_loss": nn.functional.cross_entropy(logits, labels).item(),
        }


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 800, 64, 7e-3)
    flags.add_argument("--data", choices=sorted(SIZES), default="digits")
    flags.add_argument("--path", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    options = flags.parse_args(arguments)
    return run_all(Vision(options.data, options.path), options)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
