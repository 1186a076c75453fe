"""Rows that take k columns each at the least cost, columns whose loads have bounds."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import _native
from . import _structs as c
from ._arrays import address_of, foreign, matrix_of
from ._errors import finished
from ._library import CANCEL
from ._settings import whole
from ._shapes import dense, repr_of
from ._threads import thread_limit


class BoundedAssignment(NamedTuple):
    """What `solve_bounded` found.

    Attributes
    ----------
    columns : int64 array, shape (n, k)
        The columns of each row, rising.
    prices : float64 array, shape (m,)
        Every row holds its k least `cost + prices`; positive only where the load is the upper bound,
        negative only where it is the lower one.
    loads : int64 array, shape (m,)
    cost, dual : float
        The cost, and what the prices prove no assignment can cost less than.
    paths : int
        Searches of the last step, a measure of the work.
    """

    columns: Any
    prices: Any
    loads: Any
    cost: float
    dual: float
    paths: int

    def __repr__(self) -> str:
        return repr_of(self)


def _matrix(name: str, x: Any) -> Any:
    """A native, aligned matrix of f32 or f64."""
    x = foreign(name, x)
    if x.ndim != 2:
        raise ValueError(f"{name} has shape {x.shape}, wanted a matrix")
    if x.dtype.kind not in "fiub":
        raise TypeError(f"{name} has type {x.dtype}, wanted numbers")
    if x.dtype not in (np.float64, np.float32):
        # Foreign byte orders, too.
        x = x.astype(np.float64)
    if not x.flags.aligned or any(stride % x.dtype.itemsize for stride in x.strides):
        x = x.copy()
    return x


def _bounds(name: str, given: Any, columns: int) -> Any:
    """One whole number a column, or None where there is no bound."""
    if given is None:
        return None
    numbers = np.asarray(dense(name, given))
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"{name} has type {numbers.dtype}, wanted whole numbers")
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) != columns):
        raise ValueError(f"{name} has shape {numbers.shape}, wanted one number or {columns}")
    return np.ascontiguousarray(np.broadcast_to(numbers, (columns,)), dtype=np.int64)


def _call(problem: c.Bounded, rows: int, columns: int, k: int) -> BoundedAssignment:
    chosen = np.empty((rows, k), np.int64)
    prices = np.empty(columns)
    loads = np.empty(columns, np.int64)
    result = c.BoundedResult(
        size=ctypes.sizeof(c.BoundedResult),
        chosen=chosen.ctypes.data,
        prices=prices.ctypes.data,
        loads=loads.ctypes.data,
    )
    options = c.Options(size=ctypes.sizeof(c.Options), threads=thread_limit(), cancel=CANCEL)
    finished(_native.ota_assign_bounded(*map(ctypes.addressof, (problem, options, result))))
    return BoundedAssignment(chosen, prices, loads, result.cost, result.dual, result.paths)


def solve_bounded(
    cost: Any = None,
    k: int = 1,
    lower: Any = None,
    upper: Any = None,
    *,
    points: Any = None,
    centres: Any = None,
    start: Any = None,
    proved: bool = True,
) -> BoundedAssignment:
    """The cheapest choice of k columns a row with loads between `lower` and `upper`.

    Parameters
    ----------
    cost : array, shape (n, m), optional
        +inf forbids a pair.
    k : int
        1 to m.
    lower, upper : int or int array, shape (m,), optional
        How many rows a column takes at least and at most.
    points, centres : array, shapes (n, d) and (m, d), optional
        In the place of `cost`, which are their squared distances and never all stored.
    start : array, shape (m,), optional
        Prices to begin with.
    proved : bool
        Without it the dual, one more pass over all costs, is NaN.

    Raises
    ------
    ValueError, TypeError
        Naming the argument.
    Infeasible, NotFinite
        Where no choice has such loads; for costs of NaN or -inf.
    """
    k = whole("k", k)
    problem = c.Bounded(size=ctypes.sizeof(c.Bounded), take=k, unproved=not proved)
    if (cost is None) == (points is None) or (points is None) != (centres is None):
        raise ValueError("give cost, or points and centres")
    keep: list[Any] = []
    if cost is not None:
        matrix = _matrix("cost", cost)
        keep.append(matrix)
        problem.costs = matrix_of(matrix)
        rows, columns = matrix.shape
    else:
        cloud, centre = _matrix("points", points), _matrix("centres", centres)
        keep += [cloud, centre]
        problem.points, problem.centres = matrix_of(cloud), matrix_of(centre)
        rows, columns = len(cloud), len(centre)
    if not 1 <= k <= columns:
        raise ValueError(f"k is {k}, wanted 1 to {columns}, the number of columns")
    low, high = _bounds("lower", lower, columns), _bounds("upper", upper, columns)
    problem.lower, problem.upper = address_of(low), address_of(high)
    if start is not None:
        start = np.ascontiguousarray(start, np.float64)
        if start.shape != (columns,):
            raise ValueError(f"start has shape {start.shape}, wanted ({columns},)")
        problem.start = start.ctypes.data
    return _call(problem, rows, columns, k)


def assign_bounded(cost: Any, k: int, lower: Any, upper: Any) -> tuple[Any, Any]:
    """The columns [n, k] that rows take at the least total cost, and the prices [m] that prove it.

    Examples
    --------
    >>> from otattn._bounded import assign_bounded
    >>> columns, prices = assign_bounded([[0, 3], [0, 1], [0, 2]], 1, 1, 2)
    >>> columns.ravel()
    array([0, 1, 0])
    >>> prices
    array([1., 0.])
    """
    found = solve_bounded(cost, k, lower, upper)
    return found.columns, found.prices
