"""Names of heads and outliers against their definitions in NumPy, and against TransformerLens' head detector.

The package is not installed: its detection patterns and its score (error_measure "mul") are restated from
TransformerLens at 030a561466cbf4c049192d3a99d90cb7d8505f22, the file of its head detector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
import spec
from otattn import analysis


def softmax_rows(rng: np.random.Generator, n: int, seen: Any, scale: float = 2.0) -> Any:
    p = np.where(seen, np.exp(scale * rng.standard_normal((n, n))), 0.0)
    return p / p.sum(1, keepdims=True)


# ---- the detector of TransformerLens ----


def detection_patterns(tokens: Any) -> dict[str, Any]:
    n = len(tokens)
    duplicate = np.equal.outer(tokens, tokens).astype(int)
    np.fill_diagonal(duplicate, 0)
    duplicate = np.tril(duplicate)
    shifted = np.roll(duplicate, 1, axis=1)
    shifted[:, 0] = 0
    return {
        "previous_share": np.eye(n, k=-1),
        "duplicate_share": duplicate,
        "induction_share": np.tril(shifted),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transformer_lens(rng: np.random.Generator, dtype: Any) -> None:
    for _ in range(60):
        n = int(rng.integers(2, 40))
        ids = rng.integers(0, rng.integers(1, 12), n)
        p = softmax_rows(rng, n, np.tri(n, dtype=bool)).astype(dtype)
        found = analysis.head_scores(p, ids).as_dict()
        for name, detection in detection_patterns(ids).items():
            wanted = (p.astype(float) * detection).sum() / p.astype(float).sum()
            spec.check("", abs(found[name] - wanted), 1e-14)


# ---- the definitions ----


def mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else np.nan


def largest(values: Any, counts: Any) -> tuple[int, float]:
    """The first of the largest means, of what is seen by at least half as many rows as any."""
    counts, means = np.asarray(counts), np.asarray(values)
    if counts.max() == 0:
        return -1, np.nan
    means = np.where((counts > 0) & (counts >= counts.max() / 2), means, -1)
    return int(means.argmax()), float(means.max())


def definitions(p: Any, ids: Any, seen: Any, local: int, norms: Any) -> dict[str, float]:
    n = len(ids)
    i, j = np.indices((n, n))
    live = p.sum(1) > 0
    same = np.equal.outer(ids, ids)
    targets = {
        "previous_token": seen & (j == i - 1),
        "duplicate_token": seen & same & (i != j),
        "induction": seen & (j > 0) & (j - 1 != i) & np.roll(same, 1, axis=1),
    }
    out = {
        name: mean([p[row, mask[row]].sum() for row in range(n) if live[row] and mask[row].any()])
        for name, mask in targets.items()
    }
    near = seen & (abs(i - j) < local)
    far = [row for row in range(n) if live[row] and (seen[row] & ~near[row]).any()]
    out["local"] = mean([p[row, near[row]].sum() for row in far])
    pairs = seen & live[:, None] & (seen.sum(1) > 1)[:, None]
    weights, offsets = p[pairs], (i - j)[pairs]
    fitted = np.array([weights[offsets == o].mean() for o in offsets])
    total = ((weights - weights.mean()) ** 2).sum() if weights.size else 0.0
    out["positional"] = 1 - ((weights - fitted) ** 2).sum() / total if total > 0 else np.nan
    counts = [int((offsets == o).sum()) for o in range(1 - n, n)]
    means = [weights[offsets == o].mean() if c else 0 for o, c in zip(range(1 - n, n), counts, strict=True)]
    place = largest(means, counts)[0]
    out["offset"] = place + 1 - n if place >= 0 else 0
    others = seen & live[:, None] & (i != j)
    sums = np.where(others, p, 0).sum(0) / np.maximum(1, others.sum(0))
    key, out["sink"] = largest(sums, others.sum(0))
    out["sink_key"] = key
    out["distance"] = np.where(seen, p * abs(i - j), 0).sum() / p.sum()
    ratio = norms[key] / np.median(np.delete(norms, key)) if n > 1 else np.nan
    out["value_ratio"] = ratio if key >= 0 else np.nan
    out["nop_sink"] = out["sink"] * max(0, 1 - out["value_ratio"])
    out["broadcast_sink"] = out["sink"] * min(1, out["value_ratio"])
    return out


def test_definitions(rng: np.random.Generator) -> None:
    for draw in range(150):
        n = int(rng.integers(2, 30))
        causal, reach = bool(draw % 2), int(rng.integers(1, 30)) if draw % 3 == 0 else None
        local = int(rng.integers(1, 9))
        i, j = np.indices((n, n))
        seen = ((j <= i) | (not causal)) & (abs(i - j) <= (n if reach is None else reach))
        ids, norms = rng.integers(0, rng.integers(1, 12), n), rng.uniform(0, 2, n)
        p = softmax_rows(rng, n, seen) * rng.uniform(0.2, 1, (n, 1))
        p[1:][rng.uniform(size=n - 1) < 0.1] = 0  # rows of no mass
        found = analysis.head_scores(p, ids, causal=causal, reach=reach, local=local, value_norms=norms)
        assert found.rows == (p.sum(1) > 0).sum()
        for name, wanted in definitions(p, ids, seen, local, norms).items():
            got = getattr(found, name)
            assert np.isnan(got) == np.isnan(wanted), name
            if not np.isnan(wanted):
                spec.check("", abs(got - wanted), 1e-11)


def test_chance_is_even_rows(rng: np.random.Generator) -> None:
    ids = rng.integers(0, 6, 40)
    even = np.tri(40) / np.arange(1, 41)[:, None]
    chance, found = analysis.head_scores(None, ids), analysis.head_scores(even, ids)
    for name in ("previous_token", "duplicate_token", "induction", "local", "sink", "distance"):
        spec.check("", abs(getattr(chance, name) - getattr(found, name)), 1e-15)
    assert chance.positional == pytest.approx(39 / (40 * 41 / 2 - 2))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="ids has entries"):
        analysis.head_scores(np.eye(2), [0.5, 1])
    with pytest.raises(ValueError, match=r"weights\[1, 0\] is -1"):
        analysis.head_scores([[1.0, 0.0], [-1.0, 1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"ids has shape|weights has shape"):
        analysis.head_scores(np.eye(3), [0, 1])
    with pytest.raises(ValueError, match="reach"):
        analysis.head_scores(np.eye(2), [0, 1], reach=0)


def test_outliers(rng: np.random.Generator) -> None:
    h = rng.standard_normal((20, 33)) ** 3
    h[3, 7] = -900.0
    found = analysis.outliers(h, 4)
    order = np.argsort(-np.abs(h).ravel(), kind="stable")[:4]
    assert (found.token * 33 + found.dimension == order).all() and found.value[0] == -900.0
    spec.check("", np.abs(found.ratio - np.abs(h.ravel()[order]) / np.median(np.abs(h))).max(), 1e-9)
    spec.check("", np.abs(found.kurtosis - scipy.stats.kurtosis(h, axis=1)).max(), 1e-11)
    assert len(analysis.outliers(h[:1, :2]).value) == 2
