"""otattn.flash against the formula, in flash-attn's layout with positions from the bottom right."""

from __future__ import annotations

import numpy as np
import otattn
import pytest
from scipy.special import logsumexp


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [(-1, -1), (2, 0), (3, 1)])
def test_formula(causal: bool, window: tuple[int, int], rng: np.random.Generator) -> None:
    q = rng.standard_normal((2, 4, 6, 8))
    k, v = rng.standard_normal((2, 7, 3, 8)), rng.standard_normal((2, 7, 3, 8))
    slopes = otattn.alibi_slopes(6)
    out, lse, coupling = otattn.flash.flash_attn_func(
        q, k, v, causal=causal, window_size=window, softcap=2.0, alibi_slopes=slopes, return_attn_probs=True
    )
    i, j = np.arange(4)[:, None] + 3, np.arange(7)
    scores = np.einsum("bihd,bjhd->bhij", q, k.repeat(2, 2)) / np.sqrt(8)
    scores = 2 * np.tanh(scores / 2) - slopes[:, None, None] * np.abs(i - j)
    allowed = (j <= i) if causal else np.ones((4, 7), bool)
    if window[0] >= 0:
        allowed = allowed & (j >= i - window[0])
    if window[1] >= 0:
        allowed = allowed & (j <= i + window[1])
    scores = np.where(allowed, scores, -np.inf)
    right = logsumexp(scores, -1)
    weights = np.exp(scores - right[..., None])
    assert np.abs(lse - right).max() <= 1e-13 and np.abs(coupling - weights).max() <= 1e-14
    assert np.abs(out - np.einsum("bhij,bjhd->bihd", weights, v.repeat(2, 2))).max() <= 1e-14
    alone = otattn.flash.flash_attn_func(
        q, k, v, causal=causal, window_size=window, softcap=2.0, alibi_slopes=slopes
    )
    assert np.abs(alone - out).max() <= 1e-14
