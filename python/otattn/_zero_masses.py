"""Derivatives by masses of exactly 0: those of a mass that begins to grow.

A row or column without mass has no weights, and thus no derivative of its own. The limit of small masses
has one, of exact, capped and bounded sides: what a solve at masses too small to show says. Sides with a
penalty on their sums have none: the sums grow with a power of the mass below 1.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from . import _structs as c
from ._settings import MASSES
from ._spec import Spec
from ._template import COUPLED, is_implicit, regulariser_of, template


def with_limits(spec: Spec) -> tuple[str, ...]:
    """The masses that have derivatives at 0."""
    problem, _ = template(spec)
    if problem.columns not in (*COUPLED, c.COLUMNS_FREE) or problem.regulariser == c.HARD:
        return ()
    governed = "column_mass" if problem.axis == c.AXIS_ROWS else "row_mass"
    penalised = [governed] if problem.columns == c.COLUMNS_RELAXED else []
    if problem.rows != c.ROWS_HARD:
        penalised += [name for name in MASSES if name != governed]
    return tuple(name for name in MASSES if name not in penalised)


# Weights of entmax below the tolerance of the sums need not be found; its plans are f64 whatever the arrays.
_TOLERANCE = 1e-9


def _finer(spec: Spec) -> Spec:
    """The spec of the solve at small masses."""
    if regulariser_of(spec) == c.SOFTMAX or not is_implicit(spec):
        return spec
    return spec._replace(tolerance=min(spec.tolerance or _TOLERANCE, _TOLERANCE))


finer = functools.lru_cache(maxsize=256)(_finer)


# Rounds end where the sums together are within the tolerance: small masses must stand out of it.
ROUNDS_TOLERANCE, ROUNDS_SHARE = 1e-12, 2.0**-24


def finer_rounds(spec: Spec) -> Spec:
    """As `finer`, where rounds alone solve."""
    if not is_implicit(spec):
        return spec
    return spec._replace(tolerance=min(spec.tolerance or ROUNDS_TOLERANCE, ROUNDS_TOLERANCE))


def share_of(spec: Spec, size: int) -> float:
    """Of the total mass of a head, in numbers of so many bytes, what does not show."""
    if size < 4:
        return 2.0**-20
    if regulariser_of(spec) == c.SOFTMAX:
        return 2.0**-30 if size == 4 else 2.0**-60
    return max(2.0**-30, 64.0 * (finer(spec).tolerance or 0.0))


def grown(
    spec: Spec, order: Sequence[str], arrays: Sequence[Any], wanted: Sequence[str], by_rounds: bool = False
) -> tuple[Spec, list[Any]] | None:
    """Spec and arrays with small masses for those of 0 whose derivatives are wanted; None: there are none."""
    found = list(arrays)
    changed = False
    for name in MASSES:
        if name not in wanted or name not in order or name not in with_limits(spec):
            continue
        place = order.index(name)
        x = found[place]
        if x is None or bool(x.all()):
            continue
        # Of the type of x, which NumPy's sums and products of f32 have, too, and of the same total.
        total = x.sum(-1)[..., None]
        share = share_of(spec, x.itemsize)
        share = max(share, ROUNDS_SHARE) if by_rounds else share
        small = x + (x == 0) * (total * share)
        found[place] = small * (total / (small.sum(-1)[..., None] + (total == 0)))
        changed = True
    finest = finer_rounds if by_rounds else finer
    return (finest(spec), found) if changed else None
