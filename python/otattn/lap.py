"""Matchings under the names of the packages lap and lapx.

`lapjv`, `lapjvx` and `lapjvxa` take one cost matrix, `lapjvx_batch` and `lapjvxa_batch` a stack of them.
Results are optimal as theirs; where several matchings are, another one may come. NaN and -inf are refused.
Unlike there, +inf forbids a pair whatever the limit, and a matrix without a matching is an error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._assignment import _limit_of, _matrix, solve_equal

__all__ = ["lapjv", "lapjvx", "lapjvx_batch", "lapjvxa", "lapjvxa_batch"]


def _cost(cost: Any, dimensions: int, extend_cost: bool, limit: float) -> Any:
    found = _matrix("cost", cost, (dimensions,))
    if found.shape[-1] != found.shape[-2] and not extend_cost and limit == math.inf:
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
    limit = _limit_of(cost_limit, False)
    matrix = _cost(cost, 2, extend_cost, limit)
    found = solve_equal(matrix[None], ("column_of", "row_of", "value"), False, limit)
    x, y = found["column_of"][0].astype(np.int32), found["row_of"][0].astype(np.int32)
    return (float(found["value"][0]), x, y) if return_cost else (x, y)


def lapjvx(cost: Any, extend_cost: bool = False, cost_limit: float = np.inf, return_cost: bool = True) -> Any:
    """The cheapest matching as row and column indices; arguments as `lapjv`.

    Returns
    -------
    opt : float
        Only with `return_cost`.
    row_indices, col_indices : int64 and int32 arrays, shape (K,)
        By rising row.
    """
    limit = _limit_of(cost_limit, False)
    matrix = _cost(cost, 2, extend_cost, limit)
    totals, rows, columns = _batch(matrix[None], limit)
    return (float(totals[0]), rows[0], columns[0]) if return_cost else (rows[0], columns[0])


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
    return (total, pairs) if return_cost else pairs


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
    from ._threads import threads

    limit = _limit_of(cost_limit, False)
    matrix = _cost(costs, 3, extend_cost, limit)
    if n_threads:
        with threads(max(1, n_threads)):
            found = _batch(matrix, limit)
    else:
        found = _batch(matrix, limit)
    return found if return_cost else found[1:]


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
    return (totals, pairs) if return_cost else pairs


def _batch(costs: Any, limit: float) -> tuple[Any, list[Any], list[Any]]:
    found = solve_equal(costs, ("pair_row", "pair_column", "pairs", "value"), False, limit)
    columns = found["pair_column"].astype(np.int32)
    counts = found["pairs"].tolist()
    rows_list = [row[:count] for row, count in zip(found["pair_row"], counts, strict=True)]
    columns_list = [row[:count] for row, count in zip(columns, counts, strict=True)]
    return found["value"], rows_list, columns_list
