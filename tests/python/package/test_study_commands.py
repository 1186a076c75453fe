"""The commands of docs/research/study.md for ViT and ModelNet40, which were not run on the trained model and
the data themselves: the blocks as they are printed, on random weights and meshes of the same shapes."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import transformers
from commands import commands_of

TOKENS = 197


def run_commands(root: Path, folder: Path, name: str, *more: str) -> None:
    """The block's lines in the folder, with the repository's programs and this interpreter."""
    for link in ("scripts", "examples"):
        (folder / link).symlink_to(root / link)
    binaries = folder / "bin"
    binaries.mkdir()
    (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (binaries / "python").chmod(0o755)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PATH": f"{binaries}:{os.environ['PATH']}"}
    for line in commands_of(root, name):
        done = subprocess.run(
            ["bash", "-c", " ".join([line, *more])],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (line, done.stderr)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# ---- ViT ----


@pytest.fixture
def vit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Tensor, np.ndarray]:
    """Random weights of ViT-B/16's shapes, two of its layers, in a hub cache; the logits of transformers'
    own attention on two images, and its receiver masses."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(num_hidden_layers=2, num_labels=1000, initializer_range=0.1)
    model = transformers.ViTForImageClassification(config).eval()
    model.set_attn_implementation("eager")
    cache = tmp_path / "hub" / "models--google--vit-base-patch16-224"
    model.save_pretrained(cache / "snapshots" / "0")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    pixels = torch.randn(2, 3, 224, 224)
    np.save(tmp_path / "pixels.npy", pixels.numpy())
    with torch.no_grad():
        found = model(pixels, output_attentions=True)
    np.save(tmp_path / "labels.npy", found.logits.argmax(-1).numpy())
    return found.logits, torch.stack(found.attentions, 1).sum(-2).numpy()


def test_vit(root: Path, tmp_path: Path, vit: tuple[torch.Tensor, np.ndarray]) -> None:
    _, mass = vit
    run_commands(root, tmp_path, "vit")
    rows = {row["method"]: row for row in rows_of(tmp_path / "vit" / "methods.csv")}
    assert len(rows) == 6 and float(rows["softmax"]["agreement"]) == 1 and float(rows["softmax"]["kl"]) == 0
    # The labels are what transformers' own attention predicts.
    assert float(rows["softmax"]["accuracy"]) == 1
    assert all(float(row["kl"]) > 1e-6 for method, row in rows.items() if method != "softmax")
    receivers = rows_of(tmp_path / "vit" / "receivers.csv")
    assert len(receivers) == 6 * 2 * 12 and mass.shape == (2, 2, 12, TOKENS)
    for row in receivers:
        layer, head, largest = int(row["layer"]), int(row["head"]), float(row["largest"])
        if row["method"] == "softmax":
            assert largest == pytest.approx(mass[:, layer, head].max(-1).mean(), rel=1e-4)
            assert float(row["class_token"]) == pytest.approx(mass[:, layer, head, 0].mean(), rel=1e-4)
        elif row["method"] == "softmax/exact":
            assert largest == pytest.approx(1, abs=1e-3)
        elif row["method"] == "softmax/capped:2":
            assert largest <= 2 + 1e-3


# ---- ModelNet40 ----


def write_mesh(path: Path, corners: np.ndarray, faces: np.ndarray, joined: bool) -> None:
    """As ModelNet40 writes them: in some files the counts follow OFF without a blank."""
    head = f"OFF{'' if joined else chr(10)}{len(corners)} {len(faces)} 0\n"
    rows = [" ".join(map(str, row)) for row in corners] + [f"3 {a} {b} {c}" for a, b, c in faces]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "\n".join(rows) + "\n")


CORNERS = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])
TETRAHEDRON = np.array([[0, 3, 5], [0, 3, 6], [0, 5, 6], [3, 5, 6]])
SQUARE = np.array([[0, 1, 3], [0, 2, 3]])


def test_modelnet(root: Path, tmp_path: Path) -> None:
    """Two classes; a set transformer tells flat meshes from solid ones."""
    generator = np.random.default_rng(1)
    for number in range(6):
        for name, faces in (("chair", TETRAHEDRON), ("table", SQUARE)):
            part = "test" if number >= 4 else "train"
            corners = CORNERS * generator.uniform(0.5, 2, size=3)
            write_mesh(
                tmp_path / "ModelNet40" / name / part / f"{name}_{number}.off",
                corners,
                faces,
                number % 2 == 0,
            )
    small = ["--steps 60 --seeds 1 --batch 8 --points 16 --evaluations 1"]
    small.append("--method torch softmax 'softmax/exact{rounds=1}'")
    run_commands(root, tmp_path, "modelnet", *small)
    for method in ("torch", "softmax", "softmax-exact-rounds-1"):
        lines = (tmp_path / "build/training/modelnet" / method / "0.jsonl").read_text().splitlines()
        assert json.loads(lines[0])["meshes"] == 8
        last = json.loads(lines[-1])
        # Better than a guess at every one of the four test meshes would be.
        assert last["accuracy"] >= 0.75 and last["test_loss"] < math.log(2) / 2, (method, last)
    with np.load(tmp_path / "ModelNet40.npz") as file:
        assert file["train"].shape == (8, 2048, 3) and file["test_labels"].tolist() == [0, 0, 1, 1]


def test_points_on_meshes(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    modelnet = example("modelnet")
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 5], [3, 0, 5], [0, 1, 5]])
    for joined in (False, True):
        write_mesh(tmp_path / "mesh.off", corners, np.array([[0, 1, 2], [3, 4, 5]]), joined)
        found, faces = modelnet.read_mesh(tmp_path / "mesh.off")
        assert np.array_equal(found, corners) and faces.tolist() == [[0, 1, 2], [3, 4, 5]]
    points = modelnet.points_of(tmp_path / "mesh.off", 40000, np.random.default_rng(2))
    upper = points[:, 2] > 2
    # The upper triangle has three quarters of the area; the mean of a triangle is the mean of its corners.
    assert upper.mean() == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 40000) ** 0.5)
    assert points[upper].mean(0) == pytest.approx([1, 1 / 3, 5], abs=4 * 0.71 / 30000**0.5)
    assert (points[:, 0] / np.where(upper, 3, 1) + points[:, 1] <= 1 + 1e-6).all() and (points >= 0).all()
    (tmp_path / "mesh.off").write_text("OFF 4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n")
    with pytest.raises(SystemExit, match="faces that are no triangles"):
        modelnet.read_mesh(tmp_path / "mesh.off")
