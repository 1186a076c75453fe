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

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

# The interpreter cuts what becomes bf16 off instead of rounding it: twice the unit roundoff of 2^-8.
ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-7}
SMALLEST = {torch.float32: 2.0**-149, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
EXAMPLES = int(os.environ.get("OTATTN_EXAMPLES", "10"))
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


def test_kept_table(root: Path) -> None:
    """Registers, spills and tensor cores of two kernels are those of docs/records/gpu-kernels.md."""
    rows = ["| attend | bf16 | 64 | causal | sm_90 |", "| sums | bf16 | 64 | full | gfx942 |"]
    words = [root / "scripts/gpu_table.py", "--check", root / "docs/records/gpu-kernels.md", *rows]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0 and "2 rows as kept" in done.stdout, done.stdout + done.stderr[-2000:]


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
    """potentials: both biases are there, so small that no weight or gradient overflows in f16."""
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
        return x - 4.0 if potentials else x

    bounds = st.none() | st.integers(-20, 20)
    low, high = draw(bounds), draw(bounds)
    if low is not None and high is not None and low > high:
        low, high = high, low
    options = {
        "scale": draw(st.sampled_from([0.3, -0.2] if potentials else [0.3, -0.2, 1.0])),
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


@pytest.mark.parametrize("low", [None, -19, -2, 0, 3, 18])
def check_bands(low: int | None) -> None:
    """Tiles that a bound cuts and tiles that it does not, on several of each side."""
    from otattn._device import triton_rows

    noise = torch.Generator().manual_seed(7)
    q, k = (torch.randn(1, 1, length, 16, generator=noise) for length in (50, 67))
    for high in (None, -17, 0, 2, 21):
        if low is None or high is None or low <= high:
            options = {"scale": 0.3, "band": (low, high), "softcap": 0.0, "slopes": None, "offset": 0}
            wide = Problem(q, k, k, q, None, None, options).wide()
            s = plain_scores(wide)
            for axis, function in ((-1, triton_rows.row_lse), (-2, triton_rows.column_lse)):
                wanted = s.logsumexp(axis)
                bound = U32 * (8 + 4 * most(magnitudes(wide, s), axis)) + rounding(wanted, torch.float32)
                close(f"{low} {high}", function(q, k, scale=0.3, band=(low, high)), wanted, bound)


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


def check_gradients_of_softmax() -> None:
    """Beside autograd: -lse and sum_j dout_i . out_i are what make a plan's gradients those of attention."""
    from otattn._device import triton_backward, triton_rows

    noise = torch.Generator().manual_seed(7)
    q, dout = (torch.randn(2, 2, 37, 20, generator=noise) for _ in range(2))
    k, v = (torch.randn(2, 1, 45, 20, generator=noise) for _ in range(2))
    slopes = torch.tensor([0.2, 0.05])
    options = {"scale": 0.3, "band": (-20, 8), "softcap": 3.0, "slopes": slopes, "offset": 8}
    p = Problem(q, k, v, dout, None, None, options).wide()
    of = [x.requires_grad_() for x in (p.q, p.k, p.v)]
    s = plain_scores(p)
    wanted = torch.autograd.grad((s.softmax(-1) @ per_head(p.v, 2) * p.dout).sum(), of)
    out, lse = triton_rows.attend(q, k, v, **options)
    got = triton_backward.backward(
        q, k, v, dout, row_bias=-lse, row_term=(dout * out).sum(-1), **options
    )  # fmt: skip
    # Every term by its size; B has lse, too.
    with torch.no_grad():
        plan, values, keys = s.softmax(-1), per_head(p.v, 2), per_head(p.k, 2)
        up = plan * (p.dout.abs() @ values.abs().mT)
        size = 2 * (up + plan * up.sum(-1, keepdim=True))
        error = U32 * (32 + 8 * (magnitudes(p, s).amax() + s.logsumexp(-1).abs().amax()))
        bounds = (
            0.3 * size @ keys.abs(), summed(0.3 * size.mT @ p.q.abs(), 1), summed(plan.mT @ p.dout.abs(), 1)
        )  # fmt: skip
    for name, x, y, bound in zip(("dq", "dk", "dv"), got, wanted, bounds, strict=True):
        close(name, x, y, error * bound + rounding(y, torch.float32))


def plain_entmax(s: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Rows of entmax and their thresholds in the scores' unit, by halving."""
    if not s.shape[3]:
        return s, torch.full(s.shape[:3], math.inf)
    z = s * (alpha - 1)
    top = z.amax(-1, keepdim=True)
    high = torch.where(top > -math.inf, top, 0.0)
    low = high - 1
    for _ in range(60):
        middle = (low + high) / 2
        above = (z - middle).clamp(min=0).pow(1 / (alpha - 1)).sum(-1, keepdim=True) >= 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    tau = torch.where(top > -math.inf, low / (alpha - 1), math.inf)
    return (z - low).clamp(min=0).pow(1 / (alpha - 1)), tau.squeeze(-1)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.25, 3.0])
@settings(drawn, max_examples=EXAMPLES // 2)
@given(p=problems())
def check_entmax(p: Problem, alpha: float) -> None:
    """Up to order 2, above which a weight near 0 may move without bound."""
    from otattn._device import triton_entmax

    wide, type_ = p.wide(), p.v.dtype
    s = plain_scores(wide, row=False)
    plan, tau = plain_entmax(s, alpha)
    slope = torch.where(plan > 0, plan ** (2 - alpha), 0.0)
    # An error of a score, and that of the threshold, times its slope; a score in the kernel's unit is rounded
    # where it is near 1 above the threshold.
    error = U32 * (8 + 4 * most(magnitudes(wide, s), -1) + 4 / (alpha - 1)).unsqueeze(-1)
    values = per_head(wide.v, p.q.shape[1])
    out, levels = triton_entmax.entmax_attend(p.q, p.k, p.v, alpha, key_bias=p.key_bias, **p.options)
    got = -triton_entmax.potentials(levels, alpha)
    close("threshold", got, tau, torch.where(tau.isinf(), 0.0, error.squeeze(-1)))
    # Weights at the edge of the support: a score that passes it by its error weighs at most so much.
    edge = ((alpha - 1) * 2 * error) ** (1 / (alpha - 1)) * (s > -math.inf)
    moved = 2 * error * slope + edge
    rounded = factor(plan, type_)
    close("out", out, plan @ values, (moved + rounded) @ values.abs() + rounding(plan @ values, type_))


def levels_of(s: Tensor, plan: Tensor, alpha: float) -> Any:
    """From where the kernels measure the weights of rows: the largest score, above order 2 the least used."""
    from otattn._device.triton_levels import Levels

    used = torch.where(plan > 0, s, math.inf if alpha > 2 else -math.inf)
    if not s.shape[3]:
        used = torch.full((*s.shape[:3], 1), math.inf)
        plan = torch.zeros_like(used)
    column = (used.argmin(-1) if alpha > 2 else used.argmax(-1)).unsqueeze(-1)
    weight = plan.gather(-1, column).squeeze(-1)
    some = weight > 0
    anchor = torch.where(some, used.gather(-1, column).squeeze(-1), math.inf)
    return Levels(anchor.float(), weight.float(), torch.where(some, column.squeeze(-1), -1).int())


@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.25, 3.0])
@settings(drawn, max_examples=EXAMPLES // 2)
@given(p=problems())
def check_gradients_of_entmax(p: Problem, alpha: float) -> None:
    """From weights of the formula. A row with a score so near its threshold that f32 may put it on the
    other side has another slope there, and is left out of the loss."""
    from otattn._device import triton_entmax

    wide, type_ = p.wide(), p.q.dtype
    s = plain_scores(wide, row=False)
    plan, tau = plain_entmax(s, alpha)
    level = torch.where(tau.isinf(), 0.0, tau).unsqueeze(-1)
    size = most(magnitudes(wide, s), -1).unsqueeze(-1) + level.abs()
    error = U32 * (8 + 4 * size + 4 / (alpha - 1))
    height = (s - level).abs()
    sure = (height > 64 * error).all(-1, keepdim=True)
    dout = torch.where(sure, p.dout, 0.0)
    values, heads = per_head(wide.v, p.q.shape[1]), p.k.shape[1]
    keys = per_head(wide.k, p.q.shape[1])
    slope = torch.where(plan > 0, plan ** (2 - alpha), 0.0)
    mass = slope.sum(-1, keepdim=True)
    mass = torch.where(mass > 0, mass, 1.0)
    up, up_size = dout.double() @ values.mT, dout.double().abs() @ values.abs().mT
    ds = slope * (up - (slope * up).sum(-1, keepdim=True) / mass)
    ds_size = slope * (up_size + (slope * up_size).sum(-1, keepdim=True) / mass)
    scale, cap = p.options["scale"], p.options["softcap"]
    if cap:
        bend = torch.tanh(scale * wide.q @ keys.mT / cap)
        ds, ds_size = ds * (1 - bend**2), ds_size * (1 + bend**2)
    # A slope is a power of the height, so an error of the height is relative to it.
    power = max(1.0, (2 - alpha) / (alpha - 1), 1 / (alpha - 1))
    relative = error / torch.where(plan > 0, height, math.inf)
    relative = 2 * power * most(relative, -1).unsqueeze(-1) + 32 * U32
    dq, dk, dv = triton_entmax.entmax_backward(
        p.q, p.k, p.v, dout, levels_of(s, plan, alpha), alpha, key_bias=p.key_bias, **p.options
    )  # fmt: skip
    bound = ds_size * 2 * relative + factor(ds_size, type_)
    wanted = scale * ds @ keys
    close("dq", dq, wanted, abs(scale) * bound @ keys.abs() + rounding(wanted, type_))
    wanted = summed(scale * ds.mT @ wide.q, heads)
    close("dk", dk, wanted, summed(abs(scale) * bound.mT @ wide.q.abs(), heads) + rounding(wanted, type_))
    wanted = summed(plan.mT @ dout.double(), heads)
    bound = summed((plan * relative + factor(plan, type_)).mT @ dout.double().abs(), heads)
    close("dv", dv, wanted, bound + rounding(wanted, type_))


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
@pytest.mark.parametrize("alpha", [2.5, 3.0, 5.0, 10.0])
def check_steep_slopes_of_entmax(alpha: float, kind: torch.dtype) -> None:
    """One weight of a row of 37 has a slope up to 2^40 times the others', as values of a common part show.

    Queries are unit vectors and the level is 0, so that scores are numbers of the keys, of a power of the
    weight, and the gradient of keys is dS."""
    from otattn._device import triton_entmax

    noise = torch.Generator().manual_seed(7)
    n, m, group, depth = 20, 37, 2, 16
    rows, power = n * group, 1.0 / (alpha - 1.0)
    heights = (0.5 + torch.rand(rows, m, generator=noise).double()) ** (alpha - 1.0)
    smallest = 2.0 ** (-24 if kind == torch.float16 else -40)
    heights[torch.arange(rows), torch.randint(m, (rows,), generator=noise)] = smallest
    # The last row has no weight.
    heights[-1] = -1.0
    scores = (heights * power).to(kind)
    k = scores.T[None, None]
    q = torch.eye(rows, dtype=kind).reshape(1, group, n, rows)
    v = torch.randn(1, 1, m, depth, generator=noise).to(kind)
    v[..., 0] = 64.0
    dout = torch.randn(1, group, n, depth, generator=noise).to(kind)
    plan = ((alpha - 1.0) * scores.double()).clamp(min=0.0) ** power
    levels = levels_of(scores.double()[None, None], plan[None, None], alpha)
    levels = levels._replace(**{name: x.reshape(1, group, n) for name, x in levels._asdict().items()})
    dq, dk, _ = triton_entmax.entmax_backward(q, k, v, dout, levels, alpha, scale=1.0)
    of, values = dout.double().reshape(rows, depth), v[0, 0].double()
    up, size = of @ values.mT, of.abs() @ values.abs().mT
    heights = (alpha - 1.0) * scores.double()
    w = torch.where(heights > 0.0, heights.clamp(min=0.0) ** (power - 1.0), 0.0)
    steepest = w.argmax(1, keepdim=True)
    apart = up - up.gather(1, steepest)
    ds = w * (apart - ((w * apart).sum(1) / w.sum(1).clamp(min=1.0))[:, None])
    ds = ds.scatter(1, steepest, 0.0)
    bound = (w * (size + size.gather(1, steepest))).scatter(1, steepest, 0.0)
    ds = ds.scatter(1, steepest, -ds.sum(1, keepdim=True))
    bound = bound.scatter(1, steepest, bound.sum(1, keepdim=True)) * 64 * U32 + factor(ds, kind)
    close("dk", dk[0, 0].mT, ds, bound + rounding(ds, kind))
    wanted, bound = (x @ y.double().mT for x, y in ((ds, scores), (bound, scores.abs())))
    close("dq", dq.reshape(rows, rows), wanted, bound + rounding(wanted, kind))


def precise_entmax(row: list[float], alpha: float) -> list[float]:
    """The weights of a row, by halving with 120 digits."""
    from mpmath import mp, mpf

    with mp.workdps(120):
        a = mpf(alpha) - 1
        z = [a * mpf(x) for x in row]
        low, high = max(z) - 1, max(z)
        for _ in range(320):
            middle = (low + high) / 2
            if mp.fsum((x - middle) ** (1 / a) for x in z if x > middle) >= 1:
                low = middle
            else:
                high = middle
        return [float((x - low) ** (1 / a)) if x > low else 0.0 for x in z]


@pytest.mark.parametrize("alpha", [1.0001, 1.01, 1.05, 1.1, 1.5, 1.9, 2.0, 2.25, 2.5, 3.0, 4.0, 10.0])
def check_entmax_to_rounding(alpha: float) -> None:
    """At scores of f32 weights are right to a few roundings of 1, and derivatives to what those move.

    A third of the rows has a weight of 1e-1 to 1e-7 at the edge of the support, where a threshold in f32
    moves it by u^(1 / (alpha - 1)); next to order 1 one moves weights by u / (alpha - 1)."""
    import otattn

    noise = torch.Generator().manual_seed(11)
    a, m, third = alpha - 1.0, 20, 4
    rows = 3 * third
    scores = torch.randn(rows, m, generator=noise).double()
    scores[third : 2 * third] *= 3.0
    p = torch.rand(third, m, generator=noise).double()
    p[:, 5:] = 0.0
    p[:, 4] = 10.0 ** -(1.0 + 6.0 * torch.rand(third, generator=noise).double())
    p[:, :4] *= ((1.0 - p[:, 4]) / p[:, :4].sum(1))[:, None]
    scores[-third:] = (p**a - 1.0) / a
    scores[-third:, 5:] -= 0.5
    key = scores.float().T[None, None].clone().requires_grad_()
    value = torch.eye(m)[None, None]
    out = otattn.attention(
        torch.eye(rows)[None, None], key, value, method=f"entmax:{alpha}", scale=1.0, backend="torch:triton"
    )  # fmt: skip
    upstream = torch.randn(rows, m, generator=noise)
    (dk,) = torch.autograd.grad(out, key, upstream[None, None])
    p = torch.tensor([precise_entmax(row, alpha) for row in scores.float().tolist()], dtype=torch.float64)
    moved = (out[0, 0].detach().double() - p).abs().max().item() / U32
    assert moved <= 8.0
    w = torch.where(p > 0.0, p ** (1.0 - a), 0.0)
    steepest = w.argmax(1, keepdim=True)
    apart = upstream.double() - upstream.double().gather(1, steepest)
    mean = ((w * apart).sum(1) / w.sum(1))[:, None]
    ds = w * (apart - mean)
    # What a few roundings of weights move: their slopes, and the steepest one's share in the mean.
    others = torch.where(p > 0.0, w, 0.0).scatter(1, steepest, 0.0)
    slopes = abs(1.0 - a) * torch.where(others > 0.0, others / p, 0.0).amax(1, keepdim=True)
    shares = abs(1.0 - a) * others.amax(1, keepdim=True) * mean.abs() / p.gather(1, steepest)
    size = apart.abs().amax(1, keepdim=True)
    bound = 8.0 * U32 * (slopes * size + shares + 4.0 * others.amax(1, keepdim=True) * size)
    close("dk", dk[0, 0].mT, ds, 2.0 * bound)
