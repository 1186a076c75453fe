"""The operands of a call in four dimensions, or as single numbers, whosever arrays they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ._settings import NUMBERS, OPERANDS
from ._shapes import Expand, fold_heads, fold_pairs, fold_relative, fold_vector, shape_text


class Kind(NamedTuple):
    """What arrays of a kind differ in. Whatever takes a name checks the array, and raises in a sentence."""

    mask: Callable[[str, Any], Any]
    """Booleans, or floats that are added."""
    floating: Callable[[str, Any], Any]
    wide: Callable[[str, Any, Any], Any]
    """Masses, slopes and the like in f64 or f32, others converted; beside it the query."""
    whole: Callable[[str, Any, int], Any]
    """So many whole numbers of the library's type."""
    is_one: Callable[[Any], bool]
    """Whether an array stands for one number."""
    expand: Expand


def fold_operand(
    kind: Kind, name: str, x: Any, batch: tuple[int, ...], sizes: tuple[int, int, int], like: Any
) -> Any:
    """One operand behind query, key and value. `sizes` are heads, queries and keys."""
    heads, queries, keys = sizes
    total = 1
    for size in batch:
        total *= size
    if name == "attn_mask":
        return fold_pairs(name, kind.mask(name, x), batch, sizes, kind.expand)
    if name == "bias":
        return fold_pairs(name, kind.floating(name, x), batch, sizes, kind.expand)
    if name == "key_lengths":
        return kind.whole(name, x, total).reshape((1, 1, 1, total))
    if name not in _WIDE:
        return x
    x = kind.wide(name, x, like)
    if name == "entry_caps":
        return fold_pairs(name, x, batch, sizes, kind.expand)
    if name == "relative_bias":
        return fold_relative(x, heads, queries, keys)
    if name in ("row_mass", "column_mass"):
        return fold_vector(name, x, total, heads, queries if name == "row_mass" else keys)
    if name == "start_potential":
        return kind.expand(fold_vector(name, x, total, heads, keys), (total, heads, 1, keys))
    if kind.is_one(x):
        return x.reshape(())
    if name == "strength":
        if tuple(x.shape) != (keys,):
            raise ValueError(f"strength has shape {shape_text(x)}, wanted one number or ({keys},)")
        return x.reshape((1, 1, 1, keys))
    if name in NUMBERS:
        if math.prod(x.shape) != 1:
            raise ValueError(f"{name} has shape {shape_text(x)}, wanted one number")
        return x.reshape(())
    return fold_heads(name, x, heads)


# All others are what they have to be.
_WIDE = frozenset(OPERANDS[3:]) - {"attn_mask", "bias", "key_lengths", "dropout_seed", "numbers"}


def fold_operands(
    kind: Kind, given: Mapping[str, Any], batch: tuple[int, ...], sizes: tuple[int, int, int], like: Any
) -> list[Any]:
    """All operands behind query, key and value, in their order; None for those that are not there."""
    found = {
        name: fold_operand(kind, name, x, batch, sizes, like) for name, x in given.items() if x is not None
    }
    return [found.get(name) for name in OPERANDS[3:]]
