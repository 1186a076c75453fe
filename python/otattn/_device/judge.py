"""The certificate of a plan and statistics of its rows, from potentials and scores, in blocks of rows.

It shares the scores with the solver, and neither engines nor rules; of entmax the weights of rows, too, as
their potentials leave digits of them out next to order 1 and above 2. The formulas are those of
ota_certificate in otattn.h, in units of the scores:

    primal = sum P C + tau R(P) + RHO KL(P 1 | mu) + rho KL(c | nu),     C = -S
    dual   = rows + columns - sum of tau P at the best f for the given g (Tsallis: tau / alpha P^alpha)
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _structs as c
from .._certificate import Certificate, certificate_from_values
from .entmax import solved, with_sink
from .scores import Scores


class Statistics(NamedTuple):
    """Of rows, each [batch, heads, rows]; of columns, [batch, heads, columns]."""

    entropy: Tensor
    support: Tensor
    maximum: Tensor
    sink: Tensor
    receiver: Tensor


class Judge:
    """The plan of potentials f and g, in nats, for the scores of a call."""

    def __init__(self, scores: Scores, f: Tensor, g: Tensor) -> None:
        self.scores = scores
        self.f, self.g = f.to(scores.wide), g.to(scores.wide)
        p = scores.problem
        self.order = 1.0
        if p.regulariser == c.ENTMAX:
            self.order = scores.order
        tau = scores.tau(scores.given)
        self.tau = torch.full((), 1.0, dtype=scores.wide, device=scores.device) * tau
        sink = scores.sink
        self.sink = -torch.inf if sink is None else sink / self.tau
        shape = (scores.batch, scores.heads, scores.rows)
        rows, _ = scores.usable
        if sink is not None:
            rows = rows | (self.sink > -torch.inf)
        self.open = rows.expand(shape)
        mass = scores.given.get("row_mass")
        ones = torch.ones(shape, dtype=scores.wide, device=scores.device)
        self.mass = (ones if mass is None else mass[:, :, 0].expand(shape)).where(self.open, 0.0)

    def plan(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Scores and weights of some rows, the sink's behind the others."""
        s = self.scores
        block = s.block(rows)
        block = with_sink(block, self.sink)
        f = self.f[:, :, rows, None]
        if self.order != 1.0:
            x = with_sink(s.block(rows, over_tau=False), -torch.inf if s.sink is None else s.sink)
            p, _ = solved(x, self.mass[:, :, rows], self.order - 1.0, self.tau)
            return block, p.where(~torch.isnan(f), torch.nan)
        x = s.less_common(block, rows) + f + self._potentials(rows)
        return block, torch.exp(x.where((block > -torch.inf) | torch.isnan(block), -torch.inf))

    def _potentials(self, rows: slice) -> Tensor:
        """g of the keys of some rows, and 0 of the sink behind them."""
        g = self.g[..., self.scores.keys(rows)]
        return torch.cat([g, g.new_zeros((*g.shape[:2], 1))], 2)[..., None, :]

    @functools.cached_property
    def statistics(self) -> Statistics:
        s = self.scores
        parts: list[tuple[Tensor, ...]] = []
        receiver = self.g.new_zeros((s.batch, s.heads, s.columns))
        for rows in s.slices():
            _, p = self.plan(rows)
            mass = self.mass[:, :, rows]
            share = p / mass.where(mass > 0.0, 1.0)[..., None]
            pairs = p[..., :-1]
            support = (pairs > 0.0).sum(3).to(s.wide)
            parts.append((-torch.xlogy(share, share).sum(3), support, pairs.amax(3), p[..., -1]))
            receiver[..., s.keys(rows)] += pairs.sum(2)
        entropy, support, maximum, sink = (torch.cat(x, 2) for x in zip(*parts, strict=True))
        return Statistics(entropy, support, maximum, sink, receiver)

    def coupling(self) -> Tensor:
        s = self.scores
        found = self.g.new_zeros((s.batch, s.heads, s.rows, s.columns))
        for rows in s.slices():
            found[:, :, rows, s.keys(rows)] = self.plan(rows)[1][..., :-1]
        return found

    # ---- the certificate ---------------------------------------------------------------------------

    def certificate(self) -> Certificate:
        s, p = self.scores, self.scores.problem
        tau: Tensor = self.tau.reshape(1, -1, 1)
        wide = s.wide
        zeros = torch.zeros((s.batch, s.heads, s.rows), dtype=wide, device=s.device)
        total, primal, value, dual = (zeros.clone() for _ in range(4))
        least = torch.full_like(zeros[:, :, :1], torch.inf)
        entropy, support, _, _, sums = self.statistics
        reached = torch.zeros(sums.shape, dtype=torch.bool, device=s.device)
        for rows in s.slices():
            block, weights = self.plan(rows)
            mass = self.mass[:, :, rows]
            there = block > -torch.inf
            cost = -(block.where(there, 0.0) * weights).sum(3)
            log = torch.xlogy(weights, weights).sum(3)
            total[:, :, rows] = weights.sum(3)
            primal[:, :, rows] = cost + self._regulariser(weights)
            value[:, :, rows] = cost + log
            counted = there[..., :-1] & (mass > 0.0)[..., None]
            least = torch.minimum(least, weights[..., :-1].where(counted, torch.inf).amin((2, 3))[..., None])
            reached[..., s.keys(rows)] |= counted.any(2)
            dual[:, :, rows] = self._row_dual(block + self._potentials(rows), mass)
        counted = self.mass > 0.0
        rows_counted = counted.sum(2).clamp(min=1)
        mass = self.mass.sum(2, keepdim=True)
        unit = mass.where(mass > 0.0, 1.0)
        wanted = self.mass
        if p.rows == c.ROWS_RELAXED:
            strength = p.row_strength / tau
            finite = self.f.where(counted, 0.0)
            wanted = self.mass * torch.exp(-finite / strength)
            primal = primal + _divergence(total, self.mass) * strength
        nu, column_dual, penalty, missed = self._columns(sums, reached, mass, tau)
        share = mass / reached.sum(2, keepdim=True).clamp(min=1)
        received, apart = ((x / share).where(share > 0.0, 0.0) for x in (sums, (sums - nu).abs()))
        fewest = received.where(reached, torch.inf).amin(2)
        primals = tau * (primal.sum(2, keepdim=True) + penalty)
        duals = tau * (dual.sum(2, keepdim=True) + column_dual)
        if p.columns == c.COLUMNS_ELASTIC:
            duals = duals * math.nan
        numbers = [
            ((total - wanted).abs().sum(2, keepdim=True) / unit).max(),
            (missed / unit).max(),
            primals.sum(),
            duals.sum(),
            (primals - duals).max(),
            (tau * value.sum(2, keepdim=True)).sum(),
            (entropy.where(counted, 0.0).sum(2) / rows_counted).mean(),
            (support.where(counted, 0.0).sum(2) / rows_counted).mean(),
            received.max(),
            fewest.where(fewest < torch.inf, 0.0).min(),
            apart.max(),
            least.where(least < torch.inf, 0.0).min(),
            total.new_zeros(()),
        ]
        counts = [(~self.open).sum(), torch.isnan(self.f).sum()]
        return certificate_from_values(torch.stack([x.to(wide) for x in [*numbers, *counts]]).tolist())

    def _regulariser(self, weights: Tensor) -> Tensor:
        if self.order == 1.0:
            return (torch.xlogy(weights, weights) - weights).sum(3)
        return (weights**self.order - weights).sum(3) / (self.order * (self.order - 1.0))

    def _row_dual(self, x: Tensor, mass: Tensor) -> Tensor:
        """The rows' part of the dual at the best f for g, over tau, from S + g."""
        p = self.scores.problem
        gain: Tensor
        open_ = (mass > 0.0) & (x.amax(3) > -torch.inf)
        if self.order != 1.0:
            weights, f = solved(x, mass, self.order - 1.0, 1.0)
            given = f.where(open_, 0.0) - 1.0 / (self.order * (self.order - 1.0))
            return (mass * given - (weights**self.order).sum(3) / self.order).where(open_, 0.0)
        f = torch.log(mass.where(open_, 1.0)) - torch.logsumexp(x, 3).where(open_, 0.0)
        if p.rows == c.ROWS_RELAXED:
            strength = p.row_strength / self.tau.reshape(1, -1, 1)
            f = f * strength / (strength + 1.0)
            gain = mass * torch.expm1(-f / strength) * -strength
        else:
            gain = mass * f
        sums = torch.exp(x + f[..., None]).sum(3)
        return (gain - sums).where(open_, 0.0)

    def _columns(self, sums: Tensor, reached: Tensor, mass: Tensor, tau: Tensor) -> tuple[Tensor, ...]:
        """Masses of keys, their part of the dual over tau, what they pay for it, and how far they miss."""
        s, p = self.scores, self.scores.problem
        _, used = s.usable
        even = (mass / used.sum(2, keepdim=True).clamp(min=1)).where(used, 0.0)
        given = s.given.get("column_mass")
        caps = p.columns == c.COLUMNS_CAPPED
        mine = torch.ones_like(even) if given is None else given[:, :, 0].expand_as(even)
        nu = mine if given is not None and not caps else even
        g = self.g.where(self.g > -torch.inf, 0.0)
        penalty = torch.zeros_like(sums)
        if caps or p.columns == c.COLUMNS_BOUNDED:
            given_cap: Any = s.given.get("cap", p.cap)
            upper: Any = s.given.get("upper", p.upper)
            lower: Any = s.given.get("lower", p.lower)
            most: Tensor = mine * given_cap if caps else nu * upper
            least: Tensor = 0.0 * nu if caps else nu * lower
            missed = (sums - most).clamp(min=0.0) + (least - sums).clamp(min=0.0)
            dual = most * g.clamp(max=0.0) + least * g.clamp(min=0.0)
        elif p.columns == c.COLUMNS_RELAXED:
            rho: Any = s.given.get("strength", p.strength)
            strength: Tensor = rho / tau
            missed = (sums - (nu * torch.exp(-g / strength)).where(reached & (nu > 0.0), 0.0)).abs()
            dual = (-strength * nu * torch.expm1(-g / strength)).where(reached, strength * nu)
            penalty = strength * _divergence(sums, nu)
        else:
            missed = (sums - nu).abs()
            dual = nu * g if p.columns == c.COLUMNS_EXACT else torch.zeros_like(sums)
        return nu, *(x.sum(2, keepdim=True) for x in (dual, penalty, missed))


def _divergence(x: Tensor, of: Tensor) -> Tensor:
    """x log(x / of) - x + of"""
    ratio = x / of.where(of > 0.0, 1.0)
    return (torch.xlogy(x, ratio) - x + of).where(of > 0.0, torch.zeros_like(x).where(x == 0.0, torch.inf))
