"""Softmax with masks beside torch's SDPA, and beside the call without: f32, 8 heads, width 64."""

from __future__ import annotations

from functools import partial
from typing import Any

import otattn
import torch
import torch.nn.functional as F
from pairs import Pair, Prepared
from torch import Tensor

BATCH, HEADS, WIDTH = 2, 8, 64
SLOPE, CAP = 0.05, 5.0


def tokens(n: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(BATCH, HEADS, n, WIDTH, generator=generator) for _ in range(3)]


def error(ours: Tensor, theirs: Tensor) -> float:
    return (ours - theirs).abs().max().item()


# ---- beside torch -----------------------------------------------------------------------------------


def no_mask(n: int) -> None:
    del n


def padding(n: int) -> Tensor:
    """The last fifth of the keys of the second sequence is padding: bool [batch, 1, 1, n]."""
    mask = torch.ones(BATCH, 1, 1, n, dtype=torch.bool)
    mask[1, ..., n - n // 5 :] = False
    return mask


def added(n: int) -> Tensor:
    """Numbers added to the scores, the same for every head: f32 [n, n]."""
    return torch.randn(n, n, generator=torch.Generator().manual_seed(1))


def prepare(mask_of: Any, n: int) -> Prepared:
    q, k, v = tokens(n)
    mask = mask_of(n)
    return (
        lambda: otattn.attention(q, k, v, mask),
        lambda: F.scaled_dot_product_attention(q, k, v, mask),
        error,
    )


MASKS = {"mask, none": no_mask, "mask, padding [b,1,1,n]": padding, "mask, float [n,n]": added}

# ---- beside the call without a mask -----------------------------------------------------------------


def allowed(n: int) -> Tensor:
    """Four fifths of the pairs: bool [n, n]."""
    return torch.rand(n, n, generator=torch.Generator().manual_seed(2)) < 0.8


def of_heads(n: int) -> Tensor:
    """Numbers of every head: f32 [heads, n, n]."""
    return torch.randn(HEADS, n, n, generator=torch.Generator().manual_seed(3))


def arguments(kind: str, n: int) -> dict[str, Any]:
    """What the call has beside queries, keys and values."""
    if kind == "f32 and a bias":
        return {"attn_mask": added(n), "bias": of_heads(n)}
    if kind == "ALiBi and bool":
        return {"attn_mask": allowed(n), "alibi_slopes": SLOPE}
    if kind == "softcap, padding":
        return {"attn_mask": padding(n), "softcap": CAP}
    types = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
    return {"attn_mask": allowed(n) if kind == "bool" else added(n).to(types[kind])}


def exact(q: Tensor, k: Tensor, v: Tensor, given: dict[str, Any]) -> Tensor:
    """The same in f64, by torch."""
    n = q.shape[-2]
    scores = q.double() @ k.double().transpose(-1, -2) / WIDTH**0.5
    if "softcap" in given:
        scores = CAP * torch.tanh(scores / CAP)
    if "alibi_slopes" in given:
        scores = scores - SLOPE * (torch.arange(n)[:, None] - torch.arange(n)).abs()
    if "bias" in given:
        scores = scores + given["bias"]
    mask = given["attn_mask"]
    scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, -1) @ v.double()


def prepare_beside_none(kind: str, n: int) -> Prepared:
    q, k, v = tokens(n)
    given = arguments(kind, n)
    right = exact(q, k, v, given)
    return (
        lambda: otattn.attention(q, k, v, **given),
        lambda: otattn.attention(q, k, v),
        lambda ours, none: error(ours, right),
    )


KINDS = ["bool", "f32", "f64", "bf16", "f16", "f32 and a bias", "ALiBi and bool", "softcap, padding"]

ROWS = [
    Pair(name, f"{BATCH} x {HEADS} heads of {n}", "torch SDPA", partial(prepare, mask, n), 1e-5)
    for name, mask in MASKS.items()
    for n in (64, 128, 256, 384)
] + [
    Pair(
        f"mask cost, {kind}",
        f"{BATCH} x {HEADS} heads of {n}",
        "the call without a mask",
        partial(prepare_beside_none, kind, n),
        1e-5,
    )
    for kind in KINDS
    for n in (64, 256)
]
