"""otattn.flash against the formula, in flash-attn's layout with positions from the bottom right."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import otattn
import pytest
import torch
import torch.nn.functional as F
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


def test_slopes_of_each_batch_and_packed_forms(rng: np.random.Generator) -> None:
    q, kv = rng.standard_normal((2, 4, 6, 8)), rng.standard_normal((2, 7, 2, 3, 8))
    slopes = rng.uniform(0.1, 1.0, (2, 6))
    out = otattn.flash.flash_attn_kvpacked_func(q, kv, causal=True, alibi_slopes=slopes)
    for b in range(2):
        alone = otattn.flash.flash_attn_func(
            q[b : b + 1], kv[b : b + 1, :, 0], kv[b : b + 1, :, 1], causal=True, alibi_slopes=slopes[b]
        )
        assert np.abs(out[b] - alone[0]).max() <= 1e-14
    qkv = rng.standard_normal((2, 5, 3, 4, 8))
    assert (
        otattn.flash.flash_attn_qkvpacked_func(qkv)
        == otattn.flash.flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
    ).all()


@pytest.mark.parametrize("grouped", [1, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_sequences_against_torch(causal: bool, grouped: int) -> None:
    torch.manual_seed(3)
    lengths = torch.tensor([5, 0, 17, 1, 64])
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    total = int(bounds[-1])
    q = torch.randn(total, 6, 8, requires_grad=True)
    k, v = (torch.randn(total, 6 // grouped, 8, requires_grad=True) for _ in range(2))
    out, lse, couplings = otattn.flash.flash_attn_varlen_func(
        q, k, v, bounds, bounds, 64, 64, causal=causal, return_attn_probs=True
    )
    parts = []
    for a, b in itertools.pairwise(bounds):
        x, y, z = (t[a:b].transpose(0, 1) for t in (q, k, v))
        attended = F.scaled_dot_product_attention(x, y, z, is_causal=causal, enable_gqa=True)
        parts.append(attended.transpose(0, 1))
    right = torch.cat(parts)
    upstream = torch.randn_like(right)
    assert (out - right).abs().max() <= 2e-6 and lse.shape == (6, total)
    assert [tuple(x.shape) for x in couplings] == [(6, n, n) for n in lengths.tolist()]
    found = torch.autograd.grad((out * upstream).sum(), (q, k, v))
    expected = torch.autograd.grad((right * upstream).sum(), (q, k, v))
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@pytest.mark.parametrize("method", ["softmax", "softmax/exact", "entmax:1.5/capped:2"])
def test_sequences_are_problems_of_their_own(method: str, rng: np.random.Generator) -> None:
    q, k = rng.standard_normal((9, 2, 4)), rng.standard_normal((12, 2, 4))
    v = rng.standard_normal((12, 2, 3))
    found, auxes = otattn.varlen_attention(
        q, k, v, [0, 4, 9], [0, 7, 12], method=method, dropout_p=0.2, dropout_seed=4, return_aux=True
    )
    for s, (a, b, c, d) in enumerate([(0, 4, 0, 7), (4, 9, 7, 12)]):
        parts = (q[a:b].swapaxes(0, 1), k[c:d].swapaxes(0, 1), v[c:d].swapaxes(0, 1))
        alone = otattn.attention(*parts, dropout_p=0.2, dropout_seed=4, dropout_offset=s, method=method)
        assert (found[a:b] == alone.swapaxes(0, 1)).all()
        assert auxes[s].receiver.shape == (2, d - c)


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy, jax.numpy.asarray])
def test_no_sequence_has_the_width_of_the_values(convert: Any) -> None:
    query, value = convert(np.ones((0, 4, 3), np.float32)), convert(np.ones((0, 2, 7), np.float32))
    out = otattn.varlen_attention(query, query[:, :2], value, [0], [0])
    assert type(out) is type(query) and out.shape == (0, 4, 7) and out.dtype == query.dtype


def test_bounds_are_checked() -> None:
    x = np.ones((5, 2, 3))
    with pytest.raises(ValueError, match=r"cu_seq_q is \[0, 4\], wanted sorted bounds from 0 to 5"):
        otattn.varlen_attention(x, x, x, [0, 4], [0, 5])
    with pytest.raises(ValueError, match="cu_seq_q has 2 sequences, but cu_seq_k has 1"):
        otattn.varlen_attention(x, x, x, [0, 4, 5], [0, 5])
    for limit in (3, 0):
        with pytest.raises(ValueError, match=f"max_q is {limit}, but the longest sequence has 4"):
            otattn.varlen_attention(x, x, x, [0, 4, 5], [0, 4, 5], limit)
    with pytest.raises(TypeError, match="dropout_offset is None, wanted a whole number"):
        otattn.varlen_attention(x, x, x, [0, 5], [0, 5], dropout_p=0.5, dropout_offset=None)
    with pytest.raises(ValueError, match=r"query has shape \(1, 5, 2, 3\)"):
        otattn.varlen_attention(x[None], x, x, [0, 5], [0, 5])


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy, jax.numpy.asarray])
def test_every_key_has_one_value(convert: Any) -> None:
    x, more, fewer = (convert(np.ones((n, 2, 3), np.float32)) for n in (5, 7, 4))
    for value, rows in ((more, 7), (fewer, 4)):
        with pytest.raises(ValueError, match=rf"value has shape \({rows}, 2, 3\), but key has \(5, 2, 3\)"):
            otattn.varlen_attention(x, x, value, [0, 2, 5], [0, 2, 5])
        with pytest.raises(ValueError, match="as many values as keys"):
            otattn.flash.flash_attn_varlen_func(x, x, value, [0, 2, 5], [0, 2, 5])


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_distances_that_2_bytes_cannot_hold(convert: Any) -> None:
    bias = otattn.flash._slopes(convert(np.array([[0.5, 16.0]], np.float16)), 1, 2, 5001)["bias"]
    away = np.abs(np.arange(4999, 5001)[:, None] - np.arange(5001))
    assert (np.asarray(bias) == -np.array([0.5, 16.0])[:, None, None] * away).all()
