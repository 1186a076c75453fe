"""Column rules: the next potential of a key from its target T and L = LSE_i(S_ij + f_i), all in nats.

    exact     log T - L
    relaxed   rho / (rho + tau) (log T - L)
    capped    min(0, log T - L)
    bounded   log T - L below 0, or log floor T - L above it, else 0
    elastic   (1 - lambda) g + lambda (log T - L)

An update is one function; solver and derivatives ask it, and never which rule it is of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from .. import _structs as c
from .scores import Scores

# A number, or a tensor that broadcasts.
Number: TypeAlias = Any


class Marginals(NamedTuple):
    """What is asked of rows and columns."""

    mass: Tensor
    """[batch, heads, rows]: mu; 0 of rows without mass or pair"""
    log_mass: Tensor
    """Its logarithm"""
    target: Tensor
    """[batch, heads, columns]: T"""
    log_target: Tensor
    """Its logarithm"""
    log_floor: Number
    """log(lower / upper) of bounded columns"""
    step: Number
    """rho / (rho + tau) of relaxed columns, lambda of elastic ones"""
    row_step: Number
    """RHO / (RHO + tau) of relaxed rows, 1 of others"""
    softness: Number
    """tau / rho of relaxed columns"""
    sink: Tensor | None
    """Its logit over tau, or None"""
    has_sink: Tensor
    """[batch, heads]: whether it may take anything"""


def _nothing(target: Tensor, m: Marginals) -> Tensor:
    return torch.zeros_like(target)


class Rule(NamedTuple):
    """A row of the table below."""

    update: Callable[[Tensor, Tensor, Marginals], Tensor]
    """The next g of (g, log T - L)."""
    ratio: Callable[[Tensor, Marginals], Tensor]
    """log T - L where an update comes to this g."""
    miss: Callable[[Tensor, Tensor, Tensor, Marginals], Tensor]
    """How far sums are from what g and T ask for: of (sums, T, g)."""
    excess: Callable[[Tensor, Tensor, Marginals], Tensor] | None = None
    """The same of sums alone, where g may still move; None: it is `miss`."""
    unit_masses: bool = False
    """A key has a mass of 1 where none is given, not its share of the rows'."""
    balanced: bool = False
    """Totals of T and of the rows must agree."""
    penalised: bool = False
    """Sums cost what they are away from T, and may be any."""
    least: Callable[[Tensor, Marginals], Tensor] = _nothing
    """What a key has to receive."""
    feasible: Callable[[Tensor, Tensor, Marginals, float], Tensor] | None = None
    """Whether totals (of the rows' mass, of T) can be met; None: always."""
    ceiling: float = math.inf
    """The largest g."""


def _exact(g: Tensor, ratio: Tensor, m: Marginals) -> Tensor:
    return ratio


def _stepped(g: Tensor, ratio: Tensor, m: Marginals) -> Tensor:
    after: Tensor = ratio * m.step
    return after


def _capped(g: Tensor, ratio: Tensor, m: Marginals) -> Tensor:
    return ratio.where(ratio < 0.0, 0.0)


def _bounded(g: Tensor, ratio: Tensor, m: Marginals) -> Tensor:
    risen = ratio + m.log_floor
    return ratio.where(ratio < 0.0, risen.where(risen > 0.0, 0.0))


def _elastic(g: Tensor, ratio: Tensor, m: Marginals) -> Tensor:
    after: Tensor = g * (1.0 - m.step) + ratio * m.step
    return after


def _same(g: Tensor, m: Marginals) -> Tensor:
    return g


def _unstepped(g: Tensor, m: Marginals) -> Tensor:
    ratio: Tensor = g / m.step
    return ratio


def _priced(g: Tensor, m: Marginals) -> Tensor:
    return g.where(g < 0.0, 1.0)


def _between(g: Tensor, m: Marginals) -> Tensor:
    # In the middle of where an update ends at 0, or near the upper bound of what has no lower one.
    floor = torch.zeros_like(g) + m.log_floor
    return g.where(g < 0.0, (g - floor).where(g > 0.0, -0.5 * floor.clamp(min=-2.0)))


def _difference(sums: Tensor, target: Tensor, g: Tensor, m: Marginals) -> Tensor:
    return (sums - target).abs()


def _penalised(sums: Tensor, target: Tensor, g: Tensor, m: Marginals) -> Tensor:
    return (sums - (target * torch.exp(-g * m.softness)).where(target > 0.0, 0.0)).abs()


def _all(target: Tensor, m: Marginals) -> Tensor:
    return target


def _least(target: Tensor, m: Marginals) -> Tensor:
    least: Tensor = target * _exponential(m.log_floor)
    return least


def _over(sums: Tensor, target: Tensor, m: Marginals) -> Tensor:
    return (sums - target).clamp(min=0.0)


def _over_or_priced(sums: Tensor, target: Tensor, g: Tensor, m: Marginals) -> Tensor:
    return (sums - target).abs().where((sums > target) | (g < 0.0), 0.0)


def _outside(sums: Tensor, target: Tensor, m: Marginals) -> Tensor:
    return (sums - target).clamp(min=0.0) + (_least(target, m) - sums).clamp(min=0.0)


def _outside_or_priced(sums: Tensor, target: Tensor, g: Tensor, m: Marginals) -> Tensor:
    least, between = _least(target, m), _outside(sums, target, m)
    return (sums - target).abs().where(g < 0.0, (sums - least).abs().where(g > 0.0, between))


def _totals_agree(mass: Tensor, total: Tensor, m: Marginals, close: float) -> Tensor:
    apart = (mass - total).where(~m.has_sink, (total - mass).clamp(min=0.0))
    return apart.abs() <= close * torch.maximum(mass, total)


def _room_is_enough(mass: Tensor, total: Tensor, m: Marginals, close: float) -> Tensor:
    # A sink has room for all.
    return (total >= mass * (1.0 - close)) | m.has_sink


def _bounds_fit(mass: Tensor, total: Tensor, m: Marginals, close: float) -> Tensor:
    return _room_is_enough(mass, total, m, close) & (_least(total, m) <= mass * (1.0 + close))


RULES: dict[int, Rule] = {
    c.COLUMNS_EXACT: Rule(_exact, _same, _difference, balanced=True, least=_all, feasible=_totals_agree),
    c.COLUMNS_RELAXED: Rule(_stepped, _unstepped, _penalised, penalised=True),
    c.COLUMNS_CAPPED: Rule(
        _capped, _priced, _over_or_priced, _over, unit_masses=True, feasible=_room_is_enough, ceiling=0.0
    ),
    c.COLUMNS_BOUNDED: Rule(
        _bounded, _between, _outside_or_priced, _outside, least=_least, feasible=_bounds_fit
    ),
    c.COLUMNS_ELASTIC: Rule(_elastic, _same, _difference),
}
# Vectors and numbers that the marginals depend on, and have derivatives.
OF_MARGINALS = ("temperature", "sink", "cap", "strength", "lower", "upper", "row_mass", "column_mass")


def _exponential(x: Any) -> Any:
    return torch.exp(x) if isinstance(x, Tensor) else math.exp(x)


def _logarithm(x: Any) -> Any:
    """-inf of 0, which has no derivative."""
    if not isinstance(x, Tensor):
        return math.log(x) if x > 0.0 else -math.inf
    positive = ~(x <= 0.0)
    return torch.log(x.where(positive, 1.0)).where(positive, -torch.inf)


def grows(scores: Scores, name: str) -> bool:
    """Whether masses of 0 have derivatives, those of a mass that begins to grow.

    Sums behind a penalty have none: they grow with a power of the mass below 1.
    """
    p = scores.problem
    if name == "row_mass":
        return bool(p.rows == c.ROWS_HARD)
    return p.columns in RULES and not RULES[p.columns].penalised and p.columns != c.COLUMNS_ELASTIC


def marginals(scores: Scores, of: Mapping[str, Tensor] | None = None, as_given: bool = False) -> Marginals:
    """Those of a call; `of` has other tensors than its own.

    Unless targets are wanted `as_given`, those that have to have the rows' total have it to the last bit.
    """
    s, p = scores, scores.problem
    of = s.given if of is None else of
    tau = s.tau(of)
    shape = (s.batch, s.heads)
    sink = s.per_head("sink", of, s.spec.sink)
    if sink is not None:
        # Made there: a copy from here would have a device wait. No sink, -inf, has no derivative.
        sink = torch.zeros((), dtype=s.wide, device=s.device) + sink
        sink = (sink.where(sink != -torch.inf, 0.0) / tau).where(sink != -torch.inf, -torch.inf)
    rows, columns = s.usable
    has_sink = torch.zeros((*shape, 1), dtype=torch.bool, device=s.device)
    if sink is not None:
        has_sink = (sink != -torch.inf).expand(*shape, 1)
        rows = rows | has_sink
        sink = sink if s.common is None else sink - s.common
    mass = of["row_mass"][:, :, 0].expand(*shape, s.rows) if "row_mass" in of else None
    ones = torch.ones((*shape, s.rows), dtype=s.wide, device=s.device)
    mass = ones if mass is None else mass
    # What has no mass, and cannot grow, has no derivative by it, whatever follows the total.
    mass = mass.where(rows if grows(s, "row_mass") else rows & ~(mass <= 0.0), 0.0)
    # Rows that are lost have a potential of NaN.
    mass = mass.where(~s.lost, torch.nan)
    log_floor: Number = None
    step: Number = None
    softness: Number = None
    rule = RULES.get(p.columns)
    row_step: Number = 1.0
    if p.rows == c.ROWS_RELAXED:
        row_step = p.row_strength / (p.row_strength + tau)
    if rule is None:
        return Marginals(
            mass, _logarithm(mass), ones, ones, None, None, row_step, None, sink, has_sink[..., 0]
        )
    target: Number
    if "column_mass" in of:
        target = of["column_mass"][:, :, 0].expand(*shape, s.columns)
    elif rule.unit_masses:
        target = torch.ones((*shape, s.columns), dtype=s.wide, device=s.device)
    else:
        usable = columns.sum(2, keepdim=True)
        target = (mass.sum(2, keepdim=True) / usable.clamp(min=1)).where(columns, 0.0)
    if rule.balanced and not as_given:
        total = target.sum(2, keepdim=True)
        share = mass.sum(2, keepdim=True) / total.where(total > 0.0, 1.0)
        target = target * share.where(~has_sink, 1.0)
    if p.columns == c.COLUMNS_CAPPED:
        target = target * of.get("cap", p.cap)
    if p.columns == c.COLUMNS_BOUNDED:
        lower, upper = of.get("lower", p.lower), of.get("upper", p.upper)
        log_floor = _logarithm(lower) - _logarithm(upper)
        target = target * upper
    if p.columns == c.COLUMNS_RELAXED:
        strength = of.get("strength", p.strength)
        step, softness = strength / (strength + tau), tau / strength
    if p.columns == c.COLUMNS_ELASTIC:
        step = of.get("strength", getattr(p, "lambda"))
        step = step[:, :, 0] if isinstance(step, Tensor) and step.dim() else step
    log_target: Tensor = _logarithm(target)
    return Marginals(
        mass,
        _logarithm(mass),
        target,
        log_target,
        log_floor,
        step,
        row_step,
        softness,
        sink,
        has_sink[..., 0],
    )


def next_columns(rule: Rule, g: Tensor, lse: Tensor, m: Marginals) -> Tensor:
    """The column update. A key whose target is 0 takes nothing; what no mass reaches has no potential."""
    open_ = m.log_target > -torch.inf
    reached = open_ & (lse > -torch.inf)
    ratio = m.log_target.where(reached, 0.0) - lse.where(reached, 0.0)
    return rule.update(g.where(open_, 0.0), ratio, m).where(open_, -torch.inf)


def with_sink(lse: Tensor, m: Marginals) -> Tensor:
    return lse if m.sink is None else torch.logaddexp(lse, m.sink.expand_as(lse))


def next_rows(lse: Tensor, m: Marginals) -> Tensor:
    """The row update of LSE_j(S_ij + g_j) without the sink; a row without mass gives nothing."""
    whole = with_sink(lse, m)
    open_ = m.log_mass != -torch.inf
    f: Tensor = (m.log_mass.where(open_, 0.0) - whole.where(open_, 0.0)) * m.row_step
    return f.where(open_, -torch.inf)
