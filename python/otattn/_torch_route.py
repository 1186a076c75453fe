"""The methods of `route` by torch's operations, on whatever device the logits lie.

The formulas are those of otattn_route.h. Loops to a tolerance keep what they found once it is met, and read
every few rounds whether it is. What has the size of the logits, but for Sinkhorn's kernel, exists for a block
of tokens or experts at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._torch_device import EVERY, pieces, wide_type

_EPS, _LARGEST_START = 1e-8, 80.0
_ROUNDS = {"sinkhorn": 1000, "quantile": 100}


class Terms(NamedTuple):
    """What is asked besides the logits."""

    k: int
    method: str
    lower: Tensor
    upper: Tensor
    drops: bool
    start: Tensor | None
    tolerance: float
    rounds: int | None
    certificate: bool


class _Found(NamedTuple):
    """Experts of tokens, potentials, the rounds that found them and whether the stop was met."""

    experts: Tensor
    biases: Tensor
    rounds: Tensor
    converged: Tensor


class _Loop:
    """Rounds until a change is within the tolerance."""

    def __init__(self, terms: Terms, like: Tensor) -> None:
        self.most = terms.rounds or _ROUNDS[terms.method]
        self.tolerance, self.every = terms.tolerance, 1 if like.is_cpu else EVERY
        self.rounds = torch.zeros((), dtype=torch.int64, device=like.device)
        self.going = torch.ones((), dtype=torch.bool, device=like.device)
        self.ran = 0

    def goes_on(self) -> bool:
        if self.ran >= self.most or (self.ran % self.every == 0 and not bool(self.going)):
            return False
        self.ran += 1
        return True

    def step(self, before: Tensor, after: Tensor, change: Tensor) -> Tensor:
        """What holds after a round: `after`, or `before` where the stop was met already."""
        found = torch.where(self.going, after, before)
        self.rounds += self.going
        self.going = self.going & ~(change <= self.tolerance)
        return found


def _largest(x: Tensor, k: int, add: Tensor | None = None, times: Tensor | None = None) -> Tensor:
    """The places of the k largest of every row of x + add or x times, rising; of equal ones the first."""
    found = torch.empty((x.shape[0], k), dtype=torch.int64, device=x.device)
    for part in pieces(*x.shape):
        line = x[part]
        line = line if add is None else line.to(add.dtype) + add
        line = line if times is None else line * times
        falling = line.sort(dim=1, descending=True, stable=True).indices
        found[part] = falling[:, :k].sort(1).values
    return found


def _chosen(x: Tensor, terms: Terms) -> _Found:
    """By potentials that are given, or by the logits alone."""
    wide = wide_type(x.device)
    biases = terms.start
    if biases is None:
        biases = torch.zeros(x.shape[1], dtype=wide, device=x.device)
    experts = _largest(x, terms.k, terms.start)
    nothing = torch.zeros((), dtype=torch.int64, device=x.device)
    return _Found(experts, biases, nothing, nothing == 0)


def _sinkhorn(x: Tensor, terms: Terms) -> _Found:
    wide, (tokens, experts) = wide_type(x.device), x.shape
    kernel = (x - x.amax(1, keepdim=True)).exp_()
    v = torch.ones(experts, dtype=x.dtype, device=x.device)
    if terms.start is not None:
        away = terms.start - terms.start.mean()
        v = away.clamp(-_LARGEST_START, _LARGEST_START).exp().to(x.dtype)
    loop = _Loop(terms, x)
    while loop.goes_on():
        columns = torch.zeros(experts, dtype=wide, device=x.device)
        for part in pieces(tokens, experts):
            u = (tokens * ((kernel[part] * v).sum(1, dtype=wide) + _EPS)).reciprocal()
            columns += (kernel[part] * u[:, None]).sum(0)
        after = (experts * (columns + _EPS)).reciprocal().to(x.dtype)
        v = loop.step(v, after, (after.to(wide) - v.to(wide)).abs().mean())
    return _Found(_largest(kernel, terms.k, times=v), v.to(wide).log(), loop.rounds, ~loop.going)


def _quantile(x: Tensor, terms: Terms) -> _Found:
    wide, (tokens, experts) = wide_type(x.device), x.shape
    lower, upper, k = terms.lower, terms.upper, terms.k
    biases = terms.start
    if biases is None:
        biases = torch.zeros(experts, dtype=wide, device=x.device)
    # What these say of bounds that do not bind is not read.
    places = torch.stack([(lower - 1).clamp(min=0), upper.clamp(max=tokens - 1)], 1)
    loop = _Loop(terms, x)
    if k == experts:
        loop.most, loop.going = 0, torch.zeros_like(loop.going)
    while loop.goes_on():
        near = biases.to(x.dtype)
        thresholds = torch.empty(tokens, dtype=x.dtype, device=x.device)
        for part in pieces(tokens, experts):
            best = (x[part] + near).topk(k + 1, 1).values
            thresholds[part] = (best[:, k - 1] + best[:, k]) * 0.5
        # Of each expert the biases with which it is taken by as many tokens as its bounds allow.
        ends = torch.empty((experts, 2), dtype=wide, device=x.device)
        for part in pieces(experts, tokens):
            rising = (thresholds - x[:, part].mT).sort(1).values
            ends[part] = rising.gather(1, places[part]).to(wide)
        least = ends[:, 0].masked_fill(lower == 0, -torch.inf)
        most = ends[:, 1].masked_fill(upper >= tokens, torch.inf)
        after = torch.where(lower == upper, 0.5 * (least + most), least.clamp(min=0.0).minimum(most))
        after = after.where(after.isfinite(), 0.0)
        moved = after - biases
        biases = loop.step(biases, after, (moved - moved.mean()).abs().mean())
    return _Found(_largest(x, k, biases), biases, loop.rounds, ~loop.going)


METHODS = {"topk": _chosen, "given": _chosen, "sinkhorn": _sinkhorn, "quantile": _quantile}


def _levelled(biases: Tensor, lower: Tensor, upper: Tensor, choices: int) -> Tensor:
    """With the common number that makes the bound the least, which is convex in it."""
    here, order = (-biases).sort(stable=True)
    low, high = lower[order], upper[order]
    sorted_ = -here
    raised, lifted = (sorted_ * low).cumsum(0) - sorted_ * low, low.cumsum(0) - low
    sunk = (sorted_ * high).sum() - (sorted_ * high).cumsum(0)
    held = high.sum() - high.cumsum(0)
    bound = choices * here - (raised + here * lifted) - (sunk + here * held)
    first = torch.arange(len(biases), device=biases.device).where(bound == bound.min(), len(biases) - 1).min()
    shifted: Tensor = biases + here[first].where(bound[first].isfinite(), 0.0)
    return shifted


def _kept(x: Tensor, experts: Tensor, load: Tensor, upper: Tensor) -> Tensor:
    """All but as many of the smallest logits of an expert as exceed its bound; of equal ones the first go."""
    flat, values = experts.flatten(), x.gather(1, experts).flatten()
    rising = values.sort(stable=True).indices
    order = rising[flat[rising].sort(stable=True).indices]
    group = flat[order]
    place = torch.arange(len(flat), device=x.device) - (load.cumsum(0) - load)[group]
    surplus = (load - upper).clamp(min=0)
    return (
        torch.empty_like(flat, dtype=torch.bool).scatter_(0, order, place >= surplus[group]).view_as(experts)
    )


def answer(x: Tensor, terms: Terms) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Experts, potentials, load, kept, and the certificate's numbers, for logits in f32 or f64."""
    wide, (tokens, columns) = wide_type(x.device), x.shape
    found = METHODS[terms.method](x, terms)
    lower, upper = terms.lower, terms.upper
    flat = found.experts.flatten()
    load = torch.zeros(columns, dtype=torch.int64, device=x.device).scatter_add_(
        0, flat, torch.ones_like(flat)
    )
    kept = torch.ones_like(found.experts, dtype=torch.bool)
    if terms.drops:
        kept = _kept(x, found.experts, load, upper)
    biases = found.biases
    if terms.method != "topk":
        biases = _levelled(biases, lower, upper, tokens * terms.k)
    bound = torch.full((), torch.nan, dtype=wide, device=x.device)
    if terms.certificate:
        bound = -(biases * torch.where(biases > 0.0, lower, upper)).sum()
        for part in pieces(tokens, columns):
            bound += (x[part].to(wide) + biases).topk(terms.k, 1).values.sum()
    value = x.gather(1, found.experts).sum(dtype=wide)
    excess = (load - upper).clamp(min=0).sum() + (lower - load).clamp(min=0).sum()
    numbers = torch.stack([y.to(wide) for y in (value, bound, excess, found.rounds, found.converged)])
    return found.experts, biases, load, kept, numbers
