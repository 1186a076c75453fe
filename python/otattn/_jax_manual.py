"""Arrays of `jax.shard_map`, whose types say over which axes of the mesh they vary.

What the library makes varies over every axis that one of its inputs does. So inputs are cast to that before a
call, which sums their gradients over the axes that were added, and results after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp


def _axes(x: Any) -> frozenset[Any]:
    kind: Any = jax.typeof(x) if hasattr(jax, "typeof") else None
    manual = getattr(kind, "manual_axis_type", None)
    found = getattr(kind, "vma", None) if manual is None else manual.varying
    return frozenset(found or ())


def _cast(x: Any, axes: frozenset[Any]) -> Any:
    missing = tuple(sorted(axes - _axes(x), key=str))
    if not missing:
        return x
    lax: Any = jax.lax
    return lax.pcast(x, missing, to="varying") if hasattr(lax, "pcast") else lax.pvary(x, missing)


def alike(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays, each varying over the axes that any of them does."""
    axes = frozenset[Any]().union(*map(_axes, arrays))
    return tuple(_cast(x, axes) for x in arrays) if axes else tuple(arrays)


def made_of(arrays: Sequence[Any], found: Any) -> Any:
    """Results of a call on arrays that are alike, which jax takes for the same along every axis."""
    axes = _axes(arrays[0])
    return tuple(_cast(x, axes) for x in found) if isinstance(found, (tuple, list)) else _cast(found, axes)


def zeros_like(x: Any) -> Any:
    """Zeros of the array's own type."""
    return _cast(jnp.zeros_like(x), _axes(x))
