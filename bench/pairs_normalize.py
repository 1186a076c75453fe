"""Doubly stochastic 4 x 4 matrices beside the recipe written in torch, forward and with gradients."""

from __future__ import annotations

from typing import Any

import otattn
import torch
from pairs import Pair, Prepared

COUNT, SIDE, ROUNDS, EPS = 4096, 4, 20, 1e-6


def recipe(x: Any) -> Any:
    P = x.softmax(-1) + EPS
    P = P / (P.sum(-2, keepdim=True) + EPS)
    for _ in range(ROUNDS - 1):
        P = P / (P.sum(-1, keepdim=True) + EPS)
        P = P / (P.sum(-2, keepdim=True) + EPS)
    return P


def prepare(gradients: bool) -> Prepared:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(COUNT, SIDE, SIDE, generator=generator)
    along = torch.randn(x.shape, generator=generator)
    x.requires_grad_(gradients)

    def side(call: Any) -> Any:
        if not gradients:
            return lambda: call(x)
        return lambda: torch.autograd.grad((call(x) * along).sum(), x)[0]

    def error(mine: Any, other: Any) -> float:
        return float((mine - other).abs().max())

    return side(lambda y: otattn.sinkhorn_normalize(y, ROUNDS, EPS)), side(recipe), error


ROWS = [
    Pair("mHC", f"{COUNT} of {SIDE}x{SIDE}", "torch recipe", lambda: prepare(False), 1e-5),
    Pair("mHC, and gradients", f"{COUNT} of {SIDE}x{SIDE}", "torch recipe", lambda: prepare(True), 1e-4),
]
