"""The k cheapest matchings, and a matching whose dearest pair is cheapest (include/otattn_assignment.h)."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

import numpy as np

from . import _native
from . import _structs as c
from ._assignment import (
    KINDS,
    by_arrays,
    limit_of,
    matrix_of_costs,
    one_behind_the_other,
    raise_failure,
    torch_operators,
)
from ._errors import finished
from ._library import CANCEL
from ._settings import flag, is_torch, whole
from ._shapes import repr_of
from ._threads import thread_limit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor
    from typing_extensions import TypeVar

    Whole = TypeVar("Whole", default=NDArray[np.int64])
    Real = TypeVar("Real", default=NDArray[np.float64])
    Mark = TypeVar("Mark", default=NDArray[np.bool_])
else:
    from typing import TypeVar

    # Defaults are for checkers, which know typing_extensions; typing has them from Python 3.13 on.
    Whole, Real, Mark = TypeVar("Whole"), TypeVar("Real"), TypeVar("Mark")


class RankedAssignments(NamedTuple, Generic[Whole, Real]):
    """What `k_best_assignments` found, the best first; arrays of NumPy, or tensors where the costs are.

    Of a batch the arrays have its dimension in front, and as many matchings as any of its matrices may have.

    Attributes
    ----------
    rows, columns : int64, shape (..., found, min(rows, columns))
        The pairs of each matching, by rising row; with `cost_limit` -1 behind the last pair, and of a batch
        behind the last matching.
    value : float64, shape (..., found)
        The sums of their costs; NaN behind the last matching.
    bound : float64, shape (..., found), or None
        No matching but those before costs less (more, where maximised), by code that no search shares; with
        `certificate` only. With `cost_limit` it bounds
        ``value + cost_limit * (min(rows, columns) - pairs)``.
    found : int, or int64 of shape (batch,)
        How many there are.
    """

    rows: Whole
    columns: Whole
    value: Real
    bound: Real | None
    found: int | Whole

    def __repr__(self) -> str:
        return repr_of(self)


class BottleneckAssignment(NamedTuple, Generic[Whole, Real, Mark]):
    """What `bottleneck_assignment` found, and its proof; tensors where the costs are.

    More of the shorter side (rows, where there are as many) are marked than of the longer one, by more than
    the pairs that `cost_limit` leaves out, so no matching of as many pairs has all of them among marked ones;
    and no pair of a marked one of the shorter side and one of the longer side that is not marked costs less
    than `bound`. Of a batch the arrays have its dimension in front.

    Attributes
    ----------
    rows, columns : int64, shape (..., min(rows, columns))
        The pairs, by rising row; with `cost_limit` those that are left, -1 behind them in a batch.
    value : float, or float64 of shape (batch,)
        The cost of the dearest pair (the cheapest one, where maximised).
    bound : float, or float64 of shape (batch,)
        What the marks prove, by code that the search does not share: `value`.
    marked_rows, marked_columns : bool, shapes (..., rows) and (..., columns)
    covered_rows, covered_columns : bool, shapes (..., rows) and (..., columns)
        As many as there are pairs, and every pair below the limit has one of them, so that no matching has
        more pairs.
    """

    rows: Whole
    columns: Whole
    value: float | Real
    bound: float | Real
    marked_rows: Mark
    marked_columns: Mark
    covered_rows: Mark
    covered_columns: Mark

    def __repr__(self) -> str:
        return repr_of(self)


# The fields of c.RankedAssignments and c.Bottleneck in their order, packed in one go.
_RANKED = struct.Struct("@NqqPiqqiqPqPPPPPqqPPPidPPiP")
_BOTTLENECK = struct.Struct("@NqqPiqqiPqPPPPPPqqPPPidPPPPPiP")
assert _RANKED.size == ctypes.sizeof(c.RankedAssignments)
assert _BOTTLENECK.size == ctypes.sizeof(c.Bottleneck)


class _Problems(NamedTuple):
    """Matrices of costs as both structs have them."""

    shapes: list[tuple[int, int]]
    first: tuple[Any, ...]
    layout: tuple[Any, ...]
    kept: tuple[Any, ...]
    form: str


def _equal(costs: Any) -> _Problems:
    """One matrix, or a batch [batch, rows, columns]."""
    rows, columns = costs.shape[-2:]
    each, size = costs.strides, costs.itemsize
    form, by_problem, count = ("one", 0, 1) if costs.ndim == 2 else ("batch", each[0] // size, len(costs))
    first = rows, columns, _native.address(costs), KINDS[costs.dtype], each[-2] // size, each[-1] // size
    return _Problems([(rows, columns)] * count, first, (count, by_problem, 0, 0, 0), (costs,), form)


def _ragged(matrices: list[Any]) -> _Problems:
    flat, rows, columns, offsets = kept = one_behind_the_other(matrices)
    shapes = list(zip(rows.tolist(), columns.tolist(), strict=True))
    first = 0, 0, _native.address(flat), KINDS[flat.dtype], 0, 0
    places = tuple(_native.address(x) for x in (rows, columns, offsets))
    return _Problems(shapes, first, (len(matrices), 0, *places), kept, "list")


def _problems(cost: Any) -> _Problems:
    if type(cost) in (list, tuple) and cost and all(getattr(x, "ndim", 0) == 2 for x in cost):
        return _ragged([matrix_of_costs(f"cost_matrix[{k}]", x, (2,)) for k, x in enumerate(cost)])
    return _equal(matrix_of_costs("cost_matrix", cost, (2, 3)))


def _tensors(cost: Any) -> Any:
    """The tensor, or a list of them; None: others."""
    if type(cost) in (list, tuple) and any(is_torch(x) for x in cost):
        return list(cost)
    return cost if is_torch(cost) else None


def _end(limit: float) -> tuple[bool, float]:
    limited = limit < math.inf
    return limited, limit if limited else 0.0


def _at_most(k: int, rows: int, columns: int, limited: bool) -> int:
    """k, or how many matchings there are at most."""
    n, m = min(rows, columns), max(rows, columns)
    count = own = 1
    for pairs in range(n):
        # Those of one pair more: an ordered choice of columns for a choice of rows.
        own = own * (m - pairs) * (n - pairs) // (pairs + 1) if limited else own * (m - pairs)
        count = count + own if limited else own
        if count >= k:
            return k
    return count


@overload
def k_best_assignments(
    cost_matrix: NDArray[Any],
    k: int,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> RankedAssignments: ...
@overload
def k_best_assignments(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Tensor,
    k: int,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> RankedAssignments[Tensor, Tensor]: ...
@overload
def k_best_assignments(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: list[NDArray[Any]],
    k: int,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> list[RankedAssignments]: ...
@overload
def k_best_assignments(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: list[Tensor],
    k: int,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> list[RankedAssignments[Tensor, Tensor]]: ...
@overload
def k_best_assignments(
    cost_matrix: Any,
    k: int,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> Any: ...
def k_best_assignments(
    cost_matrix: Any,
    k: int,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> Any:
    """The k cheapest matchings of a cost matrix, by rising cost, or of each of many.

    Parameters
    ----------
    cost_matrix : array, shape (rows, columns) or (batch, rows, columns), or list of matrices
        +inf forbids a pair (-inf where `maximize`). Torch tensors are taken, too. Problems of a batch run on
        threads (`set_num_threads`).
    k : int
        1 or more. Where there are fewer matchings, all of them come.
    maximize : bool
        The dearest ones, by falling cost.
    cost_limit : float, optional
        Pairs that cost as much or more stay apart, and each pair that is left out counts as this cost:
        matchings that leave out different rows are different ones. They come by rising
        ``value + cost_limit * pairs left out``.
    certificate : bool
        The proof of each rank, too, which takes about as long again.

    Returns
    -------
    RankedAssignments
        Of a list of matrices a list. Of tensors it holds tensors, which have no gradients.

    Raises
    ------
    ValueError
        For a matrix that is none, holds NaN or the other infinity, or has no matching, with the number of the
        first such problem of a batch; for k below 1.
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
    k, limit = whole("k", k), limit_of(cost_limit, maximize)
    if k < 1:
        raise ValueError(f"k is {k}, wanted 1 or more")
    tensors = _tensors(cost_matrix)
    if tensors is not None:
        is_watched, operators = torch_operators()
        if is_watched() and is_torch(tensors):
            return operators.ranked_by_operator(tensors, k, maximize, limit, certificate)
        return by_arrays(
            tensors,
            lambda x: k_best_assignments(x, k, maximize, cost_limit=limit, certificate=certificate),
        )
    problems = _problems(cost_matrix)
    shapes, limited = problems.shapes, limit < math.inf
    k = max((_at_most(k, *shape, limited) for shape in set(shapes)), default=1)
    sides = [min(shape) for shape in shapes]
    rows, columns = np.empty((2, k * sum(sides)), np.int64)
    value, found = np.empty((len(shapes), k)), np.empty(len(shapes), np.int64)
    bound = np.empty((len(shapes), k)) if certificate else None
    if shapes:
        places = [0 if x is None else _native.address(x) for x in (rows, columns, value, bound, found)]
        record = _RANKED.pack(
            _RANKED.size, *problems.first, maximize, k, CANCEL, 0, *places, *problems.layout, *_end(limit),
            0, 0, thread_limit(), 0,
        )  # fmt: skip
        finished(_native.ota_assign_ranked(record), raise_failure)
    if problems.form == "batch":
        shape = (len(shapes), k, min(problems.first[:2]))
        return RankedAssignments(rows.reshape(shape), columns.reshape(shape), value, bound, found)
    answers, begin = [], 0
    for p, (side, own) in enumerate(zip(sides, found.tolist(), strict=True)):
        i, j = (x[begin : begin + k * side].reshape(k, side)[:own] for x in (rows, columns))
        answers.append(
            RankedAssignments(i, j, value[p, :own], None if bound is None else bound[p, :own], own)
        )
        begin += k * side
    return answers[0] if problems.form == "one" else answers


@overload
def bottleneck_assignment(
    cost_matrix: NDArray[Any],
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
) -> BottleneckAssignment: ...
@overload
def bottleneck_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Tensor,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
) -> BottleneckAssignment[Tensor, Tensor, Tensor]: ...
@overload
def bottleneck_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: list[NDArray[Any]],
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
) -> list[BottleneckAssignment]: ...
@overload
def bottleneck_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: list[Tensor],
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
) -> list[BottleneckAssignment[Tensor, Tensor, Tensor]]: ...
@overload
def bottleneck_assignment(
    cost_matrix: Any,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
) -> Any: ...
def bottleneck_assignment(
    cost_matrix: Any, maximize: bool = False, *, cost_limit: float | None = None
) -> Any:
    """A matching of a cost matrix, or of each of many, whose dearest pair is as cheap as can be.

    Parameters
    ----------
    cost_matrix : array, shape (rows, columns) or (batch, rows, columns), or list of matrices
        +inf forbids a pair (-inf where `maximize`). Torch tensors are taken, too. Problems of a batch run on
        threads (`set_num_threads`).
    maximize : bool
        One whose cheapest pair is as dear as can be.
    cost_limit : float, optional
        Pairs that cost as much or more stay apart; as many others as fit together are matched, their dearest
        as cheap as can be.

    Returns
    -------
    BottleneckAssignment
        Of a list of matrices a list. Of tensors it holds tensors, which have no gradients.

    Raises
    ------
    ValueError
        For a matrix that is none, holds NaN or the other infinity, or has no matching, with the number of the
        first such problem of a batch.
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
    limit = math.inf if cost_limit is None else limit_of(cost_limit, maximize)
    tensors = _tensors(cost_matrix)
    if tensors is not None:
        is_watched, operators = torch_operators()
        if is_watched() and is_torch(tensors):
            return operators.bottleneck_by_operator(tensors, maximize, limit)
        return by_arrays(tensors, lambda x: bottleneck_assignment(x, maximize, cost_limit=limit))
    problems = _problems(cost_matrix)
    count = len(problems.shapes)
    sides = [min(shape) for shape in problems.shapes]
    height, width, total = sum(n for n, _ in problems.shapes), sum(m for _, m in problems.shapes), sum(sides)
    pairs, counts = np.empty((2, total), np.int64), np.empty(count, np.int64)
    ends, marks = np.empty((2, count)), np.empty((2, height + width), np.bool_)
    if count:
        row, mark, end = _native.address(pairs), _native.address(marks), _native.address(ends)
        cover = mark + height + width
        record = _BOTTLENECK.pack(
            _BOTTLENECK.size, *problems.first, maximize, CANCEL, 0,
            row, row + 8 * total, end, end + 8 * count, mark, mark + height,
            *problems.layout, *_end(limit),
            _native.address(counts), 0, cover, cover + height, 0, thread_limit(), 0,
        )  # fmt: skip
        finished(_native.ota_assign_bottleneck(record), raise_failure)
    of_rows, of_columns = marks[:, :height], marks[:, height:]
    if problems.form == "batch":
        n, m = problems.first[:2]
        i, j = pairs.reshape(2, count, min(n, m))
        r, s = of_rows.reshape(2, count, n), of_columns.reshape(2, count, m)
        return BottleneckAssignment(i, j, ends[0], ends[1], r[0], s[0], r[1], s[1])
    answers, first = [], [0, 0, 0]
    for p, ((n, m), own) in enumerate(zip(problems.shapes, counts.tolist(), strict=True)):
        a, b, pair = first
        i, j = pairs[:, pair : pair + own]
        r, s = of_rows[:, a : a + n], of_columns[:, b : b + m]
        answers.append(
            BottleneckAssignment(i, j, float(ends[0, p]), float(ends[1, p]), r[0], s[0], r[1], s[1])
        )
        first = [a + n, b + m, pair + min(n, m)]
    return answers[0] if problems.form == "one" else answers
