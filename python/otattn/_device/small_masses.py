"""Derivatives by masses of exactly 0 on tensors of any device: those of a mass that begins to grow.

The C library has their limit in closed form (src/operator/mass_limits.h). The rounds of this folder take
masses too small to show in their place, of exact, capped and bounded sides: sums behind a penalty grow with a
power of the mass below 1, which leaves no limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .. import _structs as c
from .._settings import MASSES, OPERANDS
from .._spec import Spec
from .._template import COUPLED, is_implicit, regulariser_of, template

# Rounds end where the sums together are within the tolerance: small masses must stand out of it.
_TOLERANCE, _SHARE = 1e-12, 2.0**-24
# Weights of entmax below the tolerance of the sums need not be found; its rows are f64 whatever the arrays.
_LEAST = 1e-9


def _with_limits(spec: Spec) -> tuple[str, ...]:
    """The masses that have derivatives at 0."""
    problem, _ = template(spec)
    if problem.columns not in (*COUPLED, c.COLUMNS_FREE) or problem.regulariser == c.HARD:
        return ()
    governed = "column_mass" if problem.axis == c.AXIS_ROWS else "row_mass"
    penalised = [governed] if problem.columns == c.COLUMNS_RELAXED else []
    if problem.rows != c.ROWS_HARD:
        penalised += [name for name in MASSES if name != governed]
    return tuple(name for name in MASSES if name not in penalised)


def _finer(spec: Spec) -> Spec:
    """The spec of the solve at small masses."""
    if not is_implicit(spec):
        return spec
    return spec._replace(tolerance=min(spec.tolerance or _TOLERANCE, _TOLERANCE))


def _share_of(spec: Spec, size: int) -> float:
    """Of the total mass of a head, in numbers of so many bytes, what does not show."""
    if size < 4:
        return 2.0**-20
    if regulariser_of(spec) == c.SOFTMAX or not is_implicit(spec):
        return _SHARE
    return max(_SHARE, 64.0 * min(spec.tolerance or _LEAST, _LEAST))


def grown(
    spec: Spec, operands: Sequence[Tensor | None], wanted: Sequence[str]
) -> tuple[Spec, list[Tensor | None]] | None:
    """Spec and operands with small masses for those of 0 whose derivatives are wanted; or None."""
    found = list(operands)
    changed = False
    for name in _with_limits(spec):
        place = OPERANDS.index(name)
        x = found[place] if place < len(found) and name in wanted else None
        if x is None or bool(x.all()):
            continue
        total = x.sum(-1)[..., None]
        small = x + (x == 0) * (total * _share_of(spec, x.itemsize))
        found[place] = small * (total / (small.sum(-1)[..., None] + (total == 0)))
        changed = True
    return (_finer(spec), found) if changed else None
