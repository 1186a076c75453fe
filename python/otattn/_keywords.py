"""The table of all keywords of a call, and what checks the value of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ._progress import word_of_progress
from ._regulariser import Regulariser
from ._settings import compiling, count, flag, number, shown, text

# What the value of a keyword is: an option of a Spec; an option where it is one number, an array of the call
# otherwise; an array; something that one call alone has.
OPTION, NUMBER, ARRAY, CALL = "option", "number", "array", "call"


# ---- checks of single values -----------------------------------------------------------------------


def _method(name: str, value: Any) -> str:
    if isinstance(value, Regulariser):
        return value.word
    if not isinstance(value, str):
        raise TypeError(
            f"{name} is a {type(value).__name__}, wanted a string such as 'softmax/exact', a Regulariser "
            "or a Spec"
        )
    return str(value)


def _number_or_none(name: str, value: Any) -> float | None:
    return None if value is None else number(name, value)


def _more_than_zero(name: str, value: Any) -> float | None:
    found = _number_or_none(name, value)
    if found is not None and not found > 0.0:
        raise ValueError(f"{name} is {found!r}, wanted more than 0")
    return found


def _temperature(name: str, value: Any) -> float:
    found = _more_than_zero(name, value)
    return 1.0 if found is None else found


def _bound(name: str, value: Any) -> float | None:
    found = _number_or_none(name, value)
    if found is not None and not found >= 0.0:
        raise ValueError(f"{name} is {found!r}, wanted 0 or more")
    return found


def _softcap(name: str, value: Any) -> float:
    found = number(name, value)
    if found < 0.0:
        raise ValueError(f"{name} is {found!r}, wanted 0 (none) or more")
    return found


def _probability(name: str, value: Any) -> float:
    found = number(name, value)
    if not 0.0 <= found <= 1.0:
        raise ValueError(f"{name} is {found!r}, wanted 0 to 1")
    return found


def _corner(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in ("top_left", "bottom_right"):
        raise ValueError(f"{name} is {value!r}, wanted 'top_left' or 'bottom_right'")
    return str(value)


def _nonfinite(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in ("raise", "nan"):
        raise ValueError(f"{name} is {shown(value)}, wanted 'raise' or 'nan'")
    return str(value)


def _backend(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}, wanted a string or None")
    return None if value is None else str(value)


def _one_or_more(name: str, value: Any) -> int | None:
    return count(name, value, 1)


def seconds_left(name: str, value: Any) -> float | None:
    found = _number_or_none(name, value)
    if found is not None and not found > 0.0:
        raise ValueError(f"{name} is {found!r}, wanted more than 0 seconds from now")
    return found


def _progress(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if compiling():
        raise ValueError(
            f"{name} cannot be called from a compiled graph; leave it out, or call outside of it"
        )
    return word_of_progress(value)


def window_of(window: Any, name: str = "window") -> tuple[int, int] | None:
    """(left, right) of an argument that may be any pair of whole numbers; None where both are no limit."""
    if window is None:
        return None
    try:
        sides = [count(name, side, -1) for side in window]
    except TypeError:
        raise TypeError(f"{name} is {window!r}, wanted (left, right), two whole numbers") from None
    left, right = sides if len(sides) == 2 else (None, None)
    if left is None or right is None:
        raise ValueError(f"{name} is {window!r}, wanted (left, right), each -1 (no limit) or more")
    return None if left < 0 and right < 0 else (left, right)


def _window(name: str, value: Any) -> tuple[int, int] | None:
    return window_of(value, name)


# ---- the table -------------------------------------------------------------------------------------


class Field(NamedTuple):
    """A keyword of `attention`, its default, and what its plain value is checked by."""

    name: str
    default: Any
    kind: str
    check: Callable[[str, Any], Any] | None = None
    attention_only: bool = False
    """`coupling`, which has no queries, keys and values, does not take it."""


# In the order of the signature; the first five may be given by their places.
FIELDS = (
    Field("attn_mask", None, ARRAY),
    Field("dropout_p", 0.0, OPTION, _probability, True),
    Field("is_causal", False, OPTION, flag),
    Field("scale", None, OPTION, _number_or_none),
    Field("enable_gqa", False, OPTION, flag, True),
    Field("method", "softmax", OPTION, _method),
    Field("temperature", 1.0, NUMBER, _temperature),
    Field("rounds", None, OPTION, count),
    Field("tolerance", None, OPTION, _more_than_zero),
    Field("max_rounds", None, OPTION, _one_or_more),
    Field("alpha", None, NUMBER, _number_or_none),
    Field("cap", None, NUMBER, _number_or_none),
    Field("strength", None, NUMBER, _number_or_none),
    Field("row_mass", None, ARRAY),
    Field("column_mass", None, ARRAY),
    Field("bias", None, ARRAY, None, True),
    Field("alibi_slopes", None, NUMBER, _number_or_none, True),
    Field("window", None, OPTION, _window),
    Field("softcap", 0.0, OPTION, _softcap, True),
    Field("sink", None, NUMBER, _number_or_none),
    Field("return_aux", None, CALL),
    Field("lower", None, NUMBER, _bound),
    Field("upper", None, NUMBER, _bound),
    Field("causal_align", "top_left", OPTION, _corner),
    Field("key_lengths", None, ARRAY, None, True),
    Field("relative_bias", None, ARRAY, None, True),
    Field("relative_inside", False, OPTION, flag, True),
    Field("rows", "hard", OPTION, text),
    Field("axis", "rows", OPTION, text),
    Field("cost", False, OPTION, flag),
    Field("allow_partial", False, OPTION, flag),
    Field("prune", False, OPTION, flag),
    Field("strict", False, OPTION, flag),
    Field("solver", "auto", OPTION, text),
    Field("backend", None, OPTION, _backend),
    Field("start_potential", None, ARRAY),
    Field("dropout_seed", None, CALL, None, True),
    Field("dropout_offset", 0, CALL, None, True),
    Field("entry_caps", None, ARRAY),
    Field("workspace_limit", None, OPTION, _one_or_more),
    Field("deadline", None, CALL, seconds_left),
    Field("progress", None, CALL, _progress),
    Field("nonfinite", "raise", OPTION, _nonfinite),
)
BY_NAME = {field.name: field for field in FIELDS}
OPTIONS = tuple(field.name for field in FIELDS if field.kind in (OPTION, NUMBER))
# Of one call, and known to its solve: seconds, and the word of a function that is told of progress; and the
# names of numbers that stand in the operand `numbers`, whose fields have another one of their kind.
_OF_A_CALL = ("deadline", "progress", "moving")
NAMES = (*OPTIONS, *_OF_A_CALL)
DEFAULTS: dict[str, Any] = {
    **{name: BY_NAME[name].default for name in OPTIONS},
    "deadline": None,
    "progress": None,
    "moving": "",
}
# Keywords whose value may be an array.
ARRAYS = tuple(field.name for field in FIELDS if field.kind in (NUMBER, ARRAY))
