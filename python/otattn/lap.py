"""Matchings under the names of the packages lap and lapx.

One cost matrix, a stack of them (`..._batch`), or a sparse one (`lapmod`): names differ in what they return,
and all are solved in the same way. Results are optimal as theirs; of several matchings another one may
come, and pairs come by rising row. NaN and -inf are refused. Unlike there, +inf forbids a pair whatever the
limit, and a matrix without a matching is an error. `prefer_float32`, `precision`, `fast` and `fp_version` are
accepted and change nothing: costs are read in their own type, and sums are in f64.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _native
from ._assignment import limit_of, matrix_of_costs, solve_equal
from ._settings import flag
from ._shapes import dense as dense_array
from ._threads import threads

__all__ = [
    "lapjv",
    "lapjvc",
    "lapjvh",
    "lapjvh_batch",
    "lapjvr",
    "lapjvr_batch",
    "lapjvs",
    "lapjvs_batch",
    "lapjvsa",
    "lapjvsa_batch",
    "lapjvx",
    "lapjvx_batch",
    "lapjvxa",
    "lapjvxa_batch",
    "lapmod",
    "lapmod_batch",
]


def _cost(cost: Any, dimensions: int, extend_cost: bool, limit: float) -> Any:
    found = matrix_of_costs("cost" if dimensions == 2 else "costs", cost, (dimensions,))
    extend = flag("extend_cost", extend_cost)
    if found.shape[-1] != found.shape[-2] and not extend and limit == math.inf:
        raise ValueError(
            "Square cost array expected. If cost is intentionally non-square, pass extend_cost=True."
        )
    return found


def lapjv(cost: Any, extend_cost: bool = False, cost_limit: float = np.inf, return_cost: bool = True) -> Any:
    """The cheapest matching as two maps.

    Parameters
    ----------
    cost : array, shape (N, M)
    extend_cost : bool
        Take N != M, too; what is left over has no partner.
    cost_limit : float
        Pairs that cost as much or more stay apart. N != M is fine then.
    return_cost : bool

    Returns
    -------
    opt : float
        The sum of the costs of the pairs, only with `return_cost`.
    x, y : int32 arrays, shapes (N,) and (M,)
        Each row's column and each column's row, -1: none.

    Raises
    ------
    ValueError
        For another shape, NaN, -inf, or a matrix without a matching.

    Examples
    --------
    >>> from otattn import lap
    >>> lap.lapjv([[1.0, 9.0, 5.0], [8.0, 2.0, 9.0]], extend_cost=True)
    (3.0, array([0, 1], dtype=int32), array([ 0,  1, -1], dtype=int32))
    """
    limit = limit_of(cost_limit, False)
    matrix = _cost(cost, 2, extend_cost, limit)
    maps = _native.assign(matrix, False, limit, True)
    if maps is not None:
        return maps if flag("return_cost", return_cost) else maps[1:]
    found = solve_equal(matrix[None], ("column_of", "row_of", "value"), False, limit)
    x, y = found["column_of"][0].astype(np.int32), found["row_of"][0].astype(np.int32)
    return (float(found["value"][0]), x, y) if flag("return_cost", return_cost) else (x, y)


def lapjvx(cost: Any, extend_cost: bool = False, cost_limit: float = np.inf, return_cost: bool = True) -> Any:
    """The cheapest matching as row and column indices; arguments as `lapjv`.

    Returns
    -------
    opt : float
        Only with `return_cost`.
    row_indices, col_indices : int64 and int32 arrays, shape (K,)
        By rising row.

    Raises
    ------
    ValueError
        As `lapjv`.
    """
    limit = limit_of(cost_limit, False)
    matrix = _cost(cost, 2, extend_cost, limit)
    totals, rows, columns = _batch(matrix[None], limit)
    return (
        (float(totals[0]), rows[0], columns[0]) if flag("return_cost", return_cost) else (rows[0], columns[0])
    )


def lapjvxa(
    cost: Any, extend_cost: bool = False, cost_limit: float = np.inf, return_cost: bool = True
) -> Any:
    """The cheapest matching as an array of pairs; arguments as `lapjv`.

    Returns
    -------
    opt : float
        Only with `return_cost`.
    assignments : int32 array, shape (K, 2)
    """
    total, rows, columns = lapjvx(cost, extend_cost, cost_limit)
    pairs = np.stack((rows.astype(np.int32), columns), 1)
    return (total, pairs) if flag("return_cost", return_cost) else pairs


def lapjvx_batch(
    costs: Any,
    extend_cost: bool = False,
    cost_limit: float = np.inf,
    return_cost: bool = True,
    n_threads: int = 0,
) -> Any:
    """`lapjvx` of each matrix of a stack.

    Parameters
    ----------
    costs : array, shape (B, N, M)
    extend_cost, cost_limit, return_cost
        As `lapjv`.
    n_threads : int
        0 or None: as `otattn.set_num_threads` says. Answers do not depend on it.

    Returns
    -------
    totals : float64 array, shape (B,)
        Only with `return_cost`.
    rows_list, cols_list : lists of B arrays
    """
    limit = limit_of(cost_limit, False)
    matrix = _cost(costs, 3, extend_cost, limit)
    with _threads(n_threads):
        found = _batch(matrix, limit)
    return found if flag("return_cost", return_cost) else found[1:]


def lapjvxa_batch(
    costs: Any,
    extend_cost: bool = False,
    cost_limit: float = np.inf,
    return_cost: bool = True,
    n_threads: int = 0,
) -> Any:
    """`lapjvxa` of each matrix of a stack; arguments as `lapjvx_batch`, a list of (K, 2) arrays comes."""
    totals, rows, columns = lapjvx_batch(costs, extend_cost, cost_limit, True, n_threads)
    pairs = [np.stack((i.astype(np.int32), j), 1) for i, j in zip(rows, columns, strict=True)]
    return (totals, pairs) if flag("return_cost", return_cost) else pairs


# ---- lapx: the same with 64-bit indices ----------------------------------------------------------


def lapjvs(
    cost: Any,
    extend_cost: bool | None = None,
    return_cost: bool = True,
    jvx_like: bool = True,
    prefer_float32: bool = True,
) -> Any:
    """The cheapest matching as row and column indices, or as two maps.

    Parameters
    ----------
    cost : array, shape (N, M)
    extend_cost : bool, optional
        False refuses N != M.
    return_cost : bool
    jvx_like : bool
        False: two maps, as `lapjv` returns them.
    prefer_float32 : bool
        Accepted for lapx's signature.

    Returns
    -------
    opt : float
        Only with `return_cost`.
    row_indices, col_indices : int64 arrays, shape (K,)
        Or x and y, shapes (N,) and (M,), -1: none.
    """
    flag("prefer_float32", prefer_float32)
    matrix = _cost(cost, 2, True if extend_cost is None else extend_cost, math.inf)
    names = ("pair_row", "pair_column") if flag("jvx_like", jvx_like) else ("column_of", "row_of")
    found = solve_equal(matrix[None], (*names, "value"), False, math.inf)
    pair = found[names[0]][0], found[names[1]][0]
    return (float(found["value"][0]), *pair) if flag("return_cost", return_cost) else pair


def lapjvsa(
    cost: Any, extend_cost: bool | None = None, return_cost: bool = True, prefer_float32: bool = True
) -> Any:
    """`lapjvs` with an int64 array of pairs, shape (K, 2)."""
    total, rows, columns = lapjvs(cost, extend_cost, prefer_float32=prefer_float32)
    pairs = np.stack((rows, columns), 1)
    return (total, pairs) if flag("return_cost", return_cost) else pairs


def lapjvs_batch(
    costs: Any,
    extend_cost: bool = False,
    return_cost: bool = True,
    n_threads: int | None = 0,
    prefer_float32: bool = True,
) -> Any:
    """`lapjvs` of each matrix of a stack; results as `lapjvx_batch`, with int64 indices."""
    flag("prefer_float32", prefer_float32)
    return lapjvr_batch(costs, extend_cost, math.inf, return_cost, n_threads)


def lapjvsa_batch(
    costs: Any,
    extend_cost: bool = False,
    return_cost: bool = True,
    n_threads: int | None = 0,
    prefer_float32: bool = True,
) -> Any:
    """`lapjvsa` of each matrix of a stack; results as `lapjvxa_batch`, with int64 indices."""
    flag("prefer_float32", prefer_float32)
    return lapjvr_batch(costs, extend_cost, math.inf, return_cost, n_threads, output="pairs")


def lapjvc(cost: Any, return_cost: bool = True) -> Any:
    """The cheapest matching as int32 indices; N != M is fine. NaN, which forbids there, is refused."""
    total, rows, columns = lapjvs(cost)
    pair = rows.astype(np.int32), columns.astype(np.int32)
    return (total, *pair) if flag("return_cost", return_cost) else pair


def lapjvr(
    cost: Any,
    extend_cost: bool = False,
    cost_limit: float = np.inf,
    return_cost: bool = True,
    *,
    precision: str = "native",
    output: str = "indices",
) -> Any:
    """The cheapest matching as int64 indices, or with ``output="pairs"`` as an array of pairs, shape (K, 2).

    The other arguments as `lapjv`.
    """
    costs = matrix_of_costs("cost", cost, (2,))[None]
    totals, *rest = lapjvr_batch(costs, extend_cost, cost_limit, output=output, precision=precision)
    found = tuple(x[0] for x in rest)
    if flag("return_cost", return_cost):
        return (float(totals[0]), *found)
    return found[0] if output == "pairs" else found


def lapjvr_batch(
    costs: Any,
    extend_cost: bool = False,
    cost_limit: float = np.inf,
    return_cost: bool = True,
    n_threads: int | None = 0,
    *,
    precision: str = "native",
    output: str = "indices",
) -> Any:
    """`lapjvr` of each matrix of a stack; arguments and results as `lapjvx_batch`, with int64 indices."""
    for name, word, known in (
        ("precision", precision, ("native", "float32", "float64")),
        ("output", output, ("indices", "pairs")),
    ):
        if not isinstance(word, str) or word not in known:
            given = repr(word) if isinstance(word, str) else f"a {type(word).__name__}"
            raise ValueError(f"{name} is {given}, wanted one of {', '.join(known)}")
    limit = limit_of(cost_limit, False)
    matrix = _cost(costs, 3, extend_cost, limit)
    with _threads(n_threads):
        found = solve_equal(matrix, ("pair_row", "pair_column", "pairs", "value"), False, limit)
    counts = found["pairs"].tolist()
    rows, columns = (
        [x[:count] for x, count in zip(found[name], counts, strict=True)]
        for name in ("pair_row", "pair_column")
    )
    if output == "pairs":
        pairs = [np.stack(pair, 1) for pair in zip(rows, columns, strict=True)]
        return (found["value"], pairs) if flag("return_cost", return_cost) else pairs
    return (found["value"], rows, columns) if flag("return_cost", return_cost) else (rows, columns)


# Two ways to the same matching there.
lapjvh, lapjvh_batch = lapjvr, lapjvr_batch


# ---- sparse costs --------------------------------------------------------------------------------


def lapmod(
    n: int, cc: Any, ii: Any, kk: Any, fast: bool = True, return_cost: bool = True, fp_version: int = 3
) -> Any:
    """The cheapest matching of a square matrix of which some costs are stored; the other pairs are forbidden.

    The matrix is made dense: n * n numbers in the type of `cc`.

    Parameters
    ----------
    n : int
        Rows and columns.
    cc : array, shape (stored,)
        The costs, row by row, finite.
    ii : int array, shape (n + 1,)
        Row i has the costs ``cc[ii[i]:ii[i + 1]]``.
    kk : int array, shape (stored,)
        Their columns, rising in each row.
    fast, fp_version
        Accepted for lap's signature.
    return_cost : bool

    Returns
    -------
    opt : float
        Only with `return_cost`.
    x, y : int32 arrays, shape (n,)
        Each row's column and each column's row.

    Raises
    ------
    ValueError
        For arrays that do not describe such a matrix, or one without a matching.

    Examples
    --------
    >>> from otattn import lap
    >>> lap.lapmod(2, [1.0, 2.0, 3.0], [0, 2, 3], [0, 1, 0])
    (5.0, array([1, 0], dtype=int32), array([1, 0], dtype=int32))
    """
    flag("fast", fast)
    return lapjv(_dense(n, cc, ii, kk), return_cost=return_cost)


def lapmod_batch(
    problems: Sequence[tuple[Any, ...]],
    fast: bool = True,
    return_cost: bool = True,
    fp_version: int = 3,
    n_threads: int | None = 0,
) -> Any:
    """`lapmod` of each ``(n, cc, ii, kk)``, one after another: totals, and lists of maps."""
    flag("fast", fast)
    with _threads(n_threads):
        found = [lapmod(*problem) for problem in problems]
    totals = np.array([x[0] for x in found], np.float64)
    maps = [x[1] for x in found], [x[2] for x in found]
    return (totals, *maps) if flag("return_cost", return_cost) else maps


def _dense(n: int, cc: Any, ii: Any, kk: Any) -> Any:
    """The matrix with inf where no cost is stored."""
    costs = np.asarray(dense_array("cc", cc))
    if costs.dtype != np.float32:
        costs = costs.astype(np.float64)
    starts, columns = np.asarray(ii), np.asarray(kk)
    for name, x in (("ii", starts), ("kk", columns)):
        if x.ndim != 1 or (x.dtype.kind not in "iu" and x.size > 0):
            raise ValueError(f"{name} has shape {x.shape} and type {x.dtype}, wanted whole numbers in a row")
    if costs.ndim != 1 or not np.isfinite(costs).all():
        raise ValueError(f"cc has shape {costs.shape}, wanted finite costs in a row")
    if len(columns) != len(costs):
        raise ValueError(
            f"kk has {len(columns)} columns, wanted one for each of the {len(costs)} costs in cc"
        )
    if n < 0 or len(starts) != n + 1 or starts[0] != 0 or starts[-1] != len(costs):
        raise ValueError(f"ii wants n + 1 = {n + 1} numbers from 0 to {len(costs)}, the length of cc")
    lengths = np.diff(starts)
    if (lengths < 0).any():
        raise ValueError(f"ii[{int(np.argmax(lengths < 0)) + 1}] is less than the number before it")
    rows, columns = np.repeat(np.arange(n), lengths), columns.astype(np.int64)
    if columns.size > 0 and not (columns.min() >= 0 and columns.max() < n):
        raise ValueError(f"kk holds columns {columns.min()} to {columns.max()}, wanted 0 to {n - 1}")
    if (np.diff(rows * max(1, n) + columns) <= 0).any():
        raise ValueError("kk does not rise in every row; sort each row's columns, none of them twice")
    dense = np.full((n, n), np.inf, costs.dtype)
    dense[rows, columns] = costs
    return dense


def _threads(count: int | None) -> contextlib.AbstractContextManager[None]:
    """Of a call: 0 and None leave them as they are."""
    return threads(max(1, count)) if count else contextlib.nullcontext()


def _batch(costs: Any, limit: float) -> tuple[Any, list[Any], list[Any]]:
    found = solve_equal(costs, ("pair_row", "pair_column", "pairs", "value"), False, limit)
    columns = found["pair_column"].astype(np.int32)
    counts = found["pairs"].tolist()
    rows_list = [row[:count] for row, count in zip(found["pair_row"], counts, strict=True)]
    columns_list = [row[:count] for row, count in zip(columns, counts, strict=True)]
    return found["value"], rows_list, columns_list
