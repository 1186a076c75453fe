"""Scores of a tile in Triton: what the kernels of this folder share.

    S_ij = softcap(scale q_i . k_j) - slope_h |i + offset - j| + row_bias_i + key_bias_j, low <= j - i <= high

A program owns a tile of rows and walks the columns in tiles. A kernel that sums over queries is the same one
on the transposed problem: q and k change places, the band becomes (-high, -low) and the offset -offset; so
kernels say `own` and `other`, not query and key. Scores are kept times `unit`: log2(e), so that a weight is
one exp2; rows of entmax take differences first (triton_levels.py), and their unit is 1. Tiles that no bound
cuts are walked without any mask.

Contents of forbidden queries and keys must be finite: their weight is 0, and 0 times infinity or NaN is NaN.
"""
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor
from triton import knobs  # type: ignore[import-untyped, unused-ignore]

# Arguments of a kernel are checked by Triton; to Python it is a thing to launch.
kernel: Callable[[Callable[..., Any]], Any] = triton.jit

LOG2E = math.log2(math.e)
INTERPRETED = tl.constexpr(knobs.runtime.interpret)
LN2 = tl.constexpr(math.log(2.0))
Band = tuple[int | None, int | None]
# Offsets inside of a tile are 32 bits wide.
MOST_STRIDE = 1 << 22


class Matrix(NamedTuple):
    """A tensor [batch, heads, rows, width]: where it begins, and its strides."""

    base: Any
    batch: Any
    head: Any
    row: Any
    column: Any


class Vectors(NamedTuple):
    """Numbers of rows and columns, [batch, query heads, length] f32 without gaps; 0 where there are none."""

    own: Any = 0
    other: Any = 0
    own_term: Any = 0
    other_term: Any = 0
    slopes: Any = 0
    # Of rows of entmax, whichever side they are: a score of theirs, and the weight there.
    anchor: Any = 0
    weight: Any = 0
    # Of the plan's rows, whichever side they are: the column of the steepest slope, and dS there.
    steepest: Any = 0
    push: Any = 0


class Size(NamedTuple):
    """Numbers of one call. A group is how many query heads share a head of that side."""

    heads: Any
    own_group: Any
    other_group: Any
    values_group: Any
    own: Any
    other: Any
    width: Any
    depth: Any
    low: Any
    high: Any
    offset: Any
    scale: Any
    softcap: Any
    unit: Any
    factor: Any
    # Of rows of entmax: order - 1, and that over the temperature.
    gap: Any
    gain: Any


class Form(NamedTuple):
    """What is compiled in: the tile, padded widths, and which parts of a score there are."""

    kind: str
    rows: int
    columns: int
    width: int
    depth: int
    ragged: tuple[bool, bool]
    low: bool
    high: bool
    own_bias: bool
    other_bias: bool
    slopes: bool
    softcap: bool
    # How a weight is made of a score: exp2, or those of triton_levels.py.
    weight: str = "exp"


# ---- in kernels ----------------------------------------------------------------------------------


@kernel
def place(size: Size, group: tl.tensor, form: tl.constexpr) -> tl.tuple:
    """The tile of this program: first row, batch, head. Long rows of a causal triangle come first."""
    blocks = tl.cdiv(size.own, form.rows)
    block = tl.program_id(0) % blocks
    index = tl.program_id(0) // blocks
    if form.high and not form.low:
        block = blocks - 1 - block
    heads = size.heads // group
    return block * form.rows, index // heads, index % heads


@kernel
def at(x: Matrix, batch: tl.tensor, head: tl.tensor) -> tl.tensor:
    return x.base + batch.to(tl.int64) * x.batch + head.to(tl.int64) * x.head


@kernel
def tile(x: Matrix, start: tl.tensor, length: tl.tensor, width: tl.tensor, shape: tl.constexpr) -> tl.tensor:
    """Rows start... of a head, whose place x.base is; shape: rows, columns, may rows end, may columns end."""
    rows = tl.arange(0, shape[0])
    columns = tl.arange(0, shape[1])
    pointers = (
        x.base + tl.cast(start, tl.int64) * x.row + (rows[:, None] * x.row + columns[None, :] * x.column)
    )
    if shape[2] and shape[3]:
        return tl.load(
            pointers, mask=(rows[:, None] < length - start) & (columns[None, :] < width), other=0.0
        )
    elif shape[2]:
        return tl.load(pointers, mask=rows[:, None] < length - start, other=0.0)
    elif shape[3]:
        return tl.load(pointers, mask=columns[None, :] < width, other=0.0)
    else:
        return tl.load(pointers)


@kernel
def bias(base: tl.tensor, rows: tl.tensor, length: tl.tensor, unit: tl.tensor) -> tl.tensor:
    """Potentials times the unit; an infinite one of either sign forbids, as -log of an empty sum should."""
    x = tl.load(base + rows, mask=rows < length, other=0.0)
    return tl.where(tl.abs(x) == float("inf"), float("-inf"), x * unit)


@kernel
def walk(start: tl.tensor, size: Size, form: tl.constexpr) -> tl.tuple:
    """Of the columns that rows start... reach: the first, how many tiles lie left of the whole ones, where
    those begin and end, and how many tiles are cut in all."""
    last = tl.minimum(start + form.rows, size.own) - 1
    begin = start * 0
    end = begin + size.other
    if form.low:
        begin = tl.minimum(tl.maximum(start + size.low, 0), size.other) // form.columns * form.columns
    if form.high:
        end = tl.maximum(tl.minimum(last + size.high + 1, end), begin)
    whole_end = end // form.columns * form.columns
    if form.high:
        whole_end = tl.minimum(tl.maximum(start + size.high + 1, 0), end) // form.columns * form.columns
    whole_end = tl.maximum(whole_end, begin)
    whole = begin
    if form.low:
        whole = tl.cdiv(tl.maximum(last + size.low, 0), form.columns) * form.columns
        whole = tl.minimum(tl.maximum(whole, begin), whole_end)
    left = (whole - begin) // form.columns
    return begin, left, whole, whole_end, left + tl.cdiv(end - whole_end, form.columns)


@kernel
def cut(
    step: tl.tensor, begin: tl.tensor, left: tl.tensor, end: tl.tensor, columns: tl.constexpr
) -> tl.tensor:
    """Where the cut tile `step` begins: the left ones come first."""
    return tl.where(step < left, begin + step * columns, end + (step - left) * columns)


@kernel
def product(x: tl.tensor, y: tl.tensor, sum_: tl.tensor) -> tl.tensor:
    """sum + x y in f32. The interpreter multiplies bf16 as integers."""
    if INTERPRETED:
        x = x.to(tl.float32)
        y = y.to(tl.float32)
    return tl.dot(x, y, sum_, input_precision="ieee")


@kernel
def tanh(x: tl.tensor) -> tl.tensor:
    """Right to two units in the last place, also near 0 (the single precision of Cephes)."""
    z = x * x
    near = -5.70498872745e-3 * z + 2.06390887954e-2
    near = (near * z - 5.37397155531e-2) * z + 1.33314422036e-1
    near = ((near * z - 3.33332819422e-1) * z) * x + x
    size = tl.minimum(tl.abs(x), 10.0)
    far = 1.0 - 2.0 / (tl.exp(2.0 * size) + 1.0)
    return tl.where(tl.abs(x) < 0.625, near, tl.where(x < 0, -far, far))


@kernel
def scores(
    own: tl.tensor, other: tl.tensor, start: tl.tensor, first: tl.tensor,
    vectors: Vectors, size: Size, form: tl.constexpr, masked: tl.constexpr,
) -> tl.tuple:  # fmt: skip
    """The tile of scores times the unit, with columns' biases, not rows', and tanh where there is a softcap.

    vectors: pointers of this head, but for the slope, which is a number times the unit.
    """
    rows = start + tl.arange(0, form.rows)
    columns = first + tl.arange(0, form.columns)
    s = product(own, tl.trans(other), tl.zeros([form.rows, form.columns], tl.float32)) * size.scale
    bend = s
    if form.softcap:
        bend = tanh(s)
        s = bend * size.softcap
    if form.slopes:
        s -= vectors.slopes * tl.abs(rows[:, None] + size.offset - columns[None, :]).to(tl.float32)
    if form.other_bias:
        if masked:
            s += bias(vectors.other, columns, size.other, size.unit)[None, :]
        else:
            x = tl.load(vectors.other + columns)
            s += tl.where(tl.abs(x) == float("inf"), float("-inf"), x * size.unit)[None, :]
    if masked:
        allowed = columns[None, :] < size.other
        if form.low:
            allowed = allowed & (columns[None, :] - rows[:, None] >= size.low)
        if form.high:
            allowed = allowed & (columns[None, :] - rows[:, None] <= size.high)
        s = tl.where(allowed, s, float("-inf"))
    return s, bend


# ---- before a launch -----------------------------------------------------------------------------


def matrix(x: Tensor) -> Matrix:
    if max(map(abs, x.stride()[2:]), default=0) > MOST_STRIDE:
        x = x.contiguous()
    return Matrix(x, *x.stride())


def vector(x: Tensor | None, shape: tuple[int, ...]) -> Tensor | int:
    return 0 if x is None else x.to(torch.float32).expand(shape).contiguous()


def padded(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())


class Scoring(NamedTuple):
    """What makes a score, as the callers of every kernel give it."""

    scale: float
    band: Band = (None, None)
    softcap: float = 0.0
    slopes: Tensor | None = None
    offset: int = 0
    temperature: float = 1.0
    """Of rows of entmax, whose scores are not over it; other callers divide by it"""

    def transposed(self) -> Scoring:
        low, high = self.band
        band = (None if high is None else -high, None if low is None else -low)
        return self._replace(band=band, offset=-self.offset)

    def size(
        self, own: Tensor, other: Tensor, values: Tensor | None, heads: int, unit: float, gap: float = 0.0
    ) -> Size:
        n, m = own.shape[2], other.shape[2]
        low, high = self.band
        capped = self.softcap > 0.0
        return Size(
            heads=heads,
            own_group=heads // own.shape[1],
            other_group=heads // other.shape[1],
            values_group=1 if values is None else heads // values.shape[1],
            own=n,
            other=m,
            width=own.shape[3],
            depth=0 if values is None else values.shape[3],
            low=0 if low is None else max(min(low, m), -n),
            high=0 if high is None else max(min(high, m), -n),
            offset=self.offset,
            scale=self.scale / self.softcap if capped else self.scale * unit,
            softcap=self.softcap * unit,
            unit=unit,
            factor=self.scale / self.temperature,
            gap=gap,
            gain=gap / self.temperature,
        )

    def form(
        self, kind: str, size: Size, vectors: Vectors, shape: tuple[int, ...], weight: str = "exp"
    ) -> Form:
        low, high = self.band
        width, depth = padded(size.width), padded(size.depth)
        return Form(
            kind=kind,
            rows=shape[0],
            columns=shape[1],
            width=width,
            depth=depth,
            ragged=(width != size.width, depth != size.depth),
            low=low is not None and low > 1 - size.own,
            high=high is not None and high < size.other - 1,
            own_bias=isinstance(vectors.own, Tensor),
            other_bias=isinstance(vectors.other, Tensor),
            slopes=self.slopes is not None,
            softcap=self.softcap > 0.0,
            weight=weight,
        )
