"""Rows of entmax of any order alpha > 1 in Triton, without storing a row's scores.

    p_ij = max(0, z_ij - t_i) ^ (1 / (alpha - 1)),   z = (alpha - 1) (S + key_bias),   sum_j p_ij = 1

Each pass over the keys computes their scores again: one finds the row's largest z, each of the next ones the
sum of weights and its slope at a threshold between largest - 1 and largest, the last one the output. The step
is Newton's, which from below never passes the root for alpha <= 2; for 1.5 the root of the quadratic of the
present support; for alpha > 2, whose slope is infinite at every score, every other step halves the bracket.
"""
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from .triton_backward import Plan, Side, gradients, weigh
from .triton_scores import (
    Band,
    Matrix,
    Scoring,
    Size,
    Vectors,
    at,
    cut,
    kernel,
    matrix,
    place,
    product,
    scores,
    tile,
    vector,
    walk,
)
from .triton_tiles import launch, tile_of

# Halvings alone need 24 to the last bit of a threshold in [-1, 0].
MOST_PASSES = tl.constexpr(64)
ENOUGH = tl.constexpr(2.0**-22)


class Level(NamedTuple):
    """A threshold, and sums above it: of weights, of slopes or values, how many."""

    threshold: Any
    mass: Any
    slope: Any
    count: Any


@kernel
def top_tile(
    top: tl.tensor, query: tl.tensor, start: tl.tensor, first: tl.tensor,
    arrays: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    key = tile(arrays[0], first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0]))
    s, _ = scores(query, key, start, first, arrays[2], size, form, masked)
    return tl.maximum(top, tl.max(s, 1))


@kernel
def mass_tile(
    level: Level, query: tl.tensor, start: tl.tensor, first: tl.tensor,
    arrays: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> Level:  # fmt: skip
    key = tile(arrays[0], first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0]))
    s, _ = scores(query, key, start, first, arrays[2], size, form, masked)
    p, slope = weigh(s - level.threshold[:, None], size, form)
    count = level.count
    if form.weight == "square":
        count += tl.sum(tl.where(slope > 0.0, 1.0, 0.0), 1)
    return Level(level.threshold, level.mass + tl.sum(p, 1), level.slope + tl.sum(slope, 1), count)


@kernel
def out_tile(
    level: Level, query: tl.tensor, start: tl.tensor, first: tl.tensor,
    arrays: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> Level:  # fmt: skip
    key = tile(arrays[0], first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0]))
    s, _ = scores(query, key, start, first, arrays[2], size, form, masked)
    p, _ = weigh(s - level.threshold[:, None], size, form)
    v = tile(arrays[1], first, size.other, size.depth, (form.columns, form.depth, masked, form.ragged[1]))
    out = product(p.to(v.dtype), v, level.slope)
    return Level(level.threshold, level.mass + tl.sum(p, 1), out, level.count)


@kernel
def entmax_kernel(
    own: Matrix, other: Matrix, values: Matrix, vectors: Vectors,
    out: tl.tensor, threshold: tl.tensor, size: Size, form: tl.constexpr,
) -> None:  # fmt: skip
    start, batch, head = place(size, 1, form)
    pair = batch.to(tl.int64) * size.heads + head
    rows = start + tl.arange(0, form.rows)
    inside = rows < size.own
    query = tile(
        Matrix(at(own, batch, head // size.own_group), 0, 0, own.row, own.column),
        start, size.own, size.width, (form.rows, form.width, True, form.ragged[0]),
    )  # fmt: skip
    slope = tl.zeros([], tl.float32)
    if form.slopes:
        slope = tl.load(vectors.slopes + pair) * size.unit
    arrays = (
        Matrix(at(other, batch, head // size.other_group), 0, 0, other.row, other.column),
        Matrix(at(values, batch, head // size.values_group), 0, 0, values.row, values.column),
        Vectors(vectors.own, vectors.other + pair * size.other, vectors.own_term, vectors.other_term, slope),
    )
    begin, left, whole, end, cuts = walk(start, size, form)
    top = tl.full([form.rows], float("-inf"), tl.float32)
    for first in tl.range(whole, end, form.columns):
        top = top_tile(top, query, start, first, arrays, size, form, False)
    for step in tl.range(0, cuts):
        first = cut(step, begin, left, end, form.columns)
        top = top_tile(top, query, start, first, arrays, size, form, True)
    some = top > float("-inf")
    top = tl.where(some, top, 0.0)
    zero = tl.zeros([form.rows], tl.float32)
    # The root lies between these, relative to the largest score.
    low, high, here = zero - 1.0, zero, zero - 1.0
    power = 1.0 / size.unit
    passes = 0
    unsettled = tl.max((some & inside).to(tl.int32), 0)
    while unsettled > 0:
        level = Level(top + here, zero, zero, zero)
        for first in tl.range(whole, end, form.columns):
            level = mass_tile(level, query, start, first, arrays, size, form, False)
        for step in tl.range(0, cuts):
            first = cut(step, begin, left, end, form.columns)
            level = mass_tile(level, query, start, first, arrays, size, form, True)
        more = level.mass - 1.0
        low = tl.where(more >= 0.0, here, low)
        high = tl.where(more >= 0.0, high, here)
        if form.weight == "square":
            root = tl.sqrt(tl.maximum(level.slope * level.slope - level.count * more, 0.0))
            next_ = here + more / tl.maximum(level.slope + root, 1e-30)
        else:
            next_ = here + more / tl.maximum(power * level.slope, 1e-30)
        middle = 0.5 * (low + high)
        next_ = tl.where((next_ > low) & (next_ < high), next_, middle)
        if form.weight == "power":
            next_ = tl.where((power < 1.0) & (passes % 2 == 1), middle, next_)
        settled = (more != more) | (tl.abs(more) <= ENOUGH) | (middle <= low) | (middle >= high)  # noqa: PLR0124
        passes += 1
        here = tl.where(settled, here, next_)
        unsettled = tl.max((some & inside & (settled == 0) & (passes < MOST_PASSES)).to(tl.int32), 0)
    level = Level(top + here, zero, tl.zeros([form.rows, form.depth], tl.float32), zero)
    for first in tl.range(whole, end, form.columns):
        level = out_tile(level, query, start, first, arrays, size, form, False)
    for step in tl.range(0, cuts):
        first = cut(step, begin, left, end, form.columns)
        level = out_tile(level, query, start, first, arrays, size, form, True)
    total = level.slope / tl.where(level.mass == 0.0, 1.0, level.mass)[:, None]
    columns = tl.arange(0, form.depth)
    pointers = out + (pair * size.own + rows)[:, None] * size.depth + columns[None, :]
    tl.store(pointers, total.to(out.dtype.element_ty), mask=inside[:, None] & (columns[None, :] < size.depth))
    tau = tl.where(some, level.threshold / size.unit, float("inf"))
    tl.store(threshold + pair * size.own + rows, tau, mask=inside)


# ---- before a launch -----------------------------------------------------------------------------


def weight_of(alpha: float) -> str:
    return {2.0: "linear", 1.5: "square"}.get(alpha, "power")


def entmax_attend(
    q: Tensor, k: Tensor, v: Tensor, alpha: float, *, scale: float, key_bias: Tensor | None = None,
    band: Band = (None, None), softcap: float = 0.0, slopes: Tensor | None = None, offset: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Rows of entmax of S + key_bias times the values, in their type, and thresholds [B, H, n], f32 in nats:

    p = max(0, (alpha - 1)(S + key_bias - threshold))^(1 / (alpha - 1)), for `entmax_backward`. An empty row
    is 0 and has the threshold +inf."""
    scoring = Scoring(scale, band, softcap, slopes, offset)
    batch, heads, n = q.shape[:3]
    vectors = Vectors(
        other=vector(key_bias, (batch, heads, k.shape[2])), slopes=vector(slopes, (batch, heads))
    )
    size = scoring.size(q, k, v, heads, alpha - 1.0)
    shape = tile_of("entmax", max(size.width, size.depth), q.element_size())
    form = scoring.form("entmax", size, vectors, shape, weight_of(alpha))
    out = v.new_empty((batch, heads, n, size.depth))
    threshold = q.new_empty((batch, heads, n), dtype=torch.float32)
    programs = triton.cdiv(n, form.rows) * batch * heads
    arrays = (matrix(q), matrix(k), matrix(v))
    launch(entmax_kernel, programs, shape, *arrays, vectors, out, threshold, size, form)
    return out, threshold


def entmax_backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, threshold: Tensor, alpha: float, *, scale: float,
    key_bias: Tensor | None = None, band: Band = (None, None), softcap: float = 0.0,
    slopes: Tensor | None = None, offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """dq, dk, dv: dS = w (dP - <w, dP> / <w, 1>) with w = p^(2 - alpha) on the support, with
    dP measured above order 2 from that of the largest w."""
    scoring = Scoring(scale, band, softcap, slopes, offset)
    rows, columns = Side(q, dout), Side(k, v)
    plan = Plan(-threshold, key_bias, None, None, weight_of(alpha), alpha - 1.0)
    return gradients(rows, columns, plan.with_terms(rows, columns, scoring), scoring)
