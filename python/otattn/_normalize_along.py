"""How plans of sinkhorn_normalize move with their scores: forward mode through its rounds, on tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _structs as c
from ._normalize import Recipe
from ._torch_device import EVERY, wide_type


def _deepseek(recipe: Recipe, scores: Tensor, tangent: Tensor) -> Tensor:
    soft = torch.softmax(scores, -1)
    x, dx = soft + recipe.eps, soft * (tangent - (soft * tangent).sum(-1, keepdim=True))
    for step in range(2 * recipe.rounds - 1):
        line = -2 + step % 2
        total = x.sum(line, keepdim=True) + recipe.eps
        x = x / total
        dx = (dx - x * dx.sum(line, keepdim=True)) / total
    return dx


def _symmetric(recipe: Recipe, scores: Tensor, tangent: Tensor) -> Tensor:
    y, dy = scores, tangent
    going = torch.ones_like(scores[..., :1, :1], dtype=torch.bool)
    every = 1 if scores.is_cpu else EVERY
    for round_ in range(recipe.rounds):
        if recipe.tolerance > 0.0 and round_ > 0:
            # A matrix that has met the tolerance stays as it is.
            error = (y.exp().sum(-1, keepdim=True) - 1.0).abs().amax(-2, keepdim=True)
            going = going & (error > recipe.tolerance)
            if round_ % every == 0 and not bool(going.any()):
                break
        for line in (-1, -2):
            y = torch.where(going, y - y.logsumexp(line, keepdim=True), y)
            dy = torch.where(going, dy - (y.exp() * dy).sum(line, keepdim=True), dy)
    return y.exp() * dy


def along(recipe: Recipe, scores: Tensor, tangent: Tensor) -> Tensor:
    """dP of plans P whose scores move by `tangent`; both [..., n, n] in f32 or f64.

    Worked on in f64, where the device has such numbers.
    """
    rounds = _deepseek if recipe.order == c.NORMALIZE_DEEPSEEK else _symmetric
    wide = wide_type(scores.device)
    return rounds(recipe, scores.to(wide), tangent.to(wide)).to(scores.dtype)
