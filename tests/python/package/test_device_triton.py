"""Kernels of Triton beside plain formulas in f64.

Functions `check_*` run in Triton's interpreter, which has to be chosen before triton is imported: in a
process of their own, in which pytest collects that name. Tiles are 16 x 16 there.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

# The interpreter cuts what becomes bf16 off instead of rounding it: twice the unit roundoff of 2^-8.
ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-7}
SMALLEST = {torch.float32: 2.0**-149, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
EXAMPLES = int(os.environ.get("OTATTN_EXAMPLES", "12"))
# A case of the interpreter takes too long to be made smaller.
drawn = settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
U32 = ROUNDOFF[torch.float32]


def test_kernels_in_the_interpreter(root: Path) -> None:
    words = [
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::RuntimeWarning",
        "-o",
        "python_functions=check_*",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"}, cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


# ---- problems and their formulas -----------------------------------------------------------------


class Problem(NamedTuple):
    """What is drawn, in the kernels' layout, with the options that every function takes."""

    q: Tensor
    k: Tensor
    v: Tensor
    dout: Tensor
    row_bias: Tensor | None
    key_bias: Tensor | None
    options: dict[str, Any]

    def wide(self) -> Problem:
        return self._replace(q=self.q.double(), k=self.k.double(), v=self.v.double(), dout=self.dout.double())


def per_head(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[1], 1)


def positions(p: Problem) -> tuple[Tensor, Tensor]:
    return torch.arange(p.q.shape[2])[:, None], torch.arange(p.k.shape[2])[None, :]


def plain_scores(p: Problem, row: bool = True, key: bool = True) -> Tensor:
    o = p.options
    s = o["scale"] * p.q @ per_head(p.k, p.q.shape[1]).mT
    if o["softcap"]:
        s = o["softcap"] * torch.tanh(s / o["softcap"])
    i, j = positions(p)
    if o["slopes"] is not None:
        s = s - o["slopes"].double()[..., None, None] * (i + o["offset"] - j).abs()
    for wanted, bias, axis in ((row, p.row_bias, -1), (key, p.key_bias, -2)):
        if wanted and bias is not None:
            bias = bias.double().unsqueeze(axis)
            s = torch.where(bias.isinf(), -math.inf, s + torch.where(bias.isinf(), 0.0, bias))
    low, high = o["band"]
    allowed = torch.ones_like(s, dtype=torch.bool)
    if low is not None:
        allowed &= j - i >= low
    if high is not None:
        allowed &= j - i <= high
    return s.masked_fill(~allowed, -math.inf)


def magnitudes(p: Problem, s: Tensor) -> Tensor:
    """What B of the tolerances is the most of: |S_ij| with every term by its size, 0 of forbidden pairs."""
    o = p.options
    size = abs(o["scale"]) * p.q.abs() @ per_head(p.k, p.q.shape[1]).abs().mT
    i, j = positions(p)
    if o["slopes"] is not None:
        size = size + o["slopes"].double()[..., None, None] * (i + o["offset"] - j).abs()
    for bias, axis in ((p.row_bias, -1), (p.key_bias, -2)):
        if bias is not None:
            size = size + torch.where(bias.isinf(), 0.0, bias.double()).abs().unsqueeze(axis)
    return torch.where(s == -math.inf, 0.0, size)


def most(size: Tensor, axis: int) -> Tensor:
    return size.amax(axis) if size.shape[axis] else size.sum(axis)


def close(name: str, got: Tensor, wanted: Tensor, bound: Tensor) -> None:
    assert got.shape == wanted.shape, (name, got.shape, wanted.shape)
    same = (got.double() == wanted) | ((got.double() - wanted).abs() <= bound)
    assert same.all(), (name, (got.double() - wanted)[~same][:5], bound.expand(got.shape)[~same][:5])


def rounding(x: Tensor, type_: torch.dtype) -> Tensor:
    return ROUNDOFF[type_] * x.abs() + SMALLEST[type_]


def factor(x: Tensor, type_: torch.dtype) -> Tensor:
    """The same of a factor of a product in f32, which is not rounded where the type is f32."""
    return torch.zeros_like(x) if type_ == torch.float32 else rounding(x, type_)


@st.composite
def problems(draw: st.DrawFn, potentials: bool = False) -> Problem:
    """potentials: both biases are there, so small that no weight overflows."""
    heads, group = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2)]))
    batch = draw(st.integers(1, 2)) if heads == 1 else 1
    n, m = draw(st.integers(0, 36)), draw(st.integers(0, 36))
    width, depth = draw(st.sampled_from([3, 16, 20])), draw(st.sampled_from([1, 7, 16, 33]))
    type_ = draw(st.sampled_from([torch.float32, torch.float32, torch.bfloat16, torch.float16]))
    noise = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def numbers(heads: int, length: int, width: int) -> Tensor:
        """Random ones, in one of three layouts."""
        layout = draw(st.sampled_from(["plain", "heads inside", "gaps"]))
        if layout == "heads inside":
            return torch.randn(batch, length, heads, width, generator=noise).to(type_).transpose(1, 2)
        if layout == "gaps":
            return torch.randn(batch, heads, length, 2 * width, generator=noise).to(type_)[..., ::2]
        return torch.randn(batch, heads, length, width, generator=noise).to(type_)

    def bias(length: int) -> Tensor | None:
        if not potentials and draw(st.booleans()):
            return None
        x = torch.randn(batch, heads, length, generator=noise)
        if draw(st.booleans()):
            x[torch.rand(x.shape, generator=noise) < 0.3] = draw(st.sampled_from([math.inf, -math.inf]))
        return x - 2.0 if potentials else x

    bounds = st.none() | st.integers(-20, 20)
    low, high = draw(bounds), draw(bounds)
    if low is not None and high is not None and low > high:
        low, high = high, low
    options = {
        "scale": draw(st.sampled_from([0.3, -0.2, 1.0])),
        "band": (low, high),
        "softcap": draw(st.sampled_from([0.0, 0.0, 2.0])),
        "slopes": torch.rand(heads, generator=noise) if draw(st.booleans()) else None,
        "offset": draw(st.sampled_from([0, m - n])),
    }
    keys = heads // group
    q, dout = numbers(heads, n, width), numbers(heads, n, depth)
    k, v = numbers(keys, m, width), numbers(keys, m, depth)
    return Problem(q, k, v, dout, bias(n), bias(m), options)


# ---- checks in the interpreter -------------------------------------------------------------------


@drawn
@given(p=problems())
def check_sums_of_rows_and_columns(p: Problem) -> None:
    from otattn._device import triton_rows

    wide = p.wide()
    s = plain_scores(wide, row=False)
    bound = U32 * (8 + 4 * most(magnitudes(wide, s), -1))
    wanted = s.logsumexp(-1)
    got = triton_rows.row_lse(p.q, p.k, key_bias=p.key_bias, **p.options)
    close("row lse", got, wanted, bound + rounding(wanted, torch.float32))
    s = plain_scores(wide, key=False)
    bound = U32 * (8 + 4 * most(magnitudes(wide, s), -2))
    wanted = s.logsumexp(-2)
    got = triton_rows.column_lse(p.q, p.k, row_bias=p.row_bias, **p.options)
    close("column lse", got, wanted, bound + rounding(wanted, torch.float32))


@drawn
@given(p=problems())
def check_attention(p: Problem) -> None:
    from otattn._device import triton_rows

    wide, type_ = p.wide(), p.v.dtype
    s = plain_scores(wide, row=False)
    error = U32 * (8 + 4 * most(magnitudes(wide, s), -1))
    lse = s.logsumexp(-1)
    weights = (s - lse.unsqueeze(-1)).exp().nan_to_num(0.0)
    values = per_head(wide.v, p.q.shape[1])
    wanted, size = weights @ values, weights @ values.abs()
    out, got = triton_rows.attend(p.q, p.k, p.v, key_bias=p.key_bias, **p.options)
    assert out.dtype == type_
    close("lse", got, lse, error + rounding(lse, torch.float32))
    rounded = factor(weights, type_) @ values.abs()
    close("out", out, wanted, size * error.unsqueeze(-1) + rounded + rounding(wanted, type_))


@drawn
@given(p=problems(potentials=True))
def check_products_with_a_plan(p: Problem) -> None:
    from otattn._device import triton_rows

    wide, type_ = p.wide(), p.v.dtype
    s = plain_scores(wide)
    plan, size = s.exp(), magnitudes(wide, s)
    rounded = factor(plan, torch.float32 if p.v.shape[3] == 1 else type_)
    biases = {"row_bias": p.row_bias, "key_bias": p.key_bias}
    values = per_head(wide.v, p.q.shape[1])
    error = U32 * (8 + 4 * most(size, -1)).unsqueeze(-1)
    got = triton_rows.apply_plan(p.q, p.k, p.v, **biases, **p.options)
    assert got.dtype == torch.float32
    close("P x", got, plan @ values, (plan * error + rounded) @ values.abs())
    error = U32 * (8 + 4 * most(size, -2)).unsqueeze(-2)
    got = triton_rows.apply_transposed(p.q, p.k, p.dout, **biases, **p.options)
    close("P^T x", got, plan.mT @ wide.dout, (plan * error + rounded).mT @ wide.dout.abs())


def summed(x: Tensor, heads: int) -> Tensor:
    """Sums over the query heads of each key head."""
    return x.unflatten(1, (heads, -1)).sum(2)


@drawn
@given(p=problems(potentials=True), terms=st.booleans())
def check_gradients_of_a_plan(p: Problem, terms: bool) -> None:
    from otattn._device import triton_backward

    wide, type_ = p.wide(), p.q.dtype
    s = plain_scores(wide)
    plan = s.exp()
    row_term = torch.randn(plan.shape[:3]) if terms else None
    key_term = torch.randn(plan.shape[0], plan.shape[1], plan.shape[3]) if terms else None
    row = torch.zeros(plan.shape[:3]) if row_term is None else row_term
    key = torch.zeros(plan.shape[0], plan.shape[1], plan.shape[3]) if key_term is None else key_term
    values, heads = per_head(wide.v, p.q.shape[1]), p.k.shape[1]
    keys = per_head(wide.k, p.q.shape[1])
    ds = plan * (wide.dout @ values.mT - row.double().unsqueeze(-1) - key.double().unsqueeze(-2))
    size = plan * (wide.dout.abs() @ values.abs().mT + row.abs().unsqueeze(-1) + key.abs().unsqueeze(-2))
    scale, cap = p.options["scale"], p.options["softcap"]
    if cap:
        bend = torch.tanh(scale * wide.q @ keys.mT / cap)
        ds, size = ds * (1 - bend**2), size * (1 + bend**2)
    of = magnitudes(wide, s)
    of_rows = U32 * (32 + 8 * most(of, -1)).unsqueeze(-1)
    of_keys = U32 * (32 + 8 * most(of, -2)).unsqueeze(-2)
    dq, dk, dv = triton_backward.backward(
        p.q, p.k, p.v, p.dout, row_bias=p.row_bias, key_bias=p.key_bias,
        row_term=row_term, key_term=key_term, **p.options,
    )  # fmt: skip
    assert (dq.dtype, dk.dtype, dv.dtype) == (type_, type_, type_)
    rounded = factor(size, type_)
    wanted = scale * ds @ keys
    bound = abs(scale) * (size * of_rows + rounded) @ keys.abs()
    close("dq", dq, wanted, bound + rounding(wanted, type_))
    wanted = summed(scale * ds.mT @ wide.q, heads)
    bound = summed(abs(scale) * (size * of_keys + rounded).mT @ wide.q.abs(), heads)
    close("dk", dk, wanted, bound + rounding(wanted, type_))
    wanted = summed(plan.mT @ wide.dout, heads)
    bound = summed((plan * of_keys + factor(plan, type_)).mT @ wide.dout.abs(), heads)
    close("dv", dv, wanted, bound + rounding(wanted, type_))
