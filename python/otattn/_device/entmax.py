"""Rows of entmax on free columns, a block of rows at a time.

    P_ij = max(0, a (S_ij + f_i)) ^ (1 / a),   a = alpha - 1,   f_i such that the row and its sink sum to mu_i

    dS_ij = w_ij (dP_ij - d_i),   w = P^(1 - a) where P > 0,   d_i = sum_j w dP / sum_j w

d_i is the gradient by mu_i, at mu_i = 0 the mean of dP by even shares of the largest scores, below order 1
by even shares of all (src/operator/mass_limits.h); that by alpha is the sum of (dP_ij - d_i) dP_ij/dalpha at
the same f.

Above order 2 weights rise from 0 with an infinite slope, so that f, one number, is too coarse beside the edge
of the support. With the least score e that has weight, and the weight q there,

    P_ij = (a (S_ij - e) + q ^ a) ^ (1 / a)

as in src/backend/edge.h, with scores S before they are divided by the temperature, which would round their
differences: the sum is convex in q, and Newton's steps come to mu_i from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .blocks import Pulled, mixed
from .rules import OF_MARGINALS, Marginals, grows, marginals
from .scores import Scores, over_pairs

# Steps of the search for f: of halvings there are enough for the type, Newton's end it earlier. Those from
# above divide the excess times its slope by 4 each, so that as many are enough for q.
_STEPS = {torch.float32: 40, torch.float64: 70}
# The largest slope of a weight, as in the library: sums of its products stay within the type's range.
_LARGEST = {torch.float32: 1e30, torch.float64: 1e250}


def _power(z: Tensor, a: float) -> Tensor:
    """(1 + a z) ^ (1 / a), 0 where that is below 0, exp(z) at a = 0; next to a = 0 it keeps its digits."""
    if a in (1.0, 0.5):
        base = (1.0 + a * z).clamp(min=0.0)
        return base if a == 1.0 else base * base
    return torch.exp(z if a == 0.0 else torch.log1p((a * z).clamp(min=-1.0)) / a)


def _logarithm(x: Tensor, a: float) -> Tensor:
    """z of which `_power` is x."""
    return torch.log(x) if a == 0.0 else torch.expm1(a * torch.log(x)) / a


def _bend(q: Tensor) -> Tensor:
    """(1 - exp(-q) - q) / q^2, which is -1/2 at 0."""
    small = q.abs() < 1e-2
    safe = q.where(~small, 1.0)
    near = -1 / 2 + q * (1 / 6 - q * (1 / 24 - q * (1 / 120 - q * (1 / 720))))
    return near.where(small, (-torch.expm1(-safe) - safe) / safe**2)


def solved(block: Tensor, mass: Tensor, a: float, tau: Any) -> tuple[Tensor, Tensor]:
    """P of scores times tau, with the sink's, and f [batch, heads, rows], -inf where nothing is allowed."""
    top = block.amax(3)
    open_ = (top > -torch.inf) & (mass > 0.0)
    # NaN and +inf make NaN of the row.
    fine = ~torch.isnan(top) & (top < torch.inf) & ~torch.isnan(mass)
    if a > 1.0:
        p, f = _beside_edges(block, mass, a, tau)
    else:
        p, f = _above_levels(block / over_pairs(tau), mass, a, open_)
    p = p.where(open_[..., None], 0.0).where(fine[..., None], torch.nan)
    return p, f.where(open_, -torch.inf).where(fine, torch.nan)


def _above_levels(block: Tensor, mass: Tensor, a: float, open_: Tensor) -> tuple[Tensor, Tensor]:
    """P and f of orders up to 2: 1 + a z = a (S + f), z = S - max S - level, the level by Newton's steps from
    below, where the sum is convex in it.
    """
    top = block.amax(3).where(open_, 0.0)
    y = block - top[..., None]
    low, high = -_logarithm(mass, a), -_logarithm(mass / block.shape[3], a)
    level = low
    for _ in range(_STEPS[block.dtype]):
        p = _power(y - level[..., None], a)
        excess = p.sum(3) - mass
        slope = (p ** (1.0 - a)).where(p > 0.0, 0.0).sum(3)
        low, high = level.where(excess >= 0.0, low), level.where(excess < 0.0, high)
        step = level + excess / slope
        after = step.where((step > low) & (step < high), 0.5 * (low + high))
        if block.device.type == "cpu" and bool((after == level).all()):
            break
        level = after
    f = -level - top
    return _power(y - level[..., None], a), f if a == 0.0 else f + 1.0 / a


def _beside_edges(block: Tensor, mass: Tensor, a: float, tau: Any) -> tuple[Tensor, Tensor]:
    """P and f of orders above 2, from e and q of the text above."""
    mass, power, k = mass[..., None], 1.0 / a, a / over_pairs(tau)
    falling = block.sort(3, descending=True).values
    low = torch.zeros_like(mass, dtype=torch.int64)
    high = torch.full_like(low, block.shape[3] - 1)

    def above(e: Tensor) -> Tensor:
        found: Tensor = (k * (block - e)).where(block > e, 0.0)
        return found

    # The last e above which keys leave something of the mass.
    for _ in range((block.shape[3] - 1).bit_length()):
        middle = (low + high + 1) // 2
        e = falling.gather(3, middle)
        inside = (e > -torch.inf) & ((above(e) ** power).sum(3, keepdim=True) < mass)
        low, high = middle.where(inside, low), torch.maximum(low, high.where(inside, middle - 1))
    e = falling.gather(3, low)
    del falling
    distance, at_edge = above(e), block == e
    ties = at_edge.sum(3, keepdim=True)
    q = ((mass - (distance**power).sum(3, keepdim=True)) / ties.clamp(min=1)).clamp(min=0.0)
    least = torch.finfo(block.dtype).eps * mass
    for _ in range(_STEPS[block.dtype]):
        p = ((distance + q**a) ** power).where(distance > 0.0, 0.0)
        excess = p.sum(3, keepdim=True) + ties * q - mass
        rise = ((q / p) ** (a - 1.0)).where(p > 0.0, 0.0).sum(3, keepdim=True)
        after = q - excess / (ties + rise)
        after = after.where((excess > least) & (after > 0.0) & (after < q), q)
        if block.device.type == "cpu" and bool((after == q).all()):
            break
        q = after
    p = ((distance + q**a) ** power).where(distance > 0.0, 0.0)
    return q.where(at_edge, p), (q**a / a - e / over_pairs(tau))[..., 0]


def with_sink(block: Tensor, sink: Any) -> Tensor:
    """Scores and behind them a sink's, one number or one a head; None: there is no sink."""
    if sink is None:
        return block
    sink = (block.new_zeros(()) + sink).expand(*block.shape[:2], 1)
    return torch.cat([block, sink[..., None].expand(*block.shape[:3], 1)], 3)


class Rows:
    """The rows of one call."""

    def __init__(self, scores: Scores, of: Any = None) -> None:
        self.scores = scores
        self.a = scores.order - 1.0
        self.marginals: Marginals = marginals(scores)
        self.mass = self.marginals.mass

    def solved(self, rows: slice, block: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """P of some rows, the sink's among them, and f; `block` holds their scores if they are known."""
        s, mass = self.scores, self.mass[:, :, rows]
        if s.steep:
            return solved(with_sink(s.block(rows, over_tau=False), s.sink), mass, self.a, s.tau(s.given))
        block = s.block(rows) if block is None else block
        return solved(with_sink(block, self.marginals.sink), mass, self.a, 1.0)

    def forward(self) -> tuple[Tensor | None, Tensor]:
        """P V, of the values if there are any, and f."""
        s = self.scores
        values = s.given.get("value")
        outs, found = [], []
        for rows in s.slices():
            p, f = self.solved(rows)
            found.append(f)
            if values is not None:
                mine = values[:, :, s.keys(rows)]
                p = p[..., : mine.shape[2]]
                kept = s.kept(rows)
                outs.append(mixed(p if kept is None else p * kept, mine))
        if not found:
            f = s.given["query"].new_empty((s.batch, s.heads, 0))
            return None if values is None else f.new_empty((*f.shape, values.shape[3])), f
        return torch.cat(outs, 2) if outs else None, torch.cat(found, 2)

    def _along(self, p: Tensor) -> Tensor:
        """dP/dalpha at a fixed f, up to a multiple of w, whose products with dP - d have a sum of 0."""
        log = torch.log(p.where(p > 0.0, 1.0))
        if self.a > 1.0:
            return p * ((1.0 - self.a * log) / self.a**2)
        return p * log**2 * _bend(self.a * log)

    def first_shares(self, block: Tensor) -> Tensor:
        """How the first of a mass is shared out."""
        top = block.amax(3, keepdim=True)
        largest = (block == top) & (top > -torch.inf)
        found = largest if self.a > 0.0 else block > -torch.inf
        shares = found.to(block.dtype)
        return shares / shares.sum(3, keepdim=True).clamp(min=1.0)

    def backward(
        self, wanted: Sequence[str], out: Tensor | None, coupling: Tensor | None, receiver: Tensor | None
    ) -> dict[str, Tensor]:
        s, m = self.scores, self.marginals
        sums = Pulled(s, wanted)
        found = sums.found
        leaves = {x: s.given[x].detach().requires_grad_() for x in OF_MARGINALS if x in wanted}
        with torch.enable_grad():
            again = marginals(s, {**s.given, **leaves})
        empty = self.mass == 0.0
        growing = "row_mass" in leaves and grows(s, "row_mass") and bool(empty.any())
        by_mass, by_sink = torch.zeros_like(self.mass), torch.zeros_like(self.mass)
        for rows in s.slices():
            keys, block = s.keys(rows), sums.begin(rows)
            p, _ = self.solved(rows, block)
            w = (p ** (1.0 - self.a)).where(p != 0.0, 0.0).clamp(max=_LARGEST[p.dtype])
            dp = sums.by_weights(p[..., : block.shape[3]], out, coupling)
            if receiver is not None:
                dp = dp + receiver[..., None, keys]
            if m.sink is not None:
                dp = torch.cat([dp, dp.new_zeros((*dp.shape[:3], 1))], 3)
            # Above order 2 one weight's slope may outweigh all others, which keep their digits from there on.
            steepest = torch.zeros_like(dp[..., :1])
            if self.a > 1.0:
                steepest = dp.gather(3, w.argmax(3, keepdim=True))
                dp = dp - steepest
            some = w.sum(3)
            mean = (w * dp).where(w != 0.0, 0.0).sum(3) / some.where(some != 0.0, 1.0)
            apart = (dp - mean[..., None]).where(w != 0.0, 0.0)
            ds = w * apart
            by_mass[:, :, rows] = mean + steepest[..., 0]
            if growing:
                shares = self.first_shares(with_sink(block, m.sink))
                limit = (shares * dp).where(shares != 0.0, 0.0).sum(3) + steepest[..., 0]
                by_mass[:, :, rows] = limit.where(empty[:, :, rows], by_mass[:, :, rows])
            if "alpha" in found:
                found["alpha"] += (apart * self._along(p)).sum()
            if m.sink is not None:
                by_sink[:, :, rows] = ds[..., -1]
            sums.add(ds[..., : block.shape[3]])
        outputs, gradients = [again.mass], [by_mass]
        if again.sink is not None:
            outputs.append(again.sink)
            gradients.append(by_sink.sum_to_size(again.sink.shape))
        moving = [(x, y) for x, y in zip(outputs, gradients, strict=True) if x.requires_grad]
        if moving:
            grads = torch.autograd.grad(
                [x for x, _ in moving], list(leaves.values()), [y for _, y in moving], allow_unused=True
            )
            for name, part in zip(leaves, grads, strict=True):
                found[name] = found[name] if part is None else found[name] + part
        return found
