"""Sums over the columns of a row in Triton, one kernel in four kinds, on the problem or the transposed one:

    sums    lse_i = log sum_j exp(S_ij), without values
    attend  out_i = sum_j exp(S_ij - lse_i) v_j, and lse
    apply   out_i = sum_j P_ij x_j of a known plan P_ij = exp(S_ij), both biases being potentials
    vector  the same for x of width 1, which needs no second product of matrices

Shapes: q [B, H, n, d], k [B, Hk, m, d], values [B, H or Hk, m, width] with any strides; key_bias [B, H, m]
and row_bias [B, H, n] in nats, broadcast; slopes [H] or [B, H]; lse f32.
"""
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# Compiled code compares one name at a time.
# ruff: noqa: PLR1714
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from .triton_scores import (
    LN2,
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


class Sums(NamedTuple):
    """What a row has gathered: its largest score, the sum of its weights relative to that, their values."""

    top: Any
    mass: Any
    out: Any


@kernel
def add_tile(
    sums: Sums, query: tl.tensor, start: tl.tensor, first: tl.tensor,
    arrays: tl.tuple, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> Sums:  # fmt: skip
    """The columns first... added to the sums of a tile of rows."""
    key = tile(arrays[0], first, size.other, size.width, (form.columns, form.width, masked, form.ragged[0]))
    s, _ = scores(query, key, start, first, arrays[2], size, form, masked)
    top, mass, out = sums.top, sums.mass, sums.out
    if form.kind == "sums" or form.kind == "attend":
        top = tl.maximum(sums.top, tl.max(s, 1))
        shift = top
        if masked or form.other_bias:
            shift = tl.where(top == float("-inf"), 0.0, top)
        p = tl.exp2(s - shift[:, None])
        decay = tl.exp2(sums.top - shift)
        mass = mass * decay + tl.sum(p, 1)
        if form.kind == "attend":
            out = out * decay[:, None]
    else:
        p = tl.exp2(s + top[:, None])
    if form.kind == "vector":
        columns = first + tl.arange(0, form.columns)
        pointers = arrays[1].base + columns.to(tl.int64) * arrays[1].row
        if masked:
            x = tl.load(pointers, mask=columns < size.other, other=0.0)
        else:
            x = tl.load(pointers)
        out += tl.sum(p * x.to(tl.float32)[None, :], 1)
    elif form.kind != "sums":
        v = tile(arrays[1], first, size.other, size.depth, (form.columns, form.depth, masked, form.ragged[1]))
        out = product(p.to(v.dtype), v, out)
    return Sums(top, mass, out)


@kernel
def rows_kernel(
    own: Matrix, other: Matrix, values: Matrix, vectors: Vectors,
    out: tl.tensor, lse: tl.tensor, size: Size, form: tl.constexpr,
) -> None:  # fmt: skip
    start, batch, head = place(size, 1, form)
    pair = batch.to(tl.int64) * size.heads + head
    rows = start + tl.arange(0, form.rows)
    inside = rows < size.own
    query = tile(
        Matrix(at(own, batch, head // size.own_group), 0, 0, own.row, own.column),
        start, size.own, size.width, (form.rows, form.width, True, form.ragged[0]),
    )  # fmt: skip
    key = Matrix(at(other, batch, head // size.other_group), 0, 0, other.row, other.column)
    x = values
    if form.kind != "sums":
        x = Matrix(at(values, batch, head // size.values_group), 0, 0, values.row, values.column)
    potential = vectors.other
    if form.other_bias:
        potential = vectors.other + pair * size.other
    slope = vectors.slopes
    if form.slopes:
        slope = tl.load(vectors.slopes + pair) * size.unit
    top = tl.full([form.rows], float("-inf"), tl.float32)
    if form.kind == "apply" or form.kind == "vector":
        top = tl.zeros([form.rows], tl.float32)
        if form.own_bias:
            top = bias(vectors.own + pair * size.own, rows, size.own, size.unit)
    total = tl.zeros([form.rows], tl.float32)
    if form.kind == "attend" or form.kind == "apply":
        total = tl.zeros([form.rows, form.depth], tl.float32)
    sums = Sums(top, tl.zeros([form.rows], tl.float32), total)
    arrays = (key, x, Vectors(vectors.own, potential, vectors.own_term, vectors.other_term, slope))
    begin, left, whole, end, cuts = walk(start, size, form)
    for first in tl.range(whole, end, form.columns):
        sums = add_tile(sums, query, start, first, arrays, size, form, False)
    for step in tl.range(0, cuts):
        first = cut(step, begin, left, end, form.columns)
        sums = add_tile(sums, query, start, first, arrays, size, form, True)
    if form.kind == "sums" or form.kind == "attend":
        log = (sums.top + tl.log2(sums.mass)) * LN2
        log = tl.where(sums.mass == 0.0, float("-inf"), log)
        tl.store(lse + pair * size.own + rows, log, mask=inside)
    if form.kind == "attend" or form.kind == "apply":
        total = sums.out
        if form.kind == "attend":
            total = total / tl.where(sums.mass == 0.0, 1.0, sums.mass)[:, None]
        columns = tl.arange(0, form.depth)
        pointers = out + (pair * size.own + rows)[:, None] * size.depth + columns[None, :]
        tl.store(
            pointers, total.to(out.dtype.element_ty), mask=inside[:, None] & (columns[None, :] < size.depth)
        )
    if form.kind == "vector":
        tl.store(out + pair * size.own + rows, sums.out, mask=inside)


# ---- before a launch -----------------------------------------------------------------------------


def _run(
    kind: str, own: Tensor, other: Tensor, values: Tensor | None, biases: tuple[Tensor | None, Tensor | None],
    scoring: Scoring, heads: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(out, lse) of every row of `own`; biases: of own, of other; what a kind does not make is empty."""
    batch, n, m = own.shape[0], own.shape[2], other.shape[2]
    vectors = Vectors(
        own=vector(biases[0], (batch, heads, n)),
        other=vector(biases[1], (batch, heads, m)),
        slopes=vector(scoring.slopes, (batch, heads)),
    )
    size = scoring.size(own, other, values, heads, LOG2E)
    shape = tile_of(kind, max(size.width, 0 if kind == "vector" else size.depth), own.element_size())
    form = scoring.form(kind, size, vectors, shape)
    type_ = own.dtype if values is None or kind != "attend" else values.dtype
    depth = 0 if values is None else values.shape[3]
    out = own.new_empty((batch, heads, n, depth), dtype=type_ if kind == "attend" else torch.float32)
    lse = own.new_empty((batch, heads, n if kind in ("sums", "attend") else 0), dtype=torch.float32)
    programs = triton.cdiv(n, form.rows) * batch * heads
    v = matrix(own if values is None else values)
    launch(rows_kernel, programs, shape, matrix(own), matrix(other), v, vectors, out, lse, size, form)
    return out, lse


def row_lse(
    q: Tensor, k: Tensor, *, scale: float, key_bias: Tensor | None = None, band: Band = (None, None),
    softcap: float = 0.0, slopes: Tensor | None = None, offset: int = 0,
) -> Tensor:  # fmt: skip
    """log sum_j exp(S_ij + key_bias_j) [B, H, n], -inf of an empty row."""
    scoring = Scoring(scale, band, softcap, slopes, offset)
    return _run("sums", q, k, None, (None, key_bias), scoring, q.shape[1])[1]


def column_lse(
    q: Tensor, k: Tensor, *, scale: float, row_bias: Tensor | None = None, band: Band = (None, None),
    softcap: float = 0.0, slopes: Tensor | None = None, offset: int = 0,
) -> Tensor:  # fmt: skip
    """log sum_i exp(S_ij + row_bias_i) [B, H, m], a column's sum for each query head."""
    scoring = Scoring(scale, band, softcap, slopes, offset).transposed()
    return _run("sums", k, q, None, (None, row_bias), scoring, q.shape[1])[1]


def attend(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, key_bias: Tensor | None = None,
    band: Band = (None, None), softcap: float = 0.0, slopes: Tensor | None = None, offset: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Softmax rows of S + key_bias times the values, in their type, and lse as `row_lse`; 0 of empty rows."""
    scoring = Scoring(scale, band, softcap, slopes, offset)
    return _run("attend", q, k, v, (None, key_bias), scoring, q.shape[1])


def _kind(x: Tensor) -> str:
    return "vector" if x.shape[3] == 1 else "apply"


def apply_plan(
    q: Tensor, k: Tensor, x: Tensor, *, scale: float, row_bias: Tensor | None = None,
    key_bias: Tensor | None = None, band: Band = (None, None), softcap: float = 0.0,
    slopes: Tensor | None = None, offset: int = 0,
) -> Tensor:  # fmt: skip
    """P x [B, H, n, c] f32 of P = exp(S + row_bias + key_bias) and x [B, H or Hk, m, c].

    An infinite potential of either sign gives its row or column the weight 0."""
    scoring = Scoring(scale, band, softcap, slopes, offset)
    return _run(_kind(x), q, k, x, (row_bias, key_bias), scoring, q.shape[1])[0]


def apply_transposed(
    q: Tensor, k: Tensor, x: Tensor, *, scale: float, row_bias: Tensor | None = None,
    key_bias: Tensor | None = None, band: Band = (None, None), softcap: float = 0.0,
    slopes: Tensor | None = None, offset: int = 0,
) -> Tensor:  # fmt: skip
    """P^T x [B, H, m, c] f32 of the same plan and x [B, H, n, c]."""
    scoring = Scoring(scale, band, softcap, slopes, offset).transposed()
    return _run(_kind(x), k, q, x, (key_bias, row_bias), scoring, q.shape[1])[0]
