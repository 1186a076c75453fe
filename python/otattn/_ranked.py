"""The k cheapest matchings, and a matching whose dearest pair is cheapest (include/otattn_assignment.h)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

import numpy as np

from . import _native
from ._assignment import (
    by_arrays,
    limit_of,
    matrix_of_costs,
    one_behind_the_other,
    raise_failure,
    torch_operators,
)
from ._errors import finished
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


class _List(NamedTuple):
    """Matrices one behind the other, with rows, columns and offsets of each."""

    flat: Any
    sizes: tuple[Any, Any, Any]
    shapes: list[tuple[int, int]]


def _list(cost: list[Any] | tuple[Any, ...]) -> _List:
    matrices = [matrix_of_costs(f"cost_matrix[{k}]", x, (2,)) for k, x in enumerate(cost)]
    flat, *sizes = one_behind_the_other(matrices)
    return _List(flat, (sizes[0], sizes[1], sizes[2]), [x.shape for x in matrices])


def _is_list(cost: Any) -> bool:
    return type(cost) in (list, tuple) and len(cost) > 0 and all(getattr(x, "ndim", 0) == 2 for x in cost)


def _tensors(cost: Any) -> Any:
    """The tensor, or a list of them; None: others."""
    if type(cost) in (list, tuple) and any(is_torch(x) for x in cost):
        return list(cost)
    return cost if is_torch(cost) else None


def _found(made: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of a call of `_native`, or what its status raises."""
    if len(made) == 2:
        finished(made, raise_failure)
    return made


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
    cost_matrix: Sequence[NDArray[Any]],
    k: int,
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> list[RankedAssignments]: ...
@overload
def k_best_assignments(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Sequence[Tensor],
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
    if type(maximize) is not bool:
        maximize = flag("maximize", maximize)
    if type(certificate) is not bool:
        certificate = flag("certificate", certificate)
    k, limit = whole("k", k), math.inf if cost_limit is None else limit_of(cost_limit, maximize)
    if k < 1:
        raise ValueError(f"k is {k}, wanted 1 or more")
    if type(cost_matrix) is not np.ndarray:
        tensors = _tensors(cost_matrix)
        if tensors is not None:
            is_watched, operators = torch_operators()
            if is_watched() and is_torch(tensors):
                return operators.ranked_by_operator(tensors, k, maximize, limit, certificate)
            _refuse_tracers("k_best_assignments")
            return by_arrays(
                tensors,
                lambda x: k_best_assignments(x, k, maximize, cost_limit=limit, certificate=certificate),
            )
        if _is_list(cost_matrix):
            return _ranked_list(cost_matrix, k, maximize, limit, certificate)
    costs = matrix_of_costs("cost_matrix", cost_matrix, (2, 3))
    threads = thread_limit() if costs.ndim == 3 else 1
    made = _native.ranked(costs, None, k, maximize, limit, certificate, threads)
    return RankedAssignments(*_found(made))


def _ranked_list(
    cost: Any, k: int, maximize: bool, limit: float, certificate: bool
) -> list[RankedAssignments]:
    problems = _list(cost)
    made = _native.ranked(problems.flat, problems.sizes, k, maximize, limit, certificate, thread_limit())
    rows, columns, value, bound, found = _found(made)
    k = value.shape[1]
    answers, begin = [], 0
    for p, (shape, own) in enumerate(zip(problems.shapes, found.tolist(), strict=True)):
        side = min(shape)
        i, j = (x[begin : begin + k * side].reshape(k, side)[:own] for x in (rows, columns))
        answers.append(
            RankedAssignments(i, j, value[p, :own], None if bound is None else bound[p, :own], own)
        )
        begin += k * side
    return answers


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
    cost_matrix: Sequence[NDArray[Any]],
    maximize: bool = False,
    *,
    cost_limit: float | None = None,
) -> list[BottleneckAssignment]: ...
@overload
def bottleneck_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Sequence[Tensor],
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
    if type(cost_matrix) is not np.ndarray:
        tensors = _tensors(cost_matrix)
        if tensors is not None:
            is_watched, operators = torch_operators()
            if is_watched() and is_torch(tensors):
                return operators.bottleneck_by_operator(tensors, maximize, limit)
            _refuse_tracers("bottleneck_assignment")
            return by_arrays(tensors, lambda x: bottleneck_assignment(x, maximize, cost_limit=limit))
        if _is_list(cost_matrix):
            return _bottleneck_list(cost_matrix, maximize, limit)
    costs = matrix_of_costs("cost_matrix", cost_matrix, (2, 3))
    threads = thread_limit() if costs.ndim == 3 else 1
    return BottleneckAssignment(*_found(_native.bottleneck(costs, None, maximize, limit, threads))[:8])


def _bottleneck_list(cost: Any, maximize: bool, limit: float) -> list[BottleneckAssignment]:
    problems = _list(cost)
    made = _native.bottleneck(problems.flat, problems.sizes, maximize, limit, thread_limit())
    rows, columns, values, bounds, *marks, counts = _found(made)
    answers, a, b, first = [], 0, 0, 0
    for p, ((n, m), own) in enumerate(zip(problems.shapes, counts.tolist(), strict=True)):
        i, j = rows[first : first + own], columns[first : first + own]
        r, s, covered_r, covered_s = (
            x[at : at + size] for x, at, size in zip(marks, (a, b, a, b), (n, m, n, m), strict=True)
        )
        value, bound = float(values[p]), float(bounds[p])
        answers.append(BottleneckAssignment(i, j, value, bound, r, s, covered_r, covered_s))
        a, b, first = a + n, b + m, first + min(n, m)
    return answers


def _refuse_tracers(what: str) -> None:
    from ._torch_watch import refuse_tracers

    refuse_tracers(f"{what} of a list")
