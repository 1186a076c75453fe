"""Trains the set transformer of clouds.py on ModelNet40's meshes, with any attention method.

    modelnet.py ModelNet40          the unpacked https://modelnet.cs.princeton.edu/ModelNet40.zip

The folder holds CLASS/train/NAME.off and CLASS/test/NAME.off. From every mesh --pool points are drawn once,
uniformly by area, and kept in FOLDER.npz beside it; a training cloud is --points of them, turned about the
vertical axis, a test cloud the first --points as they stand. Clouds have mean 0 and mean square radius 1.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from clouds import METHODS, SetTransformer
from loop import Batch, classified, parser, run_all
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float64]


def read_mesh(path: Path) -> tuple[Array, NDArray[np.int64]]:
    """Corners (count, 3) and triangles (count, 3) of an OFF file; the counts may follow OFF on its line."""
    words = path.read_text().removeprefix("OFF").split()
    corners, faces = int(words[0]), int(words[1])
    found = np.array(words[3 : 3 + 3 * corners], float).reshape(corners, 3)
    rows = np.array(words[3 + 3 * corners : 3 + 3 * corners + 4 * faces], np.int64)
    if len(rows) != 4 * faces or faces == 0 or (rows[::4] != 3).any():
        raise SystemExit(f"{path} has faces that are no triangles, or none; ModelNet's meshes have triangles")
    return found, rows.reshape(faces, 4)[:, 1:]


def points_of(path: Path, count: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Points (count, 3) on a mesh, uniform by area."""
    corners, faces = read_mesh(path)
    a, b, c = corners[faces].swapaxes(0, 1)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    if not areas.sum() > 0:
        raise SystemExit(f"{path} has no area")
    chosen = generator.choice(len(faces), size=count, p=areas / areas.sum())
    root, part = np.sqrt(generator.random((count, 1))), generator.random((count, 1))
    points = (1 - root) * a[chosen] + root * (1 - part) * b[chosen] + root * part * c[chosen]
    return points.astype(np.float32)


def draw_pools(folder: Path, pool: int) -> dict[str, Any]:
    """Points (meshes, pool, 3) and labels of both parts, and the names of the classes."""
    names = sorted(path.name for path in folder.iterdir() if (path / "train").is_dir())
    if not names:
        raise SystemExit(f"{folder} holds no CLASS/train folder")
    generator = np.random.default_rng(0)
    found: dict[str, Any] = {"names": np.array(names)}
    for part in ("train", "test"):
        meshes = [
            (k, path) for k, name in enumerate(names) for path in sorted((folder / name / part).glob("*.off"))
        ]
        found[part] = np.stack([points_of(path, pool, generator) for _, path in meshes])
        found[f"{part}_labels"] = np.array([k for k, _ in meshes])
        print(f"{len(meshes)} meshes to {part} with, of {len(names)} classes")
    return found


def normalised(points: Tensor) -> Tensor:
    points = points - points.mean(1, keepdim=True)
    return points / points.square().sum(-1).mean(1).sqrt()[:, None, None]


class Meshes:
    name, metric = "modelnet", "accuracy"

    def __init__(self, folder: Path, pool: int, points: int) -> None:
        if points > pool:
            raise SystemExit(f"--points is {points}, and a mesh has a --pool of {pool}")
        kept = folder.with_name(folder.name + ".npz")
        if not kept.exists():
            np.savez(kept, pool=pool, **draw_pools(folder, pool))
        with np.load(kept) as file:
            found = {name: torch.from_numpy(file[name]) for name in file.files if name != "names"}
            self.classes = len(file["names"])
        if int(found["pool"]) != pool:
            raise SystemExit(f"{kept} has {int(found['pool'])} points a mesh, wanted {pool}; remove it")
        self.points, self.train, self.labels = points, found["train"], found["train_labels"]
        self.test = normalised(found["test"][:, :points]), found["test_labels"]
        self.sizes = {"width": 64, "depth": 2, "heads": 4}
        self.facts: dict[str, Any] = {
            **self.sizes,
            "points": points,
            "pool": pool,
            "meshes": len(self.labels),
        }

    def model(self, method: str) -> nn.Module:
        return SetTransformer(method, **self.sizes, classes=self.classes)

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        chosen = torch.randint(len(self.labels), (size,), generator=generator)
        # The same places of all pools: their points are independent.
        places = torch.randperm(self.train.shape[1], generator=generator)[: self.points]
        angle = 2.0 * math.pi * torch.rand((size,), generator=generator)
        c, s, zero = angle.cos(), angle.sin(), torch.zeros(size)
        turn = torch.stack((c, s, zero, -s, c, zero, zero, zero, zero + 1.0), -1).unflatten(-1, (3, 3))
        return normalised(self.train[chosen][:, places]) @ turn, self.labels[chosen]

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return classified(outputs, targets)

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        inputs, labels = self.test
        logits = torch.cat([model(part) for part in inputs.split(50)])
        return {
            "accuracy": (logits.argmax(-1) == labels).double().mean().item(),
            "test_loss": nn.functional.cross_entropy(logits, labels).item(),
        }


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 10000, 32, 2e-3)
    flags.add_argument("data", type=Path, help="the unpacked ModelNet40")
    flags.add_argument("--pool", type=int, default=2048, help="points kept of each mesh")
    flags.add_argument("--points", type=int, default=512, help="points of a cloud")
    options = flags.parse_args(arguments)
    return run_all(Meshes(options.data, options.pool, options.points), options)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
