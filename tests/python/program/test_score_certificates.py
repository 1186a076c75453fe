"""scripts/score_certificates.py on small random models: its table against loops over the model's own scores;
runs go on."""

from __future__ import annotations

import csv
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.optimize
import spec
from program import PROGRAM, ROOT
from test_certify import scaled
from test_models import capture, draw_ids, make_model

CHANGES = ["bf16", "f16", "int8", "temperature=1.25"]
LENGTHS, WINDOWS = (6, 9), 2


def certify(folder: Path, *words: str, code: int = 0) -> str:
    command = [sys.executable, ROOT / "scripts" / "score_certificates.py", "model", "--ids", "all.npy"]
    command += ["-o", "out", "--program", PROGRAM, "--windows", WINDOWS, "--temperatures", "1.25"]
    command += ["--lengths", ",".join(map(str, LENGTHS)), "--safe", "0.05", *words]
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, check=False)
    assert done.returncode == code, done.stderr.decode()
    return (done.stdout if code == 0 else done.stderr).decode()


def read(folder: Path) -> list[dict[str, Any]]:
    with (folder / "out" / "certificates.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def int8_by_loops(scores: np.ndarray) -> np.ndarray:
    rounded = scores.astype(np.float64)
    for row in rounded.reshape(-1, scores.shape[-1]):
        step = max(abs(x) for x in row if np.isfinite(x)) / 127
        row[:] = [round(x / step) * step if np.isfinite(x) else x for x in row]
    return rounded


def change_of(scores: np.ndarray, change: str) -> np.ndarray:
    types = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
    if change in types:
        return scores.astype(types[change]).astype(np.float64)
    return int8_by_loops(scores) if change == "int8" else scores.astype(np.float64) / 1.25


def residual(d: np.ndarray) -> float:
    """R: the least r with |d_ij - k_i - v_j| <= r, by a linear program."""
    n, m = d.shape
    shifts = np.zeros((n * m, n + m + 1))
    for i in range(n):
        for j in range(m):
            shifts[i * m + j, [i, n + j]] = 1
    above, below = shifts.copy(), -shifts
    above[:, -1] = below[:, -1] = -1
    done = scipy.optimize.linprog(
        np.eye(n + m + 1)[-1],
        np.concatenate([above, below]),
        np.concatenate([d.ravel(), -d.ravel()]),
        bounds=(None, None),
    )
    return float(done.x[-1])


def plan(scores: np.ndarray, method: str) -> np.ndarray:
    if method == "softmax/exact":
        return scaled(scores, 1.0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def shares_of_head(s: np.ndarray, t: np.ndarray, v: np.ndarray, method: str) -> dict[str, float]:
    """Changes, bounds and receivers of one head, loops over pairs."""
    n, known = len(s), np.isfinite(s)
    p, q, d = plan(s, method), plan(t, method), np.where(known, s, 0) - np.where(known, t, 0)
    ranges = [row[here].max() - row[here].min() for row, here in zip(d, known, strict=True)]
    diameter = max(np.linalg.norm(x - y) for x in v for y in v)
    moved = max(np.linalg.norm(x) for x in (p - q) @ v)
    longest = max(np.linalg.norm(x) for x in v)
    if method == "softmax/exact":
        r = residual(d)
        sharp, output_sharp = 2 * n * np.tanh(r / 2), min(1, n / 2 * np.tanh(r / 2)) * diameter
    else:
        sharp = sum(2 * np.tanh(x / 4) for x in ranges)
        output_sharp = np.tanh(max(ranges) / 4) * diameter
    mass = p.sum(0)
    return {
        "plan_": np.abs(p - q).sum() / (2 * n),
        "plan_sharp_": sharp / (2 * n),
        "plan_printed_": n * np.abs(d).max() / (2 * n),
        "output_": moved / diameter,
        "output_sharp_": output_sharp / diameter,
        "output_printed_": n * np.abs(d).max() * longest / diameter,
        "delta_": np.abs(mass - 1).max(),
        "receiver_": mass.max(),
    }


IDS = {
    "plan_": "CETA-16", "plan_sharp_": "DER-17 DER-18", "plan_printed_": "CETA-16",
    "output_": "CETA-17", "output_sharp_": "DER-19", "output_printed_": "CETA-17",
    "delta_": "CETA-20", "receiver_": "CETA-19",
}  # fmt: skip


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_table_equals_loops_and_goes_on(tmp_path: Path, name: str) -> None:
    make_model(tmp_path / "model", name)
    ids = draw_ids(1, 30)[0]
    np.save(tmp_path / "all.npy", ids)
    methods = ["softmax", "softmax/exact" if name == "bert" else "softmax/relaxed:1"]
    printed = certify(tmp_path)
    rows = read(tmp_path)
    layers = 1 + max(int(row["layer"]) for row in rows)
    assert len(rows) == len(LENGTHS) * layers * len(methods) * len(CHANGES)
    assert {row["method"] for row in rows} == set(methods)
    assert ", 0 violations of a bound, 0 rows not converged" in printed
    for length in LENGTHS:
        arrays = capture(tmp_path, Path("model"), ids[: WINDOWS * length].reshape(WINDOWS, -1))
        for row in rows:
            if int(row["length"]) != length or row["method"] == "softmax/relaxed:1":
                continue
            check_row(row, arrays, length, "rot_" if name == "llama" else "")
    # A killed run left five rows and the head of the table; only the others are measured.
    table = tmp_path / "out" / "certificates.csv"
    kept = table.read_text()
    table.write_text("".join(kept.splitlines(keepends=True)[:6]))
    assert f"  {len(rows) - 5} rows, length 9, 0.0 minutes left" in certify(tmp_path)
    assert table.read_text() == kept
    drawn = json.loads((tmp_path / "out" / "certificates.vl.json").read_text())["data"]["values"]
    assert {value["change"] for value in drawn} == set(CHANGES)


def check_row(row: dict[str, Any], arrays: dict[str, np.ndarray], length: int, rotated: str) -> None:
    q, k, v, pattern = (
        arrays[f"blocks.{row['layer']}.attn.hook_{x}"] for x in (f"{rotated}q", f"{rotated}k", "v", "pattern")
    )
    found: dict[str, list[float]] = {word: [] for word in IDS}
    for window in range(WINDOWS):
        for head in range(q.shape[2]):
            group = head * k.shape[2] // q.shape[2]
            s = (q[window, :, head] @ k[window, :, group].T) / np.float32(np.sqrt(q.shape[-1]))
            if rotated:
                s[~np.tri(length, dtype=bool)] = -np.inf
            if row["method"] == "softmax":
                assert np.abs(plan(s.astype(np.float64), "softmax") - pattern[window, head]).max() < 1e-5
            heads = shares_of_head(
                s.astype(np.float64), change_of(s, row["change"]),
                v[window, :, group].astype(np.float64), row["method"],
            )  # fmt: skip
            for word, value in heads.items():
                found[word].append(value)
    assert float(row["heads"]) == len(found["plan_"])
    for word, values in found.items():
        # Certify stops at 1e-9 in a column; the gauge is certified to 1e-6 of itself.
        allowed = 1e-7 + 1e-6 * max(values)
        spec.check(IDS[word], abs(float(row[f"{word}mean"]) - float(np.mean(values))), allowed)
        spec.check(IDS[word], abs(float(row[f"{word}max"]) - max(values)), allowed)
    for kind in ("plan", "output"):
        for bound in ("sharp", "printed"):
            vacuous = float(np.mean(np.array(found[f"{kind}_{bound}_"]) >= 1))
            spec.check(IDS[f"{kind}_{bound}_"], abs(float(row[f"{kind}_{bound}_vacuous"]) - vacuous), 1e-12)
        assert float(row[f"{kind}_safe"]) == pytest.approx(np.mean(np.array(found[f"{kind}_"]) <= 0.05))
        safe = np.mean(np.array(found[f"{kind}_sharp_"]) <= 0.05)
        assert float(row[f"{kind}_sharp_safe"]) == pytest.approx(safe)


def test_what_is_refused_and_how_ties_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model(tmp_path / "model", "llama")
    np.save(tmp_path / "all.npy", draw_ids(1, 10)[0])
    assert "causal mask leaves it the identity" in certify(tmp_path, "--methods", "softmax/exact", code=1)
    assert "the text has 10 tokens, and 2 windows of 9 are wanted" in certify(tmp_path, code=1)
    monkeypatch.syspath_prepend(ROOT / "scripts")
    script = importlib.import_module("score_certificates")
    ties = (np.arange(-4096, 4096, dtype=np.float32) + 0.5) / 16
    spec.check("", np.abs(script.round_bf16(ties) - change_of(ties, "bf16")).max(), 0)
    masked = np.array([[1.0, -np.inf, -2.0], [0.0, 0.0, -np.inf]], np.float32)
    assert script.round_int8(masked)[0, 1] == -np.inf and script.round_int8(masked)[1, 0] == 0
