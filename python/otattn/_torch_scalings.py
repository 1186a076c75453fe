"""Plans of sinkhorn_normalize and their gradients by torch's operations, on whatever device the scores lie.

The formulas are those of src/backend/cpu/kernels/normalize.inc.h and normalize_reverse.inc.h: a kernel K that
stays as it is, and scalings u [..., n, 1] of rows and v [..., 1, n] of columns,

    deepseek    K = softmax of the rows + eps, u = v = 1
    symmetric   K = exp(S_ij - top_i - low_j), u = 1, v = exp(low)
                with top_i = max_j S_ij and low_j = max_i (S_ij - top_i)
    rows        u = u / (u sum_j K_ij v_j + eps), in the symmetric order u = 1 / sum_j K_ij v_j
    columns     likewise
    P           K_ij u_i v_j

A round of fixed ones never waits for the device. To a tolerance, matrices that have met it keep their
scalings, and whether all have is read every few rounds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import _structs as c
from ._normalize import Recipe
from ._torch_device import EVERY, pieces

# What a step leaves for its reverse: the new scaling, and the share of eps in its sum or, in the symmetric
# order, where it moved (None: everywhere).
Step = tuple[Tensor, Tensor | None]


class _Scaling:
    """Matrices on their way."""

    def __init__(self, recipe: Recipe, scores: Tensor) -> None:
        self.recipe, self.symmetric = recipe, recipe.order == c.NORMALIZE_SYMMETRIC
        self.soft: Tensor | None = None
        top = scores.amax(-1, keepdim=True)
        below = scores - top
        if self.symmetric:
            low = below.amax(-2, keepdim=True)
            self.kernel = below.sub_(low).exp_()
            self.v = low.exp_()
        else:
            power = below.exp_()
            self.soft = power.div_(power.sum(-1, keepdim=True))
            self.kernel = self.soft + recipe.eps
            self.v = torch.ones_like(top).mT
        self.u = torch.ones_like(top)
        self.first = self.u, self.v
        self.going: Tensor | None = None

    def plan(self) -> Tensor:
        return (self.kernel * self.u).mul_(self.v)

    def rows(self, v: Tensor) -> Tensor:
        """sum_j K_ij v_j"""
        return (self.kernel * v).sum(-1, keepdim=True)

    def columns(self, u: Tensor) -> Tensor:
        """sum_i u_i K_ij"""
        return (self.kernel * u).sum(-2, keepdim=True)

    def _scaled(self, x: Tensor, total: Tensor, kept: list[Step] | None) -> Tensor:
        if self.symmetric:
            after = total.reciprocal()
            if self.going is not None:
                after = torch.where(self.going, after, x)
            share = self.going
        else:
            whole = x * total + self.recipe.eps
            after = x / whole
            share = None if kept is None else self.recipe.eps / whole
        if kept is not None:
            kept.append((after, share))
        return after

    def _open(self, total: Tensor) -> Tensor:
        """Where sums of rows are not 1 within the tolerance, nor were."""
        found = (self.u * total - 1.0).abs().amax(-2, keepdim=True) > self.recipe.tolerance
        return found if self.going is None else self.going & found

    def run(self, kept: list[Step] | None = None) -> None:
        careful, every = self.recipe.tolerance > 0.0, 1 if self.kernel.is_cpu else EVERY
        for round_ in range(max(self.recipe.rounds, 0)):
            if self.symmetric or round_ > 0:
                total = self.rows(self.v)
                if careful and round_ > 0:
                    self.going = self._open(total)
                    if round_ % every == 0 and not bool(self.going.any()):
                        return
                self.u = self._scaled(self.u, total, kept)
            self.v = self._scaled(self.v, self.columns(self.u), kept)
        if careful:
            self.going = self._open(self.rows(self.v))


def _mended(x: Tensor) -> Tensor:
    """NaN throughout in the matrices where something is not finite."""
    return x.where(x.isfinite().all(-1, keepdim=True).all(-2, keepdim=True), torch.nan)


def _in_pieces(work: Callable[..., Tensor], *arrays: Tensor) -> Tensor:
    """work of so many matrices at a time that temporaries stay small."""
    side = arrays[0].shape[-1]
    flat = [x.reshape(-1, side, side) for x in arrays]
    parts = list(pieces(flat[0].shape[0], side * side))
    if len(parts) <= 1:
        return work(*flat).reshape(arrays[0].shape)
    found = torch.empty_like(flat[0], memory_format=torch.contiguous_format)
    for part in parts:
        found[part] = work(*(x[part] for x in flat))
    return found.reshape(arrays[0].shape)


def forward(recipe: Recipe, scores: Tensor) -> tuple[Tensor, Tensor | None]:
    """Plans of scores in f32 or f64, and, with a tolerance, whether some did not meet it."""
    open_: list[Tensor] = []

    def work(part: Tensor) -> Tensor:
        scaling = _Scaling(recipe, part)
        scaling.run()
        if scaling.going is not None:
            open_.append(scaling.going.any())
        return _mended(scaling.plan())

    plan = _in_pieces(work, scores)
    return plan, torch.stack(open_).any() if open_ else None


def backward(recipe: Recipe, saved: Tensor, plan_grad: Tensor) -> Tensor:
    """Gradients of the scores; `saved` are the scores or, for implicit gradients, the plans."""
    if recipe.implicit:
        return _in_pieces(_implicit, saved, plan_grad)
    return _in_pieces(lambda scores, g: _reverse(recipe, scores, g), saved, plan_grad)


def _reverse(recipe: Recipe, scores: Tensor, plan_grad: Tensor) -> Tensor:
    """Through the rounds: with a_i = u_i dL/du_i, b_j = v_j dL/dv_j and w the share of a sum that is eps,

    columns     z_j = v_j b_j of the new v:  dK_ij -= u_i z_j,  a_i -= u_i sum_j K_ij z_j,  b_j = w_j b_j
    rows        y_i = u_i a_i of the new u:  dK_ij -= y_i v_j,  b_j -= v_j sum_i y_i K_ij,  a_i = w_i a_i
    """
    s = _Scaling(recipe, scores)
    kept: list[Step] = []
    s.run(kept)
    g = (plan_grad * s.u).mul_(s.v)
    every = s.kernel * g
    a, b = every.sum(-1, keepdim=True), every.sum(-2, keepdim=True)
    for step in reversed(range(len(kept))):
        x, share = kept[step]
        # Steps end on columns.
        columns = (len(kept) - 1 - step) % 2 == 0
        other = kept[step - 1][0] if step > 0 else s.first[0 if columns else 1]
        own = b if columns else a
        if s.symmetric:
            z, own = x * own, torch.zeros_like(own) if share is None else own.masked_fill(share, 0.0)
            z = z if share is None else z.masked_fill(~share, 0.0)
        else:
            assert share is not None
            z, own = x * own, share * own
        if columns:
            a, b = a - other * s.rows(z), own
        else:
            a, b = own, b - other * s.columns(z)
        g = g.addcmul_(other, z, value=-1.0)
    if s.soft is None:
        return _mended(g.mul_(s.kernel))
    return _mended(g.sub_((s.soft * g).sum(-1, keepdim=True)).mul_(s.soft))


def _implicit(plan: Tensor, plan_grad: Tensor) -> Tensor:
    """Those of P = exp(S_ij + f_i + g_j) whose sums r_i, c_j stay as they are: P_ij (G_ij - a_i - b_j), where

        L b = y,   y_j = sum_i P_ij (G_ij - m_i),   L_jk = -sum_i P_ij P_ik / r_i for j != k,   L 1 = 0

    and m_i = sum_j P_ij G_ij / r_i. Solved with b_0 = 0 by elimination without a subtraction in L: every
    pivot is the sum of what lies left of it, so plans that nearly fall into parts lose no digits. No product
    of matrices is asked of the device, whose products may be rounded to fewer digits.
    """
    side = plan.shape[-1]
    share = plan.sum(-1, keepdim=True).reciprocal_()
    g = plan_grad - (plan * plan_grad).sum(-1, keepdim=True) * share
    b = (plan * g).sum(-2)
    w = torch.zeros_like(plan)
    weighted = plan * share
    for i in range(side):
        w.addcmul_(weighted[..., i, :, None], plan[..., i, None, :])
    near = 4 * torch.finfo(plan.dtype).eps
    pivots: list[Tensor] = []
    for k in range(side - 1, 0, -1):
        total = w[..., k, :k].sum(-1, keepdim=True)
        # A part that hangs on the rest by no more than rounding keeps b = 0.
        pivot = total.reciprocal().where(total > (total + w[..., k, k, None]) * near, 0.0)
        pivots.append(pivot)
        part = w[..., :k, k] * pivot
        b[..., :k].addcmul_(part, b[..., k, None])
        w[..., :k, :k].addcmul_(part[..., :, None], w[..., k, None, :k])
    b[..., 0] = 0.0
    for k in range(1, side):
        known = (w[..., k, :k] * b[..., :k]).sum(-1, keepdim=True)
        b[..., k, None] = (b[..., k, None] + known) * pivots[side - 1 - k]
    mean = (plan * b[..., None, :]).sum(-1, keepdim=True) * share
    return _mended(g.sub_(b[..., None, :]).add_(mean).mul_(plan))
