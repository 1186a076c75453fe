"""Rows of entmax of any order alpha > 1 in Triton, without storing a row's scores.

Each pass over the keys computes their scores again: one finds the row's largest, each of the next ones sums
that lead to the row's level (triton_levels.py), the last one the output. Up to order 2 the sum is convex in
the weight of the largest score, and Newton's steps come to it from above; for 1.5 a step is the root of the
quadratic of the present support. Above order 2 the edge is searched first, between a number beyond which keys
have all of the mass or more and one beyond which they leave some; a step is a secant's, a halving or the
nearest key. Newton's steps come from above to the weight there.
"""
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from .triton_backward import Plan, Side, gradients
from .triton_levels import Levels, above_edge, below_top, power_of, rise_of, weigh, weight_of
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

# Halvings alone need 24 to the last bit of a number in [-1, 0], and as many keys between them.
MOST_PASSES = tl.constexpr(100)
ENOUGH = tl.constexpr(2.0**-23)
# Of a row above order 2: its edge is searched, sums there are asked for, its weight falls, all is known.
SEARCHED, FOUND, WEIGHED, KNOWN = (tl.constexpr(x) for x in range(4))


class Level(NamedTuple):
    """A score of each row, and what weights are measured by: up to order 2 the gain over w^a of the weight w
    there, above it w^a, and for the output w."""

    at: Any
    by: Any


class Sums(NamedTuple):
    """Up to order 2, over the weight of the largest score: of weights and of slopes, and how many."""

    mass: Any
    slope: Any
    count: Any


class Beyond(NamedTuple):
    """Of the keys above a number: the sums of weights and of their derivatives by the weight there; how many
    are equal to it, and the nearest on both sides."""

    mass: Any
    rise: Any
    ties: Any
    next: Any
    last: Any


class Search(NamedTuple):
    """Of an edge: numbers below and above the threshold, with the mass to the order - 1 beyond each (-1: not
    known); the least key above the one (-inf: not known), the greatest below the other (inf: not known), the
    least from there on, which has weight; the number that is asked for, the weight there, and the stage."""

    low: Any
    high: Any
    of_low: Any
    of_high: Any
    next: Any
    last: Any
    edge: Any
    here: Any
    weight: Any
    stage: Any


class Out(NamedTuple):
    """Sums of weights and of their values, and the column of the edge."""

    mass: Any
    out: Any
    column: Any


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
    sums: Sums, query: tl.tensor, start: tl.tensor, first: tl.tensor,
    arrays: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> Sums:  # fmt: skip
    key = tile(arrays[0], first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0]))
    s, _ = scores(query, key, start, first, arrays[2], size, form, masked)
    level = arrays[3]
    p, slope = below_top((s - level.at[:, None]) * level.by[:, None], size, form)
    count = sums.count
    if form.weight == "square":
        count += tl.sum(tl.where(slope > 0.0, 1.0, 0.0), 1)
    return Sums(sums.mass + tl.sum(p, 1), sums.slope + tl.sum(slope, 1), count)


@kernel
def edge_tile(
    sums: Beyond, query: tl.tensor, start: tl.tensor, first: tl.tensor,
    arrays: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> Beyond:  # fmt: skip
    key = tile(arrays[0], first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0]))
    s, _ = scores(query, key, start, first, arrays[2], size, form, masked)
    level, rise = arrays[3].at[:, None], arrays[3].by[:, None]
    beyond = s > level
    log, log_slope = above_edge(tl.where(beyond, (s - level) * size.gain, 1.0), rise, size)
    # (weight there / P)^a, over that to the power of 1 / a
    share = tl.exp2(log_slope - tl.log2(rise) * (1.0 / size.gap - 1.0))
    return Beyond(
        sums.mass + tl.sum(tl.where(beyond, tl.exp2(log), 0.0), 1),
        sums.rise + tl.sum(tl.where(beyond, share, 0.0), 1),
        sums.ties + tl.sum(tl.where(s == level, 1.0, 0.0), 1),
        tl.minimum(sums.next, tl.min(tl.where(beyond, s, float("inf")), 1)),
        tl.maximum(sums.last, tl.max(tl.where(s < level, s, float("-inf")), 1)),
    )


@kernel
def out_tile(
    sums: Out, query: tl.tensor, start: tl.tensor, first: tl.tensor,
    arrays: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> Out:  # fmt: skip
    """Up to order 2 weights are over that of the largest score."""
    key = tile(arrays[0], first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0]))
    s, _ = scores(query, key, start, first, arrays[2], size, form, masked)
    column, anchor, level = sums.column, arrays[3].at[:, None], arrays[3].by[:, None]
    if form.weight == "edge":
        at_anchor = s == anchor
        p, _ = weigh(s, anchor, level, at_anchor, size, form)
        columns = first + tl.arange(0, form.columns)
        column = tl.maximum(column, tl.max(tl.where(at_anchor, columns[None, :], -1), 1))
    else:
        p, _ = below_top((s - anchor) * level, size, form)
    v = tile(arrays[1], first, size.other, size.depth, (form.columns, form.depth, masked, form.ragged[1]))
    return Out(sums.mass + tl.sum(p, 1), product(p.to(v.dtype), v, sums.out), column)


@kernel
def looked(of: Search, sums: Beyond, passes: tl.tensor, size: Size) -> Search:
    """The search after the sums at `here`."""
    searched = of.stage == SEARCHED
    inside = searched & (sums.mass < 1.0)
    outside = searched & (sums.mass >= 1.0)
    power = power_of(sums.mass, size.gap)
    low = tl.where(outside, of.here, of.low)
    high = tl.where(inside, of.here, of.high)
    of_low = tl.where(outside, power, of.of_low)
    of_high = tl.where(inside, power, of.of_high)
    next_ = tl.where(outside, sums.next, of.next)
    last = tl.where(inside, sums.last, of.last)
    edge = tl.where(inside, tl.where(sums.ties > 0.0, of.here, sums.next), of.edge)
    middle = 0.5 * low + 0.5 * high
    found = searched & ((next_ >= edge) | (last <= low) | (middle <= low) | (middle >= high))
    # Sums at the edge, if this pass had them.
    asked = (found & inside & (edge == of.here)) | (of.stage == FOUND)
    number = high + (low - high) * ((1.0 - of_high) / tl.where(of_low < 0.0, 1.0, of_low - of_high))
    number = tl.where((of_low < 0.0) | (passes % 4 == 2), middle, number)
    number = tl.where((number > low) & (number < high), number, middle)
    here = tl.where(inside, last, next_)
    here = tl.where((passes % 2 == 1) & (here > low) & (here < high), here, number)
    here = tl.where(found, edge, tl.where(searched, here, of.here))
    first = tl.maximum((1.0 - sums.mass) / tl.maximum(sums.ties, 1.0), 0.0)
    excess = sums.mass + sums.ties * of.weight - 1.0
    less = of.weight - excess / tl.maximum(sums.ties + sums.rise, 1.0)
    weighed = of.stage == WEIGHED
    falls = weighed & (excess > ENOUGH) & (less > 0.0) & (less < of.weight)
    weight = tl.where(asked, first, tl.where(falls, less, of.weight))
    stage = tl.where(found, FOUND, of.stage)
    stage = tl.where(asked, WEIGHED, stage)
    stage = tl.where((weighed & (falls == 0)) | (sums.mass != sums.mass), KNOWN, stage)
    return Search(low, high, of_low, of_high, next_, last, edge, here, weight, stage)


@kernel
def entmax_kernel(
    own: Matrix, other: Matrix, values: Matrix, vectors: Vectors,
    out: tl.tensor, levels: Levels, size: Size, form: tl.constexpr,
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
        slope = tl.load(vectors.slopes + pair)
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
    anchor = tl.where(some, top, 0.0)
    zero = tl.zeros([form.rows], tl.float32)
    weight = zero + 1.0
    passes = 0
    if form.weight == "edge":
        least = anchor - 2.0 / size.gain
        number = anchor - 0.5 / size.gain
        found = Search(
            least, anchor, zero - 1.0, zero, zero + float("-inf"), zero + float("inf"), anchor, number, zero,
            tl.where(some & inside, SEARCHED, KNOWN),
        )  # fmt: skip
        while tl.min(found.stage, 0) < KNOWN and passes < MOST_PASSES:
            rise = tl.where(found.stage == WEIGHED, power_of(found.weight, size.gap), 0.0)
            reach = (arrays[0], arrays[1], arrays[2], Level(found.here, rise))
            beyond = Beyond(zero, zero, zero, zero + float("inf"), zero + float("-inf"))
            for first in tl.range(whole, end, form.columns):
                beyond = edge_tile(beyond, query, start, first, reach, size, form, False)
            for step in tl.range(0, cuts):
                first = cut(step, begin, left, end, form.columns)
                beyond = edge_tile(beyond, query, start, first, reach, size, form, True)
            found = looked(found, beyond, passes, size)
            passes += 1
        anchor = found.edge
        weight = tl.where(tl.abs(top) == float("inf"), float("nan"), found.weight)
    else:
        # The root lies between these.
        low, high = zero, zero + 1.0
        unsettled = tl.max((some & inside).to(tl.int32), 0)
        while unsettled > 0:
            sums = Sums(zero, zero, zero)
            rise = rise_of(weight, size, form)
            reach = (arrays[0], arrays[1], arrays[2], Level(anchor, size.gain / rise))
            for first in tl.range(whole, end, form.columns):
                sums = mass_tile(sums, query, start, first, reach, size, form, False)
            for step in tl.range(0, cuts):
                first = cut(step, begin, left, end, form.columns)
                sums = mass_tile(sums, query, start, first, reach, size, form, True)
            more = weight * sums.mass - 1.0
            low = tl.where(more >= 0.0, low, weight)
            high = tl.where(more >= 0.0, weight, high)
            if form.weight == "square":
                sum_ = rise * sums.slope
                root = tl.sqrt(tl.maximum(sum_ * sum_ - sums.count * more, 0.0))
                next_ = tl.maximum(rise - more / tl.maximum(sum_ + root, 1e-30), 0.0)
                next_ = next_ * next_
            else:
                next_ = weight - more / tl.maximum(sums.slope, 1e-30)
            middle = 0.5 * (low + high)
            closed = (more != more) | (middle <= low) | (middle >= high)  # noqa: PLR0124
            next_ = tl.where((next_ > low) & (next_ < high), next_, middle)
            near = tl.abs(more) <= ENOUGH
            weight = tl.where(closed | near, weight, next_)
            passes += 1
            unsettled = tl.max(
                (some & inside & (closed == 0) & (near == 0) & (passes < MOST_PASSES)).to(tl.int32), 0
            )
    level = weight
    if form.weight != "edge":
        level = size.gain / rise_of(weight, size, form)
    reach = (arrays[0], arrays[1], arrays[2], Level(anchor, level))
    result = Out(zero, tl.zeros([form.rows, form.depth], tl.float32), tl.full([form.rows], -1, tl.int32))
    for first in tl.range(whole, end, form.columns):
        result = out_tile(result, query, start, first, reach, size, form, False)
    for step in tl.range(0, cuts):
        first = cut(step, begin, left, end, form.columns)
        result = out_tile(result, query, start, first, reach, size, form, True)
    mass = tl.where(some, result.mass, 1.0)
    columns = tl.arange(0, form.depth)
    pointers = out + (pair * size.own + rows)[:, None] * size.depth + columns[None, :]
    mean = (result.out / mass[:, None]).to(out.dtype.element_ty)
    tl.store(pointers, mean, mask=inside[:, None] & (columns[None, :] < size.depth))
    tl.store(levels.anchor + pair * size.own + rows, tl.where(some, anchor, float("inf")), mask=inside)
    if form.weight != "edge":
        weight = 1.0 / mass
    tl.store(levels.weight + pair * size.own + rows, tl.where(some, weight, 0.0), mask=inside)
    if form.weight == "edge":
        tl.store(levels.column + pair * size.own + rows, result.column, mask=inside)


# ---- before a launch -----------------------------------------------------------------------------


def entmax_attend(
    q: Tensor, k: Tensor, v: Tensor, alpha: float, *, scale: float, key_bias: Tensor | None = None,
    band: Band = (None, None), softcap: float = 0.0, slopes: Tensor | None = None, offset: int = 0,
    temperature: float = 1.0,
) -> tuple[Tensor, Levels]:  # fmt: skip
    """Rows of entmax of (S + key_bias) / temperature times the values, in their type, and from where their
    weights are measured, for `entmax_backward`. An empty row is 0."""
    scoring = Scoring(scale, band, softcap, slopes, offset, temperature)
    batch, heads, n = q.shape[:3]
    vectors = Vectors(
        other=vector(key_bias, (batch, heads, k.shape[2])), slopes=vector(slopes, (batch, heads))
    )
    size = scoring.size(q, k, v, heads, 1.0, alpha - 1.0)
    shape = tile_of("entmax", max(size.width, size.depth), q.element_size())
    form = scoring.form("entmax", size, vectors, shape, weight_of(alpha))
    out = v.new_empty((batch, heads, n, size.depth))
    anchor = q.new_empty((batch, heads, n), dtype=torch.float32)
    column = torch.full_like(anchor, -1, dtype=torch.int32)
    levels = Levels(anchor, torch.empty_like(anchor), column)
    programs = triton.cdiv(n, form.rows) * batch * heads
    arrays = (matrix(q), matrix(k), matrix(v))
    launch(entmax_kernel, programs, shape, *arrays, vectors, out, levels, size, form)
    return out, levels


def potentials(levels: Levels, alpha: float, temperature: float = 1.0) -> Tensor:
    """f of which P = max(0, a (S / temperature + f))^(1 / a), a = alpha - 1; -inf of an empty row."""
    a = alpha - 1.0
    return levels.weight**a / a - levels.anchor / temperature


def entmax_backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, levels: Levels, alpha: float, *, scale: float,
    key_bias: Tensor | None = None, band: Band = (None, None), softcap: float = 0.0,
    slopes: Tensor | None = None, offset: int = 0, temperature: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """dq, dk, dv: dS = w (dP - <w, dP> / <w, 1>) with w = p^(2 - alpha) on the support, with
    dP measured above order 2 from that of the largest w."""
    scoring = Scoring(scale, band, softcap, slopes, offset, temperature)
    rows, columns = Side(q, dout), Side(k, v)
    plan = Plan(None, key_bias, None, None, levels, alpha)
    return gradients(rows, columns, plan.with_terms(rows, columns, scoring), scoring)
