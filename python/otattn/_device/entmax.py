"""Rows of entmax on free columns, a block of rows at a time.

    P_ij = max(0, a (S_ij + f_i)) ^ (1 / a),   a = alpha - 1,   f_i such that the row and its sink sum to mu_i

    dS_ij = w_ij (dP_ij - d_i),   w = P^(1 - a) where P > 0,   d_i = sum_j w dP / sum_j w

d_i is the gradient by mu_i, at mu_i = 0 the mean of dP by even shares of the largest scores, below order 1
by even shares of all (src/operator/mass_limits.h); that by alpha is the sum of (dP_ij - d_i) dP_ij/dalpha at
the same f.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .blocks import Pulled, mixed
from .rules import OF_MARGINALS, Marginals, grows, marginals
from .scores import Scores

# Steps of the search for f: of halvings there are enough for the type, Newton's end it earlier.
_STEPS = {torch.float32: 40, torch.float64: 70}
# The largest slope of a weight, as in the library: sums of its products stay within the type's range.
_LARGEST = {torch.float32: 1e30, torch.float64: 1e250}


def order_of(scores: Scores) -> Any:
    """alpha, a number or a tensor."""
    return scores.given.get("alpha", scores.problem.order or 1.5)


def weights(z: Tensor, a: Any) -> Tensor:
    """P of z = a (S + f), 0 where that is -inf."""
    base: Tensor = z.clamp(min=0.0)
    return base * base if isinstance(a, float) and a == 0.5 else base ** (1.0 / a)


def levels(block: Tensor, mass: Tensor, a: Any) -> tuple[Tensor, Tensor]:
    """f [batch, heads, rows] of scores with the sink among them, -inf where nothing is allowed; a (S + f),
    whose difference of large numbers is taken before it is rounded.
    """
    top = block.amax(3)
    open_ = (top > -torch.inf) & (mass > 0.0)
    # NaN and +inf make NaN of the row.
    y = a * (block - top.where(open_, 0.0)[..., None])
    low, high = (mass / block.shape[3]) ** a, mass**a
    u = low
    for _ in range(_STEPS[block.dtype]):
        base = (y + u[..., None]).clamp(min=0.0)
        p = base ** (1.0 / a)
        excess = p.sum(3) - mass
        slope = (p ** (1.0 - a)).where(p > 0.0, 0.0).sum(3) / a
        low, high = u.where(excess <= 0.0, low), u.where(excess > 0.0, high)
        step = u - excess / slope
        after = step.where((step > low) & (step < high), 0.5 * (low + high))
        if block.device.type == "cpu" and bool((after == u).all()):
            break
        u = after
    fine = ~torch.isnan(top) & (top < torch.inf) & ~torch.isnan(mass)
    u = u.where(open_, -torch.inf).where(fine, torch.nan)
    return u / a - top.where(open_, 0.0), y + u[..., None]


class Rows:
    """The rows of one call."""

    def __init__(self, scores: Scores, of: Any = None) -> None:
        self.scores = scores
        order = order_of(scores)
        self.a = order - 1.0
        self.marginals: Marginals = marginals(scores)
        self.mass = self.marginals.mass

    def with_sink(self, block: Tensor) -> Tensor:
        sink = self.marginals.sink
        if sink is None:
            return block
        return torch.cat([block, sink[..., None].expand(*block.shape[:3], 1)], 3)

    def forward(self) -> tuple[Tensor | None, Tensor]:
        """P V, of the values if there are any, and f."""
        s = self.scores
        values = s.given.get("value")
        outs, found = [], []
        for rows in s.slices():
            block = s.block(rows)
            f, inside = levels(self.with_sink(block), self.mass[:, :, rows], self.a)
            found.append(f)
            if values is not None:
                p = weights(inside[..., : block.shape[3]], self.a)
                kept = s.kept(rows)
                outs.append(mixed(p if kept is None else p * kept, values[:, :, s.keys(rows)]))
        if not found:
            f = s.given["query"].new_empty((s.batch, s.heads, 0))
            return None if values is None else f.new_empty((*f.shape, values.shape[3])), f
        return torch.cat(outs, 2) if outs else None, torch.cat(found, 2)

    def first_shares(self, block: Tensor) -> Tensor:
        """How the first of a mass is shared out."""
        top = block.amax(3, keepdim=True)
        largest = (block == top) & (top > -torch.inf)
        found = largest if not isinstance(self.a, Tensor) and self.a > 0.0 else block > -torch.inf
        if isinstance(self.a, Tensor):
            found = largest.where(self.a > 0.0, found)
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
            _, inside = levels(self.with_sink(block), self.mass[:, :, rows], self.a)
            p = weights(inside, self.a)
            w = (p ** (1.0 - self.a)).where(p != 0.0, 0.0).clamp(max=_LARGEST[p.dtype])
            dp = sums.by_weights(p[..., : block.shape[3]], out, coupling)
            if receiver is not None:
                dp = dp + receiver[..., None, keys]
            if m.sink is not None:
                dp = torch.cat([dp, dp.new_zeros((*dp.shape[:3], 1))], 3)
            # Above order 2 one weight's slope may outweigh all others, which keep their digits from there on.
            steepest = torch.zeros_like(dp[..., :1])
            if not isinstance(self.a, float) or self.a > 1.0:
                steepest = dp.gather(3, w.argmax(3, keepdim=True))
                dp = dp - steepest
            some = w.sum(3)
            mean = (w * dp).where(w != 0.0, 0.0).sum(3) / some.where(some != 0.0, 1.0)
            apart = (dp - mean[..., None]).where(w != 0.0, 0.0)
            ds = w * apart
            by_mass[:, :, rows] = mean + steepest[..., 0]
            if growing:
                shares = self.first_shares(self.with_sink(block))
                limit = (shares * dp).where(shares != 0.0, 0.0).sum(3) + steepest[..., 0]
                by_mass[:, :, rows] = limit.where(empty[:, :, rows], by_mass[:, :, rows])
            if "alpha" in found:
                base = inside.where(p > 0.0, 1.0)
                along = p * ((1.0 - torch.log(base)) / self.a**2)
                found["alpha"] += (apart * along).sum()
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
