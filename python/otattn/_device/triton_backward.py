"""Gradients of a known plan in Triton: one kernel, for queries or, transposed, for keys and values.

    P_ij = exp(S_ij + row_bias_i + key_bias_j), or a weight of entmax  never normalised again
    dS_ij = slope_ij (dout_i . v_j - row_term_i - key_term_j)         slope = P of exp
    dq = scale dS k    dk = scale dS^T q    dv = P^T dout             through the softcap's derivative

A program owns rows of one gradient and sums over the other side in order, a group's query heads one after
another, so that no sum depends on a schedule. The third kind is the term of rows whose weights have a fixed
sum, sum_j slope_ij dout_i . v_j / sum_j slope_ij.

Above order 2 the slope at a row's edge (triton_levels.py) may outweigh the digits of all others: terms are
measured from dout_i . v_j of its key, whose dS they give, as others do that run no kernels (entmax.py).
"""
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from .triton_levels import Levels, weigh, weight_of
from .triton_scores import (
    LOG2E,
    Band,
    Matrix,
    Scoring,
    Size,
    Vectors,
    at,
    bias,
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


class Gradients(NamedTuple):
    """Of the own matrix and of its values; of terms the two sums of a row."""

    own: Any
    value: Any


class Terms(NamedTuple):
    """Of rows: the term, and where one slope may be steep dS there."""

    own: Any
    push: Any = 0


class Steep(NamedTuple):
    """The two sums of a row, of dout . v less `middle`, that of its steepest slope, once that came by."""

    own: Any
    value: Any
    middle: Any
    slope: Any


class Side(NamedTuple):
    """A tile of one side, or where its head begins: queries or keys, and upstream gradients or values."""

    own: Any
    value: Any


@kernel
def of_rows(base: tl.tensor, rows: tl.tensor, length: tl.tensor, otherwise: tl.constexpr) -> tl.tensor:
    return tl.load(base + rows, mask=rows < length, other=otherwise)


@kernel
def steeper(sums: Steep, slope: tl.tensor, ds: tl.tensor, at_steepest: tl.tensor) -> Steep:
    """A tile added to sums that are measured from their steepest slope."""
    found = tl.sum(tl.where(at_steepest, ds, 0.0), 1)
    here = tl.max(at_steepest.to(tl.int32), 1) > 0
    middle = tl.where(here, found, sums.middle)
    own = sums.own + sums.value * (sums.middle - middle)
    own += tl.sum(tl.where(slope > 0.0, slope * (ds - middle[:, None]), 0.0), 1)
    return Steep(own, sums.value + tl.sum(slope, 1), middle, tl.maximum(tl.max(slope, 1), sums.slope))


@kernel
def add_tile(
    sums: Gradients, mine: Side, start: tl.tensor, first: tl.tensor,
    head: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> tl.tuple:  # fmt: skip
    """head: the other side of this head, its vectors, bias and term of the own rows, and of rows of entmax
    where these are the own ones their anchors, the weights, the steepest columns and dS there."""
    theirs, vectors, potential, term, anchor, weight, steepest, push = head
    other = tile(
        theirs.own, first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0])
    )
    values = tile(
        theirs.value, first, size.other, size.depth, (form.columns, form.depth, masked, form.ragged[1])
    )
    s, bend = scores(mine.own, other, start, first, vectors, size, form, masked)
    if form.own_bias:
        s += potential[:, None]
    columns = first + tl.arange(0, form.columns)
    at_steepest = columns[None, :] == steepest[:, None]
    if form.weight == "exp":
        p = tl.exp2(s)
        slope = p
    elif form.kind == "key":
        rows = start + tl.arange(0, form.rows)
        anchor = of_rows(vectors.anchor, columns, size.other, float("inf"))
        weight = of_rows(vectors.weight, columns, size.other, 0.0)
        if form.weight == "edge":
            at_steepest = rows[:, None] == of_rows(vectors.steepest, columns, size.other, -1)[None, :]
        p, slope = weigh(s, anchor[None, :], weight[None, :], at_steepest, size, form)
    else:
        p, slope = weigh(s, anchor[:, None], weight[:, None], at_steepest, size, form)
    ds = product(mine.value, tl.trans(values), tl.zeros([form.rows, form.columns], tl.float32))
    if form.kind == "terms":
        if form.weight == "edge":
            return steeper(sums, slope, ds, at_steepest)
        else:
            return Gradients(sums.own + tl.sum(slope * ds, 1), sums.value + tl.sum(slope, 1))
    else:
        if masked:
            theirs_term = tl.load(vectors.other_term + columns, mask=columns < size.other, other=0.0)
        else:
            theirs_term = tl.load(vectors.other_term + columns)
        ds = slope * (ds - term[:, None] - theirs_term[None, :])
        if form.weight == "edge":
            if form.kind == "query":
                ds = tl.where(at_steepest, push[:, None], ds)
            else:
                push = of_rows(vectors.push, columns, size.other, 0.0)
                ds = tl.where(at_steepest, push[None, :], ds)
        if form.softcap:
            ds = ds * (1.0 - bend) * (1.0 + bend)
        of_values = sums.value
        if form.kind == "key":
            of_values = product(p.to(values.dtype), values, of_values)
        return Gradients(product(ds.to(other.dtype), other, sums.own), of_values)


@kernel
def nothing(form: tl.constexpr) -> tl.tuple:
    """Sums before the first tile."""
    zero = tl.zeros([form.rows], tl.float32)
    if form.kind == "terms":
        if form.weight == "edge":
            return Steep(zero, zero, zero, zero)
        else:
            return Gradients(zero, zero)
    elif form.kind == "query":
        return Gradients(tl.zeros([form.rows, form.width], tl.float32), zero)
    else:
        return Gradients(
            tl.zeros([form.rows, form.width], tl.float32), tl.zeros([form.rows, form.depth], tl.float32)
        )


@kernel
def backward_kernel(
    own: Matrix, own_values: Matrix, other: Matrix, other_values: Matrix,
    vectors: Vectors, results: tl.tuple, size: Size, form: tl.constexpr,
) -> None:  # fmt: skip
    start, batch, owner = place(size, size.own_group, form)
    rows = start + tl.arange(0, form.rows)
    mine = Side(
        tile(
            Matrix(at(own, batch, owner), 0, 0, own.row, own.column),
            start, size.own, size.width, (form.rows, form.width, True, form.ragged[0]),
        ),
        tile(
            Matrix(at(own_values, batch, owner), 0, 0, own_values.row, own_values.column),
            start, size.own, size.depth, (form.rows, form.depth, True, form.ragged[1]),
        ),
    )  # fmt: skip
    sums = nothing(form)
    begin, left, whole, end, cuts = walk(start, size, form)
    for member in tl.range(0, size.own_group):
        head = owner * size.own_group + member
        pair = batch.to(tl.int64) * size.heads + head
        group = head // size.other_group
        theirs = Side(
            Matrix(at(other, batch, group), 0, 0, other.row, other.column),
            Matrix(at(other_values, batch, group), 0, 0, other_values.row, other_values.column),
        )
        slope = tl.zeros([], tl.float32)
        if form.slopes:
            slope = tl.load(vectors.slopes + pair) * size.unit
        potential = slope
        if form.own_bias:
            potential = bias(vectors.own + pair * size.own, rows, size.own, size.unit)
        term = slope
        if form.kind != "terms":
            term = tl.load(vectors.own_term + pair * size.own + rows, mask=rows < size.own, other=0.0)
        anchor, weight, push = slope, slope, slope
        steepest = tl.full([form.rows], -1, tl.int32)
        if form.weight != "exp" and form.kind != "key":
            anchor = of_rows(vectors.anchor + pair * size.own, rows, size.own, float("inf"))
            weight = of_rows(vectors.weight + pair * size.own, rows, size.own, 0.0)
            if form.weight == "edge":
                steepest = of_rows(vectors.steepest + pair * size.own, rows, size.own, -1)
                if form.kind == "query":
                    push = of_rows(vectors.push + pair * size.own, rows, size.own, 0.0)
        reach = Vectors(
            vectors.own, vectors.other + pair * size.other, vectors.own_term,
            vectors.other_term + pair * size.other, slope,
            vectors.anchor + pair * size.other, vectors.weight + pair * size.other,
            vectors.steepest + pair * size.other, vectors.push + pair * size.other,
        )  # fmt: skip
        arguments = (theirs, reach, potential, term, anchor, weight, steepest, push)
        for first in tl.range(whole, end, form.columns):
            sums = add_tile(sums, mine, start, first, arguments, size, form, False)
        for step in tl.range(0, cuts):
            first = cut(step, begin, left, end, form.columns)
            sums = add_tile(sums, mine, start, first, arguments, size, form, True)
    inside = rows < size.own
    place_ = (batch.to(tl.int64) * (size.heads // size.own_group) + owner) * size.own + rows
    if form.kind == "terms":
        total = tl.where(sums.value == 0.0, 1.0, sums.value)
        mean = sums.own / total
        if form.weight == "edge":
            tl.store(results.own + place_, sums.middle + mean, mask=inside)
            tl.store(results.push + place_, -sums.own * (sums.slope / total), mask=inside)
        else:
            tl.store(results.own + place_, mean, mask=inside)
    else:
        columns = tl.arange(0, form.width)
        out = (sums.own * size.factor).to(results.own.dtype.element_ty)
        pointers = results.own + place_[:, None] * size.width + columns[None, :]
        tl.store(pointers, out, mask=inside[:, None] & (columns[None, :] < size.width))
        if form.kind == "key":
            columns = tl.arange(0, form.depth)
            pointers = results.value + place_[:, None] * size.depth + columns[None, :]
            out = sums.value.to(results.value.dtype.element_ty)
            tl.store(pointers, out, mask=inside[:, None] & (columns[None, :] < size.depth))


# ---- before a launch -----------------------------------------------------------------------------


class Plan(NamedTuple):
    """A solution of rows and columns, [B, H, n] or [B, H, m] each."""

    row_bias: Tensor | None
    key_bias: Tensor | None
    row_term: Tensor | None
    key_term: Tensor | None
    # Of rows of entmax: where their weights are measured from, the order, and above order 2 dS there.
    levels: Levels | None = None
    alpha: float = 1.0
    push: Tensor | None = None

    def transposed(self) -> Plan:
        return self._replace(
            row_bias=self.key_bias, key_bias=self.row_bias, row_term=self.key_term, key_term=self.row_term
        )

    def with_terms(self, rows: Side, columns: Side, scoring: Scoring) -> Plan:
        """With the terms of rows whose weights have a fixed sum."""
        found = run("terms", rows, columns, self, scoring)
        push = found.push if isinstance(found.push, Tensor) else None
        return self._replace(row_term=found.own, push=push)


def run(kind: str, own: Side, other: Side, plan: Plan, scoring: Scoring) -> Any:
    """Gradients of the own side; of kind terms the Terms of its rows."""
    heads = max(own.own.shape[1], other.own.shape[1])
    batch, owners, n = own.own.shape[:3]
    m = other.own.shape[2]
    of_own, of_other = (batch, heads, n), (batch, heads, m)
    # The kernel takes terms that are 0 from memory as it takes others.
    zero = torch.zeros((), dtype=torch.float32, device=own.own.device)
    vectors = Vectors(
        own=vector(plan.row_bias, of_own),
        other=vector(plan.key_bias, of_other),
        own_term=vector(zero if plan.row_term is None else plan.row_term, of_own),
        other_term=vector(zero if plan.key_term is None else plan.key_term, of_other),
        slopes=vector(scoring.slopes, (batch, heads)),
    )
    weight, unit = "exp", LOG2E
    if plan.levels is not None:
        weight, unit = weight_of(plan.alpha), 1.0
        vectors = vectors._replace(
            anchor=plan.levels.anchor,
            weight=plan.levels.weight,
            steepest=plan.levels.column,
            push=0 if plan.push is None else plan.push,
        )
    size = scoring.size(own.own, other.own, own.value, heads, unit, plan.alpha - 1.0)
    tiled = "level" if weight in ("power", "edge") else kind
    shape = tile_of(tiled, max(size.width, size.depth), own.own.element_size())
    form = scoring.form(kind, size, vectors, shape, weight)
    results: Any
    if kind == "terms":
        result = own.own.new_empty(of_own, dtype=torch.float32)
        results = Terms(result)
        if weight == "edge":
            results = Terms(result, torch.empty_like(result))
    else:
        of_values = own.value.new_empty((batch, owners, n if kind == "key" else 0, size.depth))
        results = Gradients(own.own.new_empty(own.own.shape), of_values)
    programs = triton.cdiv(n, form.rows) * batch * owners
    arrays = [matrix(x) for x in (*own, *other)]
    launch(backward_kernel, programs, shape, *arrays, vectors, results, size, form)
    return results


def backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, *, scale: float, row_bias: Tensor | None = None,
    key_bias: Tensor | None = None, row_term: Tensor | None = None, key_term: Tensor | None = None,
    band: Band = (None, None), softcap: float = 0.0, slopes: Tensor | None = None, offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """dq, dk, dv in the types of q, k, v for P = exp(S + row_bias + key_bias).

    Of softmax rows row_bias = -lse and row_term = (dout * out).sum(-1). An infinite potential of either sign
    gives its row or column the weight 0."""
    plan = Plan(row_bias, key_bias, row_term, key_term)
    return gradients(Side(q, dout), Side(k, v), plan, Scoring(scale, band, softcap, slopes, offset))


def gradients(rows: Side, columns: Side, plan: Plan, scoring: Scoring) -> tuple[Tensor, Tensor, Tensor]:
    dq = run("query", rows, columns, plan, scoring).own
    dk, dv = run("key", columns, rows, plan.transposed(), scoring.transposed())
    return dq, dk, dv
