"""Rounds of row and column updates on an engine, to a tolerance or of a number.

    round    f <- row update of LSE_j(S + g),  L = LSE_i(S + f),  c = exp(g + L),  g <- column update of L

The plan of f and g before the update has exact rows and the column sums c: the residual costs nothing. Heads
that have met the tolerance stay as they are. Of a fixed number of rounds nothing is read: no device waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from .. import _structs as c
from .._torch_device import EVERY, wide_type
from .blocks import Blocks
from .engines import Engine
from .rules import RULES, Marginals, Rule, marginals, next_columns, next_rows

# Updates that an extrapolation knows, how far the error may rise before it starts anew, and what makes its
# system of equations regular.
MEMORY, GROWTH, RIDGE = 20, 3.0, 1e-12
# How far an extrapolation may go, in units of the plain update, in f32 and f64: half of the type's digits.
# What is farther was divided by changes that are rounding.
FARTHEST = {torch.float32: 2.0**13, torch.float64: 2.0**26}
# Plain rounds behind the first extrapolation that failed.
FIRST_PAUSE = 4.0
# Rounds in which the error of f32 must fall by a tenth.
PATIENCE = 40


class Solution(NamedTuple):
    """Column potentials; those of the rows are one update away."""

    engine: Engine
    """It may be a wider one than was asked."""
    g: Tensor
    """[batch, heads, columns]"""
    rounds: int
    error: Tensor | None
    """[batch, heads]: of the columns, over the mass; None: not measured"""
    status: int
    """OK, FIXED_ITERS or PARTIAL"""


class Step(NamedTuple):
    """A round of a fixed number of them, for derivatives."""

    g: Tensor
    """Before its row update"""
    row_lse: Tensor
    f: Tensor
    column_lse: Tensor


def rounds_of(engine: Engine) -> int | None:
    """How many rounds a call wants; None: as many as its tolerance needs."""
    p, options = engine.scores.problem, engine.scores.options
    if p.columns == c.COLUMNS_ELASTIC:
        return int(p.steps)
    if options.rounds:
        return max(0, int(options.rounds))
    return None


def tolerance_of(engine: Engine) -> float:
    given: float = engine.scores.options.tolerance
    return given or (1e-9 if engine.scores.type == torch.float64 else 1e-5)


def begin(engine: Engine, of: Mapping[str, Tensor] | None = None) -> Tensor:
    """The column potential to start from; `of` has another temperature."""
    s = engine.scores
    start = s.given.get("start_potential")
    if start is not None:
        tau = s.tau(s.given if of is None else of)
        g: Tensor = start[:, :, 0].where(torch.isfinite(start[:, :, 0]), 0.0) / tau
        rule = RULES.get(s.problem.columns)
        if rule is not None:
            g = g.clamp(max=rule.ceiling)
        return g.expand(s.batch, s.heads, s.columns).contiguous()
    return torch.zeros((s.batch, s.heads, s.columns), dtype=s.wide, device=s.device)


def solve(engine: Engine, history: list[Step] | None = None, measured: bool = True) -> Solution:
    """The potentials of a call. `history` receives fixed rounds; `measured`: with the error they end in."""
    s = engine.scores
    rule = RULES.get(s.problem.columns)
    if rule is None:
        return Solution(engine, begin(engine), 0, None, c.OK)
    asked = rounds_of(engine)
    if asked is None:
        found = _to_tolerance(engine, rule, begin(engine), 0)
        if found.status == c.PARTIAL and s.wide != wide_type(s.device):
            # What f32 does not reach f64 may.
            return _to_tolerance(Blocks(s.wider().nearer()), rule, found.g.double(), found.rounds)
        return found
    m = marginals(s)
    g = begin(engine)
    for _ in range(asked):
        row_lse = engine.lse(g)
        f = next_rows(row_lse, m)
        column_lse = engine.lse(f, transposed=True)
        if history is not None:
            history.append(Step(g, row_lse, f, column_lse))
        g = next_columns(rule, g, column_lse, m)
    if not measured:
        return Solution(engine, g, asked, None, c.FIXED_ITERS)
    f = next_rows(engine.lse(g), m)
    error = _residual(rule, g, engine.lse(f, transposed=True), m)
    return Solution(engine, g, asked, error, c.FIXED_ITERS)


def _residual(rule: Rule, g: Tensor, column_lse: Tensor, m: Marginals) -> Tensor:
    """[batch, heads]: how far the sums are from what is asked, over the mass."""
    sums = torch.exp(g + column_lse).where(g > -torch.inf, 0.0)
    mass = torch.exp(m.log_mass).sum(2)
    target = torch.exp(m.log_target)
    if rule.penalised:
        # What no mass reaches only adds a constant to the objective.
        target = target.where(column_lse != -torch.inf, 0.0)
    missed = rule.miss(sums, target, g, m).sum(2)
    return missed / mass.where(mass > 0.0, 1.0)


class _Extrapolation:
    """The next column potential from those before: of the last updates g -> G the mixture with least change.

    Changes R = G - g are weighed with the columns' sums, in whose inner product a round of exact columns is
    self-adjoint. A head whose error grows, or does not fall for long, goes back to its best update, takes
    plain rounds for a while, twice as many each time, and starts anew. [anderson1965]
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.last: tuple[Tensor, Tensor] | None = None
        self.moves: list[Tensor] = []
        self.changes: list[Tensor] = []

    def _begin(self, after: Tensor, error: Tensor) -> None:
        self.best, self.best_after = error, after
        # Updates that may be mixed, rounds since the best error fell, plain rounds to come, and of next time.
        self.known, self.idle, self.wait = (torch.zeros_like(error) for _ in range(3))
        self.pause = torch.full_like(error, FIRST_PAUSE)

    def _judged(self, after: Tensor, error: Tensor) -> Tensor:
        """[batch, heads]: which heads go back."""
        plain = self.wait > 0.0
        better = error < 0.9 * self.best
        self.idle = (self.idle + 1.0).where(~(better | plain), 0.0)
        lost = ~plain & (~(error <= GROWTH * self.best) | (self.idle > MEMORY))
        kept = plain | (error < self.best)
        self.best = error.where(kept, self.best)
        self.best_after = after.where(kept[..., None], self.best_after)
        self.known = (self.known + 1.0).where(~(lost | plain), 0.0)
        self.wait = self.pause.where(lost, (self.wait - 1.0).clamp(min=0.0))
        self.pause = (2.0 * self.pause).where(lost, self.pause)
        self.idle = self.idle.where(~lost, 0.0)
        return lost

    def next(self, g: Tensor, after: Tensor, sums: Tensor, error: Tensor) -> Tensor:
        """From g [batch, heads, columns], its update, the columns' sums and the error [batch, heads]."""
        moving = after > -torch.inf
        update, change = after.where(moving, 0.0), (after - g).where(moving, 0.0)
        if self.last is None:
            self.last = update, change
            self._begin(after, error)
            return after
        self.moves = [*self.moves, update - self.last[0]][-MEMORY:]
        self.changes = [*self.changes, change - self.last[1]][-MEMORY:]
        self.last = update, change
        lost = self._judged(after, error)
        age = torch.arange(len(self.changes) - 1, -1, -1, device=g.device)
        used = age < self.known[..., None]
        weight = sums.clamp(min=0.0).sqrt()[..., None]
        basis = torch.stack(self.changes, 3) * weight * used[..., None, :]
        wide = basis.to(wide_type(g.device))
        gram = wide.mT @ wide
        size = torch.diagonal(gram, dim1=2, dim2=3)
        gram = gram + torch.diag_embed((RIDGE * size).where(size > 0.0, 1.0))
        right = wide.mT @ (change[..., None] * weight).to(wide.dtype)
        factors = torch.linalg.solve_ex(gram, right)[0]
        factors = factors.where(torch.isfinite(factors), 0.0).to(g.dtype)
        found: Tensor = update - (torch.stack(self.moves, 3) @ factors)[..., 0]
        if self.rule.excess is not None:
            # Of keys with bounds each stays on the side of 0 that its update is on.
            found = found.where(found * update > 0.0, update)
        most = FARTHEST[g.dtype] * change.abs().amax(2, keepdim=True)
        near = ((found - update).abs() <= most).all(2, keepdim=True)
        found = found.where(moving & near, after)
        return self.best_after.where(lost[..., None], found)


def _to_tolerance(engine: Engine, rule: Rule, g: Tensor, round_: int) -> Solution:
    """From a potential on, of which so many rounds are behind."""
    s = engine.scores
    m = marginals(s)
    if rule.excess is not None and "start_potential" in s.given:
        # A constant moves no weight. Updates of keys that all lie on one side of 0 would cross to it in steps
        # of one constant.
        open_ = torch.isfinite(g)
        low = g.where(open_, torch.inf).amin(2, keepdim=True)
        high = g.where(open_, -torch.inf).amax(2, keepdim=True)
        move = low.clamp(min=0.0) + high.clamp(max=0.0)
        g = g - move.where(torch.isfinite(move) & ~m.has_sink[..., None], 0.0)
    most = s.options.max_rounds or 1000
    tolerance = tolerance_of(engine)
    every = 1 if s.device.type == "cpu" else EVERY
    mixing = _Extrapolation(rule)
    best, since = math.inf, round_
    while True:
        row_lse = engine.lse(g)
        f = next_rows(row_lse, m)
        column_lse = engine.lse(f, transposed=True)
        error = _residual(rule, g, column_lse, m)
        done = error <= tolerance
        last = round_ >= most
        if last or round_ % every == 0:
            going = error.where(~done & ~torch.isnan(error), 0.0).max().item()
            if last or going == 0.0:
                break
            if going < 0.9 * best:
                best, since = going, round_
            if s.wide == torch.float32 and round_ - since > PATIENCE:
                break
            s.check_deadline()
        after = next_columns(rule, g, column_lse, m)
        sums = torch.exp(g + column_lse).where(g > -torch.inf, 0.0)
        g = mixing.next(g, after, sums, error).where(~done[..., None], g)
        round_ += 1
    status = c.OK if bool(done.all()) else c.PARTIAL
    return Solution(engine, g, round_, error, status)
