"""Hostile checkpoints: weights that are no numbers, folders that hold something else than files, and names that
are code to the reader of a page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import ROOT, answer
from safetensors.numpy import save_file

DEMO = ROOT / "data/demo/model"
PARAGRAPH = ROOT / "data/demo/paragraph.txt"
COMMANDS: dict[str, list[Any]] = {
    "capture": ["-o", "out.safetensors", "-f"],
    "perplexity": [],
    "generate": ["--tokens", 2],
    "analyze": ["-o", "out", "-f", "--windows", "1x32"],
}


def copy_demo(folder: Path) -> Path:
    model = folder / "model"
    shutil.copytree(DEMO, model)
    return model


def demo_weights() -> dict[str, np.ndarray]:
    """Every tensor of the demo model, which holds bf16, as f32."""
    stored = (DEMO / "model.safetensors").read_bytes()
    size = int.from_bytes(stored[:8], "little")
    tensors = {}
    for name, entry in json.loads(stored[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "BF16"
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        halves = np.frombuffer(stored[begin:end], "<u2").astype(np.uint32)
        tensors[name] = (halves << 16).view(np.float32).reshape(entry["shape"])
    return tensors


def damage(folder: Path, name: str, value: float, dtype: Any = np.float32) -> tuple[Path, int]:
    """The demo model with `value` in the middle of one tensor; the model and the element."""
    model = copy_demo(folder)
    tensors = {key: tensor.astype(dtype) for key, tensor in demo_weights().items()}
    flat = tensors[name].reshape(-1)
    flat[flat.size // 2] = value
    save_file(tensors, model / "model.safetensors")
    return model, flat.size // 2


def words(command: str, model: Path) -> list[Any]:
    return [command, model, "--text", "one two three four five six seven " * 12, *COMMANDS[command]]


# ---- weights that are no numbers ----


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_nonfinite_weights_are_refused(tmp_path: Path, command: str, value: float) -> None:
    names = sorted(demo_weights())
    name = names[len(names) // 2]
    model, place = damage(tmp_path, name, value)
    refused = answer(tmp_path, *words(command, model), code=3)
    assert refused["status"] == "nonfinite"
    assert f'"{name}" holds NaN or infinity at element {place}' in refused["error"]
    assert "--allow-nonfinite" in refused["hint"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_every_tensor_counts(tmp_path: Path) -> None:
    for k, name in enumerate(sorted(demo_weights())):
        model, _ = damage(tmp_path, name, np.inf, (np.float16, np.float32)[k % 2])
        assert f'"{name}"' in answer(tmp_path, *words("perplexity", model), code=3)["error"]
        shutil.rmtree(model)


def test_allowed_nonfinite_weights_run(tmp_path: Path) -> None:
    # The last norm: no attention sees it, so that what runs is as far as it gets.
    model, _ = damage(tmp_path, next(name for name in demo_weights() if "ln_f" in name), np.nan)
    assert answer(tmp_path, *words("capture", model), "--allow-nonfinite")["tensors"]


def test_verify_names_the_tensor(tmp_path: Path) -> None:
    name = sorted(demo_weights())[0]
    model, _ = damage(tmp_path, name, np.nan)
    assert f'"{name}"' in answer(tmp_path, "verify", "--model", model, code=3)["error"]
