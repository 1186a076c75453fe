"""The assignment problem under SciPy's name."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import floating, operands_of, run_on, view_of
from ._aux import NO_AUX
from ._errors import Infeasible
from ._settings import EXTRA, PLACES, Settings
from ._solve import Job


def _chosen_columns(matrix: Any, settings: Settings) -> Any:
    """The column that each row is matched with, or -1; no plan is written: the value of column j is j + 1."""
    matrix = floating("cost_matrix", matrix)
    rows, columns = matrix.shape
    keep: list[Any] = []
    numbers = np.arange(1.0, columns + 1.0)
    # Default masses would leave a column without any allowed pair out of the problem.
    extra: list[Any] = [None] * EXTRA
    extra[PLACES["column_mass"] - 3] = np.ones(columns)
    others = operands_of(tuple(extra), (1,), 1, rows, columns, keep)
    views = view_of(matrix[None, None]), None, view_of(numbers[None, None, :, None])
    out, _, _ = run_on(Job(settings, (*views, *others)), None, NO_AUX, "out", np.dtype(np.float64), (), [])
    return out.reshape(rows).astype(np.int64) - 1


def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> tuple[Any, Any]:
    """The cheapest matching of min(rows, columns) pairs, with the signature of scipy.optimize's.

    Parameters
    ----------
    cost_matrix : array, shape (rows, columns)
        +inf (-inf when maximising) forbids a pair.
    maximize : bool
        Look for the dearest matching instead.

    Returns
    -------
    row_ind, col_ind : int64 arrays, shape (min(rows, columns),)
        The pairs, by rising row.

    Raises
    ------
    ValueError
        For a matrix that is none, holds NaN or the other infinity, or has no matching.

    Examples
    --------
    >>> import otattn
    >>> otattn.linear_sum_assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
    (array([0, 1, 2]), array([1, 0, 2]))
    """
    cost = np.asarray(cost_matrix)
    if cost.ndim != 2:
        raise ValueError(f"cost_matrix has shape {cost.shape}, wanted a matrix")
    if cost.dtype.kind not in "fiub":
        raise ValueError(f"cost_matrix has type {cost.dtype}, wanted numbers")
    if cost.dtype != np.float32:  # whose matching is found without a wider copy
        cost = cost.astype(np.float64, copy=False)
    if np.isnan(cost).any() or (cost == (np.inf if maximize else -np.inf)).any():
        raise ValueError("matrix contains invalid numeric entries")
    if 0 in cost.shape:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    tall = cost.shape[0] > cost.shape[1]
    matrix = cost.T if tall else cost
    # Fewer rows than columns: every row has mass 1 and no column takes more.
    method = "hard/exact" if cost.shape[0] == cost.shape[1] else "hard/capped:1"
    try:
        columns = _chosen_columns(matrix, Settings(method, cost=not maximize))
    except Infeasible as error:
        raise ValueError("cost matrix is infeasible") from error
    if (columns < 0).any():
        # Capped columns leave a row without any allowed pair empty, where a matching does not exist.
        raise ValueError("cost matrix is infeasible")
    rows = np.arange(len(matrix))
    if not tall:
        return rows, columns
    order = columns.argsort()
    return columns[order], rows[order]
