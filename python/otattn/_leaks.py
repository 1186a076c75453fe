"""The warning that a causal mask does not keep every method from the future: once a method and process."""

from __future__ import annotations

import ctypes
import sys
import warnings
from types import FrameType
from typing import Any

import numpy as np

from . import _structs as c

# Column rules under which a later query may change an earlier row.
LEAKING = (
    c.COLUMNS_EXACT,
    c.COLUMNS_RELAXED,
    c.COLUMNS_CAPPED,
    c.COLUMNS_ELASTIC,
    c.COLUMNS_BOUNDED,
)
_TYPES = {c.BOOL: np.bool_, c.F64: np.float64, c.F32: np.float32, c.F16: np.float16, c.BF16: np.uint16}
_warned: set[str] = set()


def forget() -> None:
    """Has the next call of every method warn again."""
    _warned.clear()


def warn_of_leaks(method: str) -> None:
    """Says once that the columns of a method let later tokens change earlier rows."""
    if method in _warned:
        return
    _warned.add(method)
    warn(
        f"the columns of {method!r} couple the rows, so later tokens change earlier outputs of a causal "
        "model; online and prefix columns do not",
        UserWarning,
    )


def watch(method: str, columns: int, causal: bool, queries: int, mask: Any) -> None:
    """Warns where the rule of the columns leaks and the support is causal.

    `mask` is a view of memory or None; `causal` says what the call itself says.
    """
    if columns not in LEAKING or queries < 2 or method in _warned:
        return
    if causal or (isinstance(mask, tuple) and _is_causal(mask)):
        warn_of_leaks(method)


def _is_causal(view: tuple[int, ...]) -> bool:
    """Whether the mask of the first head, which a view shows, forbids all that lies above the diagonal."""
    address, kind, _, _, rows, columns, _, _, step, side = view
    if rows != columns or rows < 2 or kind not in _TYPES or not address or min(step, side) <= 0:
        return False
    dtype = np.dtype(_TYPES[kind])
    count = (rows - 1) * step + (columns - 1) * side + 1
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    flat = np.frombuffer(memory, dtype)
    each = dtype.itemsize
    matrix = np.lib.stride_tricks.as_strided(flat, (rows, columns), (step * each, side * each))
    # Most masks that are not causal say so here.
    if _allowed(matrix[:1, -1:], kind)[0, 0]:
        return False
    allowed = _allowed(matrix, kind)
    return not np.triu(allowed, 1).any() and bool(np.tril(allowed, -1).any())


def _allowed(x: Any, kind: int) -> Any:
    if kind == c.BOOL:
        return x
    if kind == c.BF16:
        x = (x.astype(np.uint32) << 16).view(np.float32)
    # Numbers near the least stand for -inf.
    return x > np.finfo(x.dtype).min / 2


def warn(message: str, kind: type[Warning]) -> None:
    """A warning that names the line which called the package."""
    level, depth = 2, 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        depth += 1
        if frame.f_globals.get("__name__", "").partition(".")[0] == "otattn":
            level = depth + 1
        frame = frame.f_back
    warnings.warn(message, kind, stacklevel=level)
