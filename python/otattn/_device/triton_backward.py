"""Gradients of a known plan in Triton: one kernel, for queries or, transposed, for keys and values.

    P_ij = weight(S_ij + row_bias_i + key_bias_j)                     never normalised again
    dS_ij = slope_ij (dout_i . v_j - row_term_i - key_term_j)         slope = P for weight = exp
    dq = scale dS k    dk = scale dS^T q    dv = P^T dout             through the softcap's derivative

A program owns rows of one gradient and sums over the other side in order, a group's query heads one after
another, so that no sum depends on a schedule. The third kind is the term of rows whose weights have a fixed
sum, sum_j slope_ij dout_i . v_j / sum_j slope_ij.

Above order 2 one slope of a row may outweigh the digits of all others (`Form.steep`): terms are measured from
dout_i . v_j of its key, whose dS they give, as others do that run no kernels (entmax.py).
"""
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

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
    """Of rows: the term, and where one slope may be steep its column (-1: none) and dS there."""

    own: Any
    steepest: Any = 0
    push: Any = 0


class Steep(NamedTuple):
    """The two sums of a row, of dout . v less `middle`, that of its steepest slope so far, and its column."""

    own: Any
    value: Any
    middle: Any
    slope: Any
    column: Any


class Side(NamedTuple):
    """A tile of one side, or where its head begins: queries or keys, and upstream gradients or values."""

    own: Any
    value: Any


@kernel
def weigh(z: tl.tensor, size: Size, form: tl.constexpr) -> tl.tuple:
    """Weight and slope of a score above its threshold, 0 below it."""
    if form.weight == "exp":
        p = tl.exp2(z)
        return p, p
    else:
        above = tl.maximum(z, 0.0, propagate_nan=tl.PropagateNan.ALL)
        if form.weight == "linear":
            return above, tl.where(z > 0.0, 1.0, 0.0)
        elif form.weight == "square":
            return above * above, above
        else:
            power = 1.0 / size.unit
            log = tl.log2(tl.where(above == 0.0, 1.0, above))
            p = tl.where(above == 0.0, 0.0, tl.exp2(log * power))
            # Products of the largest slope stay within the type's range.
            return p, tl.where(above == 0.0, 0.0, tl.exp2(tl.minimum(log * (power - 1.0), 100.0)))


@kernel
def steeper(sums: Steep, slope: tl.tensor, ds: tl.tensor, first: tl.tensor, form: tl.constexpr) -> Steep:
    """The columns first... added to sums that are measured from their steepest slope."""
    columns = first + tl.arange(0, form.columns)
    column = first + tl.argmax(slope, 1).to(tl.int32)
    most = tl.max(slope, 1)
    better = most > sums.slope
    found = tl.sum(tl.where(columns[None, :] == column[:, None], ds, 0.0), 1)
    middle = tl.where(better, found, sums.middle)
    own = sums.own + sums.value * (sums.middle - middle)
    own += tl.sum(tl.where(slope > 0.0, slope * (ds - middle[:, None]), 0.0), 1)
    column = tl.where(better, column, sums.column)
    return Steep(own, sums.value + tl.sum(slope, 1), middle, tl.maximum(most, sums.slope), column)


@kernel
def add_tile(
    sums: Gradients, mine: Side, start: tl.tensor, first: tl.tensor,
    head: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> tl.tuple:  # fmt: skip
    """head: the other side of this head, its vectors, bias and term of the own rows, their steepest columns
    and dS there."""
    theirs, vectors, potential, term, steepest, push = head
    other = tile(
        theirs.own, first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0])
    )
    values = tile(
        theirs.value, first, size.other, size.depth, (form.columns, form.depth, masked, form.ragged[1])
    )
    s, bend = scores(mine.own, other, start, first, vectors, size, form, masked)
    if form.own_bias:
        s += potential[:, None]
    p, slope = weigh(s, size, form)
    ds = product(mine.value, tl.trans(values), tl.zeros([form.rows, form.columns], tl.float32))
    if form.kind == "terms":
        if form.steep:
            return steeper(sums, slope, ds, first, form)
        else:
            return Gradients(sums.own + tl.sum(slope * ds, 1), sums.value + tl.sum(slope, 1))
    else:
        columns = first + tl.arange(0, form.columns)
        if masked:
            theirs_term = tl.load(vectors.other_term + columns, mask=columns < size.other, other=0.0)
        else:
            theirs_term = tl.load(vectors.other_term + columns)
        ds = slope * (ds - term[:, None] - theirs_term[None, :])
        if form.steep:
            if form.kind == "query":
                ds = tl.where(columns[None, :] == steepest[:, None], push[:, None], ds)
            else:
                rows = start + tl.arange(0, form.rows)
                inside = columns < size.other
                steepest = tl.load(vectors.steepest + columns, mask=inside, other=-1)
                push = tl.load(vectors.push + columns, mask=inside, other=0.0)
                ds = tl.where(rows[:, None] == steepest[None, :], push[None, :], ds)
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
        if form.steep:
            return Steep(zero, zero, zero, zero, tl.full([form.rows], -1, tl.int32))
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
        steepest, push = slope, slope
        if form.steep and form.kind == "query":
            steepest = tl.load(vectors.steepest + pair * size.own + rows, mask=rows < size.own, other=-1)
            push = tl.load(vectors.push + pair * size.own + rows, mask=rows < size.own, other=0.0)
        reach = Vectors(
            vectors.own, vectors.other + pair * size.other, vectors.own_term,
            vectors.other_term + pair * size.other, slope,
            vectors.steepest + pair * size.other, vectors.push + pair * size.other,
        )  # fmt: skip
        arguments = (theirs, reach, potential, term, steepest, push)
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
        if form.steep:
            tl.store(results.own + place_, sums.middle + mean, mask=inside)
            tl.store(results.steepest + place_, sums.column, mask=inside)
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
    """A solution of rows and columns, [B, H, n] or [B, H, m] each, and the weight that it is of."""

    row_bias: Tensor | None
    key_bias: Tensor | None
    row_term: Tensor | None
    key_term: Tensor | None
    weight: str = "exp"
    unit: float = LOG2E
    # Of rows beside their terms, where that is steep.
    steepest: Tensor | None = None
    push: Tensor | None = None

    def transposed(self) -> Plan:
        return self._replace(
            row_bias=self.key_bias, key_bias=self.row_bias, row_term=self.key_term, key_term=self.row_term
        )

    def with_terms(self, rows: Side, columns: Side, scoring: Scoring) -> Plan:
        """With the terms of rows whose weights have a fixed sum."""
        found = run("terms", rows, columns, self, scoring)
        if not self.is_steep():
            return self._replace(row_term=found.own)
        return self._replace(row_term=found.own, steepest=found.steepest, push=found.push)

    def is_steep(self) -> bool:
        """Whether a slope may outweigh the digits of others: one above order 2, whose unit is order - 1."""
        return self.weight == "power" and self.unit > 1.0


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
        steepest=0 if plan.steepest is None else plan.steepest,
        push=0 if plan.push is None else plan.push,
    )
    size = scoring.size(own.own, other.own, own.value, heads, plan.unit)
    shape = tile_of(kind, max(size.width, size.depth), own.own.element_size())
    steep = plan.is_steep()
    form = scoring.form(kind, size, vectors, shape, plan.weight)._replace(steep=steep)
    results: Any
    if kind == "terms":
        result = own.own.new_empty(of_own, dtype=torch.float32)
        results = Terms(result)
        if steep:
            results = Terms(result, torch.empty_like(result, dtype=torch.int32), torch.empty_like(result))
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
