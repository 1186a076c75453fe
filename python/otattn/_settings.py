"""The operands of a solve in their order, and checks of single arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ._structs import DERIVATIVES

# The operands of a solve, always in this order; absent ones are None. With `key` absent, `query` is a
# matrix of scores [batch, heads, queries, keys].
OPERANDS = (
    "query",
    "key",
    "value",
    "attn_mask",
    "bias",
    "relative_bias",
    "alibi_slopes",
    "sink",
    "temperature",
    "alpha",
    "cap",
    "strength",
    "lower",
    "upper",
    "row_mass",
    "column_mass",
    "key_lengths",
    "entry_caps",
    "start_potential",
    "dropout_seed",
    "numbers",
)
# Those of two bytes stay what they are: the tolerance of their totals follows from it.
MASSES = ("row_mass", "column_mass")
PLACES = {name: k for k, name in enumerate(OPERANDS)}
# How many stand behind query, key and value. The last two are no arrays of a caller: seed and offset of
# dropout, and the numbers that `Spec.moving` names.
EXTRA = len(OPERANDS) - 3
# The header's field : the argument of Python that sets it.
ARGUMENTS = {
    "queries": "query",
    "keys": "key",
    "values": "value",
    "scores": "scores",
    "order": "alpha",
    "lambda": "strength",
    "lambdas": "strength",
    "temperatures": "temperature",
    "terms": "bias",
    "supports": "attn_mask",
    "columns": "method",
    "regulariser": "method",
    "corner": "causal_align",
    "row_strength": "rows",
    "steps": "method",
    "entry_cap": "entry_caps",
    "lengths": "key_lengths",
}
# Operands that are terms of the problem, which have a derivative each.
TERMS = ("bias", "relative_bias", "alibi_slopes", "sink")
# The field of an operand in ota_gradients and ota_tangents, where it is no term: the rows of
# src/problem/fields.c. `scores` are the final ones, of a direction alone.
DERIVATIVE_FIELDS = {
    ARGUMENTS.get(field, field): field
    for field, _, shape, ranks in DERIVATIVES
    if ranks != "upstream" and shape != "terms"
}
DIFFERENTIABLE = tuple(name for name in OPERANDS if name in DERIVATIVE_FIELDS or name in TERMS)
# Numbers of a method, one for the whole call. Elastic columns have a strength a key.
_ONE = {field for field, _, shape, _ in DERIVATIVES if shape == "number"}
NUMBERS = tuple(name for name in OPERANDS if DERIVATIVE_FIELDS.get(name) in _ONE and name != "strength")
# Operands that have no batch dimension which a further one could join.
UNBATCHED = ("relative_bias", "alibi_slopes", "sink", "temperature", *NUMBERS, "strength", "key_lengths")
# The outputs of a solve, in the order and by the names of ota_arrays.
OUTPUTS = (
    "out",
    "coupling",
    "row_potential",
    "column_potential",
    "lse",
    "receiver",
    "row_entropy",
    "row_support",
    "row_max",
    "sink",
)


def compiling() -> bool:
    """Inside of torch.compile or torch.export, which look through what is called here."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_of_torch(backend: str | None) -> bool:
    """Whether a backend is torch's own operations, on whatever device the tensors lie."""
    return backend is not None and backend.partition(":")[0] == "torch"


def shown(value: Any) -> str:
    """What a sentence says of a value, arrays included."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """What a sentence adds for a misspelt name: the known one that it may stand for."""
    import difflib

    found = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def known_names(
    what: str, given: Iterable[Any], known: Iterable[str], whose: str, also: Iterable[str] = ()
) -> None:
    """TypeError for a name among the given that is none of the known; one of `also` may have been meant."""
    given = list(given)
    known = list(known) if given else []
    for name in given:
        if name not in known:
            hint = nearest(name, [*known, *also]) if isinstance(name, str) else ""
            raise TypeError(f"{what} has {name!r}, which is no argument of {whose}{hint}")


def number(name: str, value: Any) -> float:
    """A Python float of an argument that must be one number."""
    if isinstance(value, (str, bytes, bool)):
        raise TypeError(f"{name} is {shown(value)}, wanted a number")
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} is a {type(value).__name__}, wanted a number") from error
    # As math.isnan, which no graph takes for a number that changes from call to call.
    if result != result:  # noqa: PLR0124
        raise ValueError(f"{name} is NaN")
    return result


def text(name: str, value: Any) -> str:
    """An argument that must be a string, as one of Python's own."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}, wanted a string")
    return str(value)


def flag(name: str, value: Any) -> bool:
    """A bool of an argument that must be true or false."""
    if type(value) is bool:
        return value
    if value is None:
        return False
    # A word is true whatever it says ("no"), a list whatever it holds: only what equals its truth is one.
    try:
        truth = bool(value)
        # float() and no ==, which would be a step of a graph that is traced.
        if not isinstance(value, (str, bytes)) and float(value) == truth:
            return truth
    except (TypeError, ValueError, RuntimeError):
        pass
    raise TypeError(f"{name} is {shown(value)}, wanted True or False")


def count(name: str, value: Any, least: int = 0, most: int = (1 << 63) - 1) -> int | None:
    """An int of an argument that must be a whole number, or None."""
    if value is None:
        return None
    # NumPy's and torch's bools know their type only.
    found = value if type(value) is int else None
    is_bool = found is None and str(getattr(value, "dtype", "")).endswith("bool")
    if found is None and not (is_bool or isinstance(value, (bool, str, bytes))):
        try:
            found = int(value)
            found = found if bool(found == value) else None
        except (TypeError, ValueError, OverflowError):
            pass
    if found is None:
        raise TypeError(f"{name} is {shown(value)}, wanted a whole number")
    if found < least:
        raise ValueError(f"{name} is {value}, wanted {least} or more")
    if found > most:
        raise ValueError(f"{name} is {value}, wanted at most {most}")
    return found


def whole(name: str, value: Any, least: int = 0, most: int = (1 << 63) - 1) -> int:
    """As `count`, where None is none."""
    found = count(name, value, least, most)
    if found is None:
        raise TypeError(f"{name} is None, wanted a whole number")
    return found
