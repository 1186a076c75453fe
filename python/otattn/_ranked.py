"""The k cheapest matchings, and a matching whose dearest pair is cheapest (include/otattn_assignment.h)."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _native
from . import _structs as c
from ._assignment import KINDS, matrix_of_costs, raise_failure
from ._errors import finished
from ._library import CANCEL
from ._settings import flag, is_torch, whole
from ._shapes import repr_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _without_gradients(x: Any) -> Any:
    """Matchings have no derivative."""
    return x.detach().cpu() if is_torch(x) else x


class RankedAssignments(NamedTuple):
    """What `k_best_assignments` found, the best first.

    Attributes
    ----------
    rows, columns : int64 arrays, shape (found, min(rows, columns))
        The pairs of each matching, by rising row.
    value : float64 array, shape (found,)
        The sums of their costs.
    bound : float64 array, shape (found,), or None
        No matching but those before costs less (more, where maximised), by code that no search shares; with
        `certificate` only.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    value: NDArray[np.float64]
    bound: NDArray[np.float64] | None

    def __repr__(self) -> str:
        return repr_of(self)


class BottleneckAssignment(NamedTuple):
    """What `bottleneck_assignment` found, and its proof.

    More of the shorter side (rows, where there are as many) are marked than of the longer one, so no matching
    has all of them among marked ones; and no pair of a marked one of the shorter side and one of the longer
    side that is not marked costs less than `bound`.

    Attributes
    ----------
    rows, columns : int64 arrays, shape (min(rows, columns),)
        The pairs, by rising row.
    value : float
        The cost of the dearest pair (the cheapest one, where maximised).
    bound : float
        What the marks prove, by code that the search does not share: `value`.
    marked_rows, marked_columns : bool arrays, shapes (rows,) and (columns,)
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    value: float
    bound: float
    marked_rows: NDArray[np.bool_]
    marked_columns: NDArray[np.bool_]

    def __repr__(self) -> str:
        return repr_of(self)


# The fields of c.RankedAssignments and c.Bottleneck in their order, packed in one go.
_RANKED = struct.Struct("@NqqPiqqiqPqPPPPP")
_BOTTLENECK = struct.Struct("@NqqPiqqiPqPPPPPP")
assert _RANKED.size == ctypes.sizeof(c.RankedAssignments)
assert _BOTTLENECK.size == ctypes.sizeof(c.Bottleneck)


def _fields(cost: Any, maximize: bool) -> tuple[Any, ...]:
    """Those that both calls begin with, of a matrix."""
    rows, columns = cost.shape
    by_row, by_column = cost.strides
    size = cost.itemsize
    return (
        rows, columns, _native.address(cost), KINDS[cost.dtype], by_row // size, by_column // size, maximize
    )  # fmt: skip


def _at_most(k: int, rows: int, columns: int) -> int:
    """k, or how many matchings there are at most."""
    count = 1
    for i in range(min(rows, columns)):
        count *= max(rows, columns) - i
        if count >= k:
            return k
    return count


def k_best_assignments(
    cost_matrix: Any, k: int, maximize: bool = False, *, certificate: bool = False
) -> RankedAssignments:
    """The k cheapest matchings of one cost matrix, by rising cost.

    Parameters
    ----------
    cost_matrix : array, shape (rows, columns)
        +inf forbids a pair (-inf where `maximize`).
    k : int
        1 or more. Where there are fewer matchings, all of them come.
    maximize : bool
        The dearest ones, by falling cost.
    certificate : bool
        The proof of each rank, too, which takes about as long again.

    Returns
    -------
    RankedAssignments

    Raises
    ------
    ValueError
        For a matrix that is none, holds NaN or the other infinity, or has no matching; for k below 1.
    TypeError
        For strings, objects and complex numbers.

    Notes
    -----
    Murty's partition of all matchings, with one shortest path a part from the prices of the matching before
    [ELA-14].

    Examples
    --------
    >>> import otattn
    >>> best = otattn.k_best_assignments([[4, 1, 3], [2, 0, 5], [3, 2, 2]], 3, certificate=True)
    >>> best.columns
    array([[1, 0, 2],
           [0, 1, 2],
           [2, 1, 0]])
    >>> best.value, best.bound
    (array([5., 6., 6.]), array([5., 6., 6.]))
    """
    maximize, certificate = flag("maximize", maximize), flag("certificate", certificate)
    k = whole("k", k)
    if k < 1:
        raise ValueError(f"k is {k}, wanted 1 or more")
    cost = matrix_of_costs("cost_matrix", _without_gradients(cost_matrix), (2,))
    k = _at_most(k, *cost.shape)
    pairs = (k, min(cost.shape))
    rows, columns = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    value, bound, found = np.empty(k), np.empty(k) if certificate else None, np.empty(1, np.int64)
    places = (_native.address(x) if x is not None else 0 for x in (rows, columns, value, bound, found))
    problem = _RANKED.pack(_RANKED.size, *_fields(cost, maximize), k, CANCEL, 0, *places)
    finished(_native.ota_assign_ranked(problem), raise_failure)
    n = int(found[0])
    return RankedAssignments(rows[:n], columns[:n], value[:n], None if bound is None else bound[:n])


def bottleneck_assignment(cost_matrix: Any, maximize: bool = False) -> BottleneckAssignment:
    """A matching of one cost matrix whose dearest pair is as cheap as can be, with its proof.

    Parameters
    ----------
    cost_matrix : array, shape (rows, columns)
        +inf forbids a pair (-inf where `maximize`).
    maximize : bool
        One whose cheapest pair is as dear as can be.

    Returns
    -------
    BottleneckAssignment

    Raises
    ------
    ValueError
        For a matrix that is none, holds NaN or the other infinity, or has no matching.
    TypeError
        For strings, objects and complex numbers.

    Examples
    --------
    >>> import otattn
    >>> best = otattn.bottleneck_assignment([[4, 1, 3], [2, 0, 5], [3, 6, 7]])
    >>> best.columns, best.value, best.bound
    (array([2, 1, 0]), 3.0, 3.0)
    >>> best.marked_rows, best.marked_columns
    (array([False, False,  True]), array([False, False, False]))
    """
    if type(maximize) is not bool:
        maximize = flag("maximize", maximize)
    cost = matrix_of_costs("cost_matrix", _without_gradients(cost_matrix), (2,))
    n, m = cost.shape
    pairs = np.empty((2, min(n, m)), np.int64)
    marks = np.empty(n + m, np.bool_)
    ends = np.empty(2)
    row, mark, end = _native.address(pairs), _native.address(marks), _native.address(ends)
    places = row, row + 8 * min(n, m), end, end + 8, mark, mark + n
    problem = _BOTTLENECK.pack(_BOTTLENECK.size, *_fields(cost, maximize), CANCEL, 0, *places)
    finished(_native.ota_assign_bottleneck(problem), raise_failure)
    value, bound = ends.tolist()
    return BottleneckAssignment(pairs[0], pairs[1], value, bound, marks[:n], marks[n:])
