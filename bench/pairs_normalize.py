"""Batches of 4 x 4 matrices made doubly stochastic beside the same recipe in torch operations."""

from __future__ import annotations

from typing import Any

import otattn
import torch
from pairs import Pair, Prepared

COUNT, SIDE, ROUNDS, EPS = 4096, 4, 20, 1e-6


def recipe(x: torch.Tensor) -> torch.Tensor:
    """The published order: softmax + eps, columns, then rows and columns by their sums + eps."""
    x = torch.softmax(x, -1) + EPS
    x = x / (x.sum(-2, keepdim=True) + EPS)
    for _ in range(ROUNDS - 1):
        x = x / (x.sum(-1, keepdim=True) + EPS)
        x = x / (x.sum(-2, keepdim=True) + EPS)
    return x


def data() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(COUNT, SIDE, SIDE), torch.randn(COUNT, SIDE, SIDE)


def apart(ours: Any, theirs: Any) -> float:
    return float((ours - theirs).abs().max())


def plans() -> Prepared:
    x, _ = data()
    return lambda: otattn.sinkhorn_normalize(x, ROUNDS, EPS), lambda: recipe(x), apart


def gradients(kind: str) -> Prepared:
    x, upstream = data()
    x.requires_grad_()

    def ours() -> Any:
        plan = otattn.sinkhorn_normalize(x, ROUNDS, EPS, gradients=kind)
        return torch.autograd.grad(plan, x, upstream)[0]

    return ours, lambda: torch.autograd.grad(recipe(x), x, upstream)[0], apart


SHAPE = f"{COUNT} x {SIDE} x {SIDE}, {ROUNDS} rounds"
# Implicit gradients are those of what the rounds converge to: 2.2e-4 from those of the 20 rounds here.
ROWS = [
    Pair("normalize", SHAPE, "torch recipe", plans, 2e-6),
    Pair("normalize backward", SHAPE, "torch recipe", lambda: gradients("truncated"), 2e-5),
    Pair("normalize implicit", SHAPE, "torch recipe", lambda: gradients("implicit"), 2e-3),
]
