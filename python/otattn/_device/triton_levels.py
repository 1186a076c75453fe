"""Weights of entmax in Triton, of any order alpha > 1, from a score of the row and the weight there.

    P_ij = (gain (S_ij - s_i) + w_i^a) ^ (1 / a) where that is above 0,    a = alpha - 1,   gain = a / tau

Up to order 2 the score s is the row's largest, of weight w, and next to order 1 the digits are those of

    P_ij = w_i exp(log1p(gain (S_ij - s_i) / w_i^a) / a)

Above order 2, where weights rise with an infinite slope, it is the least that has weight, and w the weight
there (entmax.py). Differences of scores keep their digits, which sums with a threshold do not.
"""
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import NamedTuple

import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from .triton_scores import LOG2E, Size, kernel

LOG2_OF_E = tl.constexpr(LOG2E)


class Levels(NamedTuple):
    """Of rows [B, H, n]: a score, without its temperature, the weight there, and above order 2 its column.

    A row without weight has the score +inf, the weight 0 and the column -1."""

    anchor: Tensor
    weight: Tensor
    column: Tensor


def weight_of(alpha: float) -> str:
    """The name of the formula, for `Form.weight`."""
    return {2.0: "linear", 1.5: "square"}.get(alpha, "power" if alpha < 2.0 else "edge")


@kernel
def log1p(x: tl.tensor) -> tl.tensor:
    """Right to two units in the last place of x above -1 (the single precision of Cephes)."""
    y = 1.0 + x
    lost = (x - (y - 1.0)) / y
    bits = y.to(tl.int32, bitcast=True)
    # y = 2^exponent z with z from sqrt(1/2) to sqrt(2).
    exponent = (bits - 0x3F3504F3) >> 23
    z = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1.0
    n = exponent.to(tl.float32)
    sum_ = 7.0376836292e-2 * z - 1.1514610310e-1
    sum_ = (sum_ * z + 1.1676998740e-1) * z - 1.2420140846e-1
    sum_ = (sum_ * z + 1.4249322787e-1) * z - 1.6668057665e-1
    sum_ = (sum_ * z + 2.0000714765e-1) * z - 2.4999993993e-1
    sum_ = (sum_ * z + 3.3333331174e-1) * (z * z * z)
    sum_ += n * -2.12194440e-4 + lost
    return (z + (sum_ - 0.5 * z * z)) + n * 0.693359375


@kernel
def power_of(x: tl.tensor, power: tl.tensor) -> tl.tensor:
    """x^power of numbers from 0 on."""
    return tl.exp2(tl.log2(x) * power)


@kernel
def rise_of(weight: tl.tensor, size: Size, form: tl.constexpr) -> tl.tensor:
    """w^a of the weight at a row's score."""
    if form.weight == "linear":
        return weight
    elif form.weight == "square":
        return tl.sqrt(weight)
    else:
        return power_of(weight, size.gap)


@kernel
def below_top(far: tl.tensor, size: Size, form: tl.constexpr) -> tl.tuple:
    """Weight and slope over those of a row's largest score, up to order 2; far = gain (S - s) / w^a."""
    rest = tl.maximum(1.0 + far, 0.0, propagate_nan=tl.PropagateNan.ALL)
    inside = rest > 0.0
    if form.weight == "linear":
        return rest, tl.where(inside, 1.0, 0.0)
    elif form.weight == "square":
        return rest * rest, rest
    else:
        log = tl.where(inside, log1p(tl.where(inside, far, 0.0)) * LOG2_OF_E, 0.0)
        power = 1.0 / size.gap
        return tl.where(inside, tl.exp2(log * power), rest), tl.where(
            inside, tl.exp2(log * (power - 1.0)), 0.0
        )


@kernel
def above_edge(far: tl.tensor, rise: tl.tensor, size: Size) -> tl.tuple:
    """log2 of weight and slope above order 2 beyond the edge; far = gain (S - s), rise = w^a."""
    power = 1.0 / size.gap
    log = tl.log2(far + rise)
    return log * power, log * (power - 1.0)


@kernel
def weigh(
    s: tl.tensor, anchor: tl.tensor, weight: tl.tensor, at_anchor: tl.tensor, size: Size, form: tl.constexpr
) -> tl.tuple:
    """Weight and slope P^(1 - a) of scores. A kernel may round the anchor's own otherwise than that which
    found it: at_anchor says where it is."""
    rise = rise_of(weight, size, form)
    if form.weight == "edge":
        # Products of the largest slope stay within the type's range.
        steepest = tl.exp2(tl.minimum(tl.log2(weight) * (1.0 - size.gap), 100.0))
        beyond = s > anchor
        log, log_slope = above_edge(tl.where(beyond, (s - anchor) * size.gain, 1.0), rise, size)
        p = tl.where(beyond, tl.exp2(log), 0.0)
        slope = tl.where(beyond, tl.exp2(tl.minimum(log_slope, 100.0)), 0.0)
        at_anchor = at_anchor | (s == anchor)
        return tl.where(at_anchor, weight, p), tl.where(at_anchor, steepest, slope)
    else:
        p, slope = below_top((s - anchor) * (size.gain / rise), size, form)
        if form.weight == "square":
            slope *= rise
        elif form.weight == "power":
            slope *= power_of(weight, 1.0 - size.gap)
        return p * weight, slope
