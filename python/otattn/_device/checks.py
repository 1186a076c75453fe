"""What is refused before a solve: values that make no sense, and masses that no plan can have."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._errors import Infeasible, check, new_error
from .._job import Job, view_like
from .._library import library
from .._settings import OPERANDS
from .._spec import Spec
from .._torch_fold import TYPES
from .engines import Engine
from .rules import RULES, marginals
from .solver import rounds_of

# Operands whose numbers the library does not look at.
LARGE = ("query", "key", "value", "attn_mask", "bias")


def check_call(spec: Spec, operands: Sequence[Tensor | None]) -> None:
    """Raises what the library says of a call: it reads vectors of CPUs, of others it knows the shapes."""
    spec = spec._replace(dropout_p=0.0, deadline=None, backend=None)
    query = operands[0]
    assert query is not None
    if query.is_cpu:
        memory: list[Tensor] = []
        _ask(spec, [_view(name, x, memory) for name, x in zip(OPERANDS, operands, strict=True)])
    else:
        _ask_of_shapes(spec, tuple(map(_shape, OPERANDS, operands)))


def _ask(spec: Spec, operands: Sequence[Any]) -> None:
    job = Job(spec, operands)
    error, reference = new_error()
    status = library.ota_check(ctypes.byref(job.problem), ctypes.byref(job.options), reference)
    job.reraise()
    check(status, error)


def _view(name: str, x: Tensor | None, memory: list[Tensor]) -> Any:
    """An operand as the library takes it, a number or a view; `memory` keeps what a view points to."""
    if x is None or name in ("dropout_seed", "numbers"):
        return None
    if x.dim() == 0:
        return float(x)
    memory.append(x.detach().new_ones(1) if name in LARGE else x.detach().contiguous())
    return (memory[-1].data_ptr(), *view_like(x.shape, TYPES[x.dtype])[1:])


def _shape(name: str, x: Tensor | None) -> Any:
    """What is known of an operand whose numbers would have a device wait."""
    if x is None or name in ("dropout_seed", "numbers"):
        return None
    if x.dim() == 0:
        return float(x) if x.is_cpu else 1.0
    return tuple(x.shape), x.dtype


@functools.lru_cache(maxsize=256)
def _ask_of_shapes(spec: Spec, shapes: tuple[Any, ...]) -> None:
    memory: list[Tensor] = []
    operands: list[Any] = []
    for name, known in zip(OPERANDS, shapes, strict=True):
        if isinstance(known, tuple):
            # Of ones, whatever the caller's hold.
            known = torch.ones(() if name in LARGE else known[0], dtype=known[1]).expand(known[0])
            known = _view(name, known, memory)
        operands.append(known)
    _ask(spec, operands)


def check_start(engine: Engine) -> None:
    """Raises where a start potential has no use."""
    s = engine.scores
    if "start_potential" in s.given and (s.problem.columns not in RULES or rounds_of(engine) == 0):
        raise ValueError(
            "start_potential has no use: this plan starts no rounds from column potentials; leave it out, or "
            "run exact, relaxed, capped, bounded or elastic columns on the rows axis"
        )


def check_masses(engine: Engine) -> None:
    """Raises where no plan has the masses that are asked for; a fixed number of rounds has no device wait."""
    s = engine.scores
    rule, asked = RULES.get(s.problem.columns), rounds_of(engine)
    if rule is None or (asked is not None and s.device.type != "cpu"):
        return
    m = marginals(s, as_given=True)
    usable, _ = s.usable
    mass, target = torch.exp(m.log_mass), torch.exp(m.log_target)
    if bool(torch.isnan(mass).any()):
        # Of such rows the solve says more.
        return
    no_sink = ~m.has_sink[..., None]
    if rule.balanced:
        given = s.given.get("row_mass")
        heavy = torch.ones_like(usable) if given is None else given[:, :, 0] > 0.0
        if bool((heavy & ~usable & no_sink).any()):
            raise Infeasible(
                "a query with positive mass has no key it may use",
                advice="change the masses, the mask, or use relaxed or capped columns",
            )
    if asked == 0:
        return
    reached = torch.zeros_like(target, dtype=torch.bool)
    shut = torch.zeros((), dtype=torch.bool, device=s.device)
    for rows in s.slices():
        pairs, keys = (mass[:, :, rows] > 0.0)[..., None], s.keys(rows)
        allowed = s.allowed(rows)
        pairs = pairs.expand(*pairs.shape[:3], s.columns) if allowed is None else pairs & allowed
        reached[..., keys] |= pairs.any(2)
        kept = pairs & (target > 0.0)[..., None, keys]
        shut = shut | (pairs.any(3) & ~kept.any(3) & no_sink).any()
    if bool(shut):
        raise Infeasible(
            "a query has mass and no key it may use has a positive column mass",
            advice="change the masses or the mask",
        )
    close = 1e-12 if s.type == torch.float64 and "row_mass" not in s.given else 1e-6
    if asked is None:
        least = rule.least(target, m)
        bound = (least > close * mass.sum(2, keepdim=True)) & ~reached
        if bool(bound.any()):
            raise Infeasible(
                "a key that no query may use has to receive mass",
                advice="set its column_mass to 0, or use relaxed columns",
            )
    if rule.feasible is not None:
        total = mass.sum(2), target.where(reached | rule.balanced, 0.0).sum(2)
        if not bool(rule.feasible(*total, m, close).all()):
            raise Infeasible(
                f"the rows have a mass of {float(total[0].reshape(-1)[0]):g} and the columns ask for "
                f"{float(total[1].reshape(-1)[0]):g}",
                advice="make the totals agree, or use relaxed columns",
            )
