"""What a run changes at a point before it goes on: `otattn.Edit`."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _model_structs as m
from .. import _structs as c
from .._settings import number, shown, whole

# The indices of one dimension: one, a slice or range of step 1, several, or None for all.
Indices = int | slice | range | Iterable[int] | None

KINDS = {"scale": m.EDIT_SCALE, "replace": m.EDIT_REPLACE, "add": m.EDIT_ADD, "mean": m.EDIT_MEAN}
# Of ota_edit, in the order of its dimensions.
_RANGES = ("sequences", "tokens", "heads", "columns")


@dataclass(frozen=True)
class Edit:
    """A change of the numbers at one point of a run, in all given places at once.

    Parameters
    ----------
    point : str
        A name of `Model.points`, without "blocks.L." where `layer` says it or every layer is meant; short
        words as TransformerLens has them ("z", "resid_pre", "pattern", "attn_scores") are names, too.
    kind : str
        "scale": x becomes factor x, so that the factor 0 ablates. "replace": x becomes values. "add": factor
        values are added. "mean": x becomes its mean over the tokens of its text.
    layer, head, token, sequence, column : int, slice, range, list of int, or None
        Where: None is everywhere. Tokens are positions, of weights and scores those of queries, and -1 is the
        last one; columns are the last dimension, keys of weights and scores.
    factor : float
        1 of "add", 0 of "scale" unless given.
    values : array, optional
        f32; its sizes are those of the places in the order of the point's shape, aligned from the right,
        or 1.

    Notes
    -----
    A capture of the point shows it changed. Weights that are edited are mixed with the values as they then
    are; hook_receiver, which nothing reads again, is refused.

    Examples
    --------
    >>> import otattn
    >>> otattn.Edit("z", layer=1, head=[0, 3])
    Edit(point='z', kind='scale', layer=1, head=[0, 3])
    """

    point: str
    kind: str = "scale"
    layer: int | Iterable[int] | None = None
    head: Indices = None
    token: Indices = None
    sequence: Indices = None
    column: Indices = None
    factor: float | None = None
    values: Any = None

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        said = (f"{name}={shown(value)}" for name, value in given if value is not None)
        return f"Edit({', '.join(said)})"


class Bound:
    """One ota_edit with the memory that it points at."""

    def __init__(
        self,
        point: str,
        kind: int,
        factor: float,
        ranges: tuple[tuple[int, int], ...],
        values: NDArray[np.float32] | None,
    ) -> None:
        self._name, self._values = point.encode(), values
        self._struct = m.Edit(size=ctypes.sizeof(m.Edit), point=self._name, kind=kind, factor=factor)
        for name, (first, count) in zip(_RANGES, ranges, strict=True):
            setattr(self._struct, name, m.Range(first, count))
        if values is not None:
            four = ctypes.c_int64 * 4
            shape = (1,) * (4 - values.ndim) + values.shape
            strides = (0,) * (4 - values.ndim) + tuple(step // 4 for step in values.strides)
            self._struct.values = c.Array(values.ctypes.data, c.F32, four(*shape), four(*strides))


def ranges_of(name: str, given: Indices, size: int) -> list[tuple[int, int]]:
    """First and count of the pieces that indices are made of; count 0: all from the first on.

    Negative ones count from the end of so many; size 0: there are none.
    """
    if given is None:
        return [(0, 0)]
    if isinstance(given, slice):
        ends = [x for x in (given.start, given.stop) if x is not None]
        if given.step not in (None, 1) or (min(ends, default=0) < 0 and size == 0):
            raise ValueError(f"{name} is {shown(given)}, wanted a slice of step 1 from 0 on")
        first = (given.start or 0) + (size if (given.start or 0) < 0 else 0)
        if given.stop is None:
            return [(first, 0)]
        given = range(first, given.stop + (size if given.stop < 0 else 0))
    several: Any = [given] if np.ndim(given) == 0 else given  # type: ignore[arg-type]
    found = sorted({_index(name, one, size) for one in several})
    if not found:
        raise ValueError(f"{name} is {shown(given)}, which is nowhere")
    pieces: list[tuple[int, int]] = []
    for one in found:
        first, count = pieces[-1] if pieces else (-1, 0)
        if pieces and one == first + count:
            pieces[-1] = (first, count + 1)
        else:
            pieces.append((one, 1))
    return pieces


def _index(name: str, given: Any, size: int) -> int:
    found = whole(name, given, -size)
    return found + size if found < 0 else found


def bound(edit: Edit, names: list[str], tokens: int) -> Iterator[Bound]:
    """What an Edit is to the library: at the points of these names, in a run of so many tokens."""
    if edit.kind not in KINDS:
        raise ValueError(f"kind is {shown(edit.kind)}, wanted one of {', '.join(KINDS)}")
    factor = edit.factor
    if factor is None:
        factor = 1.0 if edit.kind == "add" else 0.0
    values = None if edit.values is None else np.ascontiguousarray(edit.values, np.float32)
    if values is not None and not 1 <= values.ndim <= 4:
        values = values.reshape(1) if values.ndim == 0 else values
        if values.ndim > 4:
            raise ValueError(f"values have {values.ndim} dimensions, wanted at most 4")
    pieces = [
        ranges_of(name[:-1], getattr(edit, name[:-1]), tokens if name == "tokens" else 0) for name in _RANGES
    ]
    if values is not None and values.size > 1 and any(len(each) > 1 for each in pieces):
        raise ValueError("values are given for places that are not one piece; wanted an Edit for each piece")
    for point in names:
        for ranges in itertools.product(*pieces):
            yield Bound(point, KINDS[edit.kind], number("factor", factor), ranges, values)
