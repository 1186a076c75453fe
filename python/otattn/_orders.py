"""Tsallis maps whose rows have orders of their own, above 0, which the library's operator does not take.

NumPy in f64; tensors lend their memory.

With s = order - 1, a row's weights are ``p_j = e_s(x_j - max x - level)``, where ``e_s(y) = (1 + s y)^(1/s)``
with what is below 0 cut off, and exp(y) for s = 0. Its sum falls from 1 or more at level 0 to 1 or less at
``(1 - keys^-s) / s``. [docs/research/mathematics.md, section "Orders below 1"]
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_MOST_STEPS = 100


def _power(y: Any, s: Any) -> Any:
    """e_s(y), as exp(log(1 + s y) / s), which keeps its digits where s is near 0."""
    inside = np.maximum(s * y, -1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.exp(np.where(s == 0.0, y, np.log1p(inside) / np.where(s == 0.0, 1.0, s)))


def _beside_edges(y: Any, s: Any) -> Any:
    """Weights of rows y (rows, keys), of which the largest is 0, for s > 1.

    There they rise with an infinite slope, so that a level in f64 is too coarse. With the edge e, the least
    entry of the support, and the weight q there, ``p_j = ((y_j - e) s + q^s)^(1/s)``: the sum is convex in q,
    and Newton's steps come to 1 from above.
    """
    root = 1.0 / s
    falling = -np.sort(-y, 1)
    low = np.zeros((len(y), 1), np.int64)
    high = np.full_like(low, y.shape[1] - 1)

    def above(e: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return np.where(y > e, (y - e) * s, 0.0)

    def weigh(distance: Any, q: Any) -> Any:
        return np.where(distance > 0.0, (distance + q**s) ** root, 0.0)

    while (low < high).any():
        middle = (low + high + 1) // 2
        e = np.take_along_axis(falling, middle, 1)
        inside = (e > -np.inf) & ((above(e) ** root).sum(1, keepdims=True) < 1.0)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle - 1)
        high = np.maximum(low, high)
    e = np.take_along_axis(falling, low, 1)
    distance, ties = above(e), (y == e).sum(1, keepdims=True)
    q = (1.0 - (distance**root).sum(1, keepdims=True)) / np.maximum(ties, 1)
    for _ in range(_MOST_STEPS):
        p = weigh(distance, q)
        excess = p.sum(1, keepdims=True) + ties * q - 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            rise = np.where(p > 0.0, (q / p) ** (s - 1.0), 0.0).sum(1, keepdims=True)
            following = q - excess / (ties + rise)
        following = np.where((excess > 2e-16) & (following > 0.0) & (following < q), following, q)
        if (following == q).all():
            break
        q = following
    return np.where((y == e) & (y > -np.inf), q, weigh(distance, q))


def weights(x: Any, order: Any) -> Any:
    """Weights of rows x (rows, keys) in f64, for orders (rows, 1). Rows of -inf alone are 0."""
    s = order - 1.0
    with np.errstate(invalid="ignore"):
        top = x.max(1, keepdims=True)
        y = x - np.where(top == -np.inf, 0.0, top)
    low = np.zeros_like(s)
    logarithm = np.log(x.shape[1])
    high = np.where(s == 0.0, logarithm, -np.expm1(-s * logarithm) / np.where(s == 0.0, 1.0, s))
    level = low
    for _ in range(_MOST_STEPS):
        p = _power(y - level, s)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            total = p.sum(1, keepdims=True)
            # Where the order is at most 2, the deformed logarithm of the sum is convex in the level, so that
            # Newton's steps from below stay below; elsewhere the bracket holds them.
            excess = np.where(
                s == 0.0, np.log(total), np.expm1(s * np.log(total)) / np.where(s == 0.0, 1.0, s)
            )
            slope = total ** (s - 1.0) * np.where(p > 0.0, p ** (1.0 - s), 0.0).sum(1, keepdims=True)
            low, high = np.where(excess >= 0.0, level, low), np.where(excess < 0.0, level, high)
            newton = level + excess / slope
        # From a small excess one more step reaches the rounding of the sum; NaN stays what it is.
        near = ~(np.abs(excess) > 2.0**-36)
        inside = near | ((newton > low) & (newton < high))
        following = np.where(inside, newton, low + (high - low) / 2)
        following = np.where(total == 0.0, level, following)
        last = (near | (following == level)).all()
        level = following
        if last:
            break
    p = _power(y - level, s)
    steep = np.flatnonzero(s[:, 0] > 1.0)
    if steep.size:
        p[steep] = _beside_edges(y[steep], s[steep])
    total = p.sum(1, keepdims=True)
    # What rounding leaves of the sum.
    return p / np.where(total == 0.0, 1.0, total)


def _bend(q: Any) -> Any:
    """(1 - exp(-q) - q) / q^2, which is -1/2 at 0."""
    small = np.abs(q) < 1e-2
    safe = np.where(small, 1.0, q)
    with np.errstate(over="ignore", invalid="ignore"):
        far = (-np.expm1(-safe) - safe) / safe**2
    near = -1 / 2 + q * (1 / 6 - q * (1 / 24 - q * (1 / 120 - q * (1 / 720))))
    return np.where(small, near, far)


def gradients(p: Any, order: Any, upstream: Any) -> tuple[Any, Any]:
    """Of a function with gradient `upstream` by the weights: by the scores, and by each row's order."""
    s = order - 1.0
    positive = p > 0.0
    safe = np.where(positive, p, 1.0)
    logarithm = np.log(safe)
    # One entry's slope may outweigh all others, whose shares then keep digits only where the gradient is
    # measured from that entry's.
    steepness = np.where(positive, (1.0 - s) * logarithm, -np.inf)
    first = steepness.argmax(1, keepdims=True)
    most = np.take_along_axis(steepness, first, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.where(positive, np.exp(steepness - most), 0.0)
        slope = np.where(positive, np.exp(steepness), 0.0)
    whole = np.maximum(share.sum(1, keepdims=True), 1.0)
    apart = upstream - np.take_along_axis(upstream, first, 1)
    mean = (share * apart).sum(1, keepdims=True) / whole
    with np.errstate(invalid="ignore"):
        of_scores = np.where(positive, slope * (apart - mean), 0.0)
        others = np.where(share < 1.0, slope * apart, 0.0).sum(1, keepdims=True)
    is_first = np.arange(p.shape[1]) == first
    alone = (share == 1.0).sum(1, keepdims=True) == 1
    of_scores = np.where(is_first & alone & (whole > 0.0), -others / whole, of_scores)
    # The weight's own slope in s at a fixed level; the level then restores the sum.
    own = np.where(positive, p * logarithm**2 * _bend(s * logarithm), 0.0)
    of_order = ((apart - mean) * own).sum(1, keepdims=True)
    return of_scores, of_order


@functools.cache
def torch_weights() -> Any:
    """`weights` of tensors (rows, keys) and (rows, 1), with first derivatives."""
    import torch

    def wide(x: Any) -> Any:
        return x.to(torch.float64).numpy(force=True)

    class Orders(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, order: Any) -> Any:
            p = torch.from_numpy(weights(wide(x), wide(order)))
            # Rounded once; the derivative starts from the weights in f64.
            ctx.save_for_backward(p, order)
            ctx.kind = x.dtype
            return p.to(x.dtype)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, upstream: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            p, order = ctx.saved_tensors
            found = gradients(p.numpy(), wide(order), wide(upstream))
            of_scores, of_order = (torch.from_numpy(x) for x in found)
            return of_scores.to(ctx.kind), of_order.to(order.dtype)

    return Orders.apply
