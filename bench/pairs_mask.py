"""Softmax attention with and without a mask beside torch's SDPA: f32, 8 heads, width 64."""

from __future__ import annotations

from typing import Any

import otattn
import torch
import torch.nn.functional as F
from pairs import Pair, Prepared
from torch import Tensor

BATCH, HEADS, WIDTH = 2, 8, 64


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
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(BATCH, HEADS, n, WIDTH, generator=generator) for _ in range(3))
    mask = mask_of(n)

    def error(ours: Tensor, theirs: Tensor) -> float:
        return (ours - theirs).abs().max().item()

    return (
        lambda: otattn.attention(q, k, v, mask),
        lambda: F.scaled_dot_product_attention(q, k, v, mask),
        error,
    )


MASKS = {"mask, none": no_mask, "mask, padding [b,1,1,n]": padding, "mask, float [n,n]": added}
ROWS = [
    Pair(
        name,
        f"{BATCH} x {HEADS} heads of {n}",
        "torch SDPA",
        lambda mask=mask, n=n: prepare(mask, n),
        1e-5,
    )
    for name, mask in MASKS.items()
    for n in (64, 128, 256, 384)
]
