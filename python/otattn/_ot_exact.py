"""Exact transport under POT's names: `emd` and `emd2`."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from . import _native
from ._aux import ArrayT
from ._call import ONLY, WITH_POTENTIALS
from ._coupling import coupling
from ._ot_problem import (
    EXACT,
    POTENTIALS,
    again,
    cost_of,
    cost_with,
    is_unwatched,
    levelled,
    linear_cost,
    mass_of,
    value_again,
)
from ._settings import flag, is_torch


@overload
def emd(
    a: Any,
    b: Any,
    M: ArrayT,
    numItermax: int = 100000,
    log: Literal[False] = False,
    center_dual: bool = True,
    numThreads: int = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> ArrayT: ...
@overload
def emd(
    a: Any,
    b: Any,
    M: ArrayT,
    numItermax: int = 100000,
    *,
    log: Literal[True],
    center_dual: bool = True,
    numThreads: int = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> tuple[ArrayT, dict[str, Any]]: ...
@overload
def emd(
    a: Any,
    b: Any,
    M: Any,
    numItermax: int = 100000,
    log: bool = False,
    center_dual: bool = True,
    numThreads: int = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any: ...
def emd(
    a: Any,
    b: Any,
    M: Any,
    numItermax: int = 100000,
    log: bool = False,
    center_dual: bool = True,
    numThreads: int = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any:
    """Exact transport: minimise ``<P, M>`` with row sums `a` and column sums `b`.

    Parameters
    ----------
    a, b, M
        As in `sinkhorn`.
    log : bool
        Then the result is ``(plan, dict)`` with cost, u, v, warning, result_code.
    numItermax, center_dual, numThreads, check_marginals, potentials_init
        Accepted for POT's signature; `center_dual` centres u and v as there.

    Returns
    -------
    plan : array, shape (n, m)

    Raises
    ------
    Infeasible
        For unequal totals.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.ot.emd([0.5, 0.5], [0.5, 0.5], np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    if not (type(log) is type(center_dual) is type(check_marginals) is bool):
        log, center_dual = flag("log", log), flag("center_dual", center_dual)
        flag("check_marginals", check_marginals)
    found = again(EXACT, WITH_POTENTIALS if log else ONLY, M, a, b)
    if found is not None:
        if not log:
            return found
        plan, u, v = found[:3]
        own = type(plan) is np.ndarray or not plan.requires_grad
        return plan, emd_log(M, a, b, plan, (u, v), center_dual, own)
    M = cost_with(cost_of(M), a, b)
    a, b = mass_of("a", a, M.shape[0], M), mass_of("b", b, M.shape[1], M)
    b = levelled(a, b)
    how: dict[str, Any] = {"method": "hard/exact", "cost": True, "row_mass": a, "column_mass": b}
    if not log:
        return coupling(M, **how)
    plan, aux = coupling(M, **how, return_aux=POTENTIALS)
    return plan, emd_log(M, a, b, plan, aux.potentials, center_dual)


def emd_log(
    M: Any, a: Any, b: Any, plan: Any, potentials: Any, center_dual: bool = True, own: bool = False
) -> dict[str, Any]:
    """The log of exact transport, from the library's potentials; `own`: they may be changed."""
    # They obey -M + f + g <= 0: they are the dual variables themselves.
    u, v = potentials
    if not _native.without_zeros(a, b):
        u, v = _filled(u, v, M)
        if center_dual and a.any() and b.any():
            # Those without mass may be as large as a cost that stands for "forbidden".
            shift = (_mean_with(u, a) - _mean_with(v, b)) / 2
            u, v = u - shift, v + shift
    elif center_dual:
        u, v = (_native.centred(u, v, own) if own or is_unwatched(u, v) else None) or _centred(u, v)
    return {"cost": linear_cost(plan, M, own), "u": u, "v": v, "warning": None, "result_code": 1}


def _centred(u: Any, v: Any) -> tuple[Any, Any]:
    shift = (u.mean() - v.mean()) / 2
    return u - shift, v + shift


def _mean_with(x: Any, mass: Any) -> float:
    x, mass = (y.numpy(force=True) if is_torch(y) else np.asarray(y) for y in (x, mass))
    return float(x[mass != 0].mean())


def _filled(u: Any, v: Any, M: Any) -> tuple[Any, Any]:
    """Dual variables of rows and columns without mass: the largest that are feasible."""
    dead_u, dead_v = ~_finite(u), ~_finite(v)
    if not (dead_u.any() or dead_v.any()):
        return u, v
    tensors = is_torch(u)
    u, v, M = (x.numpy(force=True) if is_torch(x) else np.asarray(x) for x in (u, v, M))
    dead_u, dead_v = ~np.isfinite(u), ~np.isfinite(v)
    u, v = u.copy(), v.copy()
    v[dead_v] = _lowest((M - u[:, None])[~dead_u][:, dead_v], 0)
    u[dead_u] = _lowest((M - v)[dead_u], 1)
    if tensors:
        import torch

        u, v = torch.from_numpy(u), torch.from_numpy(v)
    return u, v


def _lowest(slack: Any, axis: int) -> Any:
    """The least of each line; 0 where all pairs are forbidden, so that nothing bounds the variable."""
    lowest = slack.min(axis)
    return np.where(np.isfinite(lowest), lowest, 0.0)


def _finite(x: Any) -> Any:
    return x.isfinite() if is_torch(x) else np.isfinite(x)


def emd2(
    a: Any,
    b: Any,
    M: Any,
    processes: int = 1,
    numItermax: int = 100000,
    log: bool = False,
    return_matrix: bool = False,
    center_dual: bool = True,
    numThreads: int = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any:
    """The cost of `emd`'s plan; parameters as there.

    With several columns in `b`, a list with one result for each. Tensors get gradients: the plan by `M`, the
    dual variables, centred, by `a` and `b`.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> float(otattn.ot.emd2([0.5, 0.5], [1.0, 0.0], np.array([[0.0, 1.0], [1.0, 0.0]])))
    0.5
    """
    if not (type(log) is type(return_matrix) is type(center_dual) is type(check_marginals) is bool):
        log, return_matrix = flag("log", log), flag("return_matrix", return_matrix)
        center_dual = flag("center_dual", center_dual)
        flag("check_marginals", check_marginals)
    if not (log or return_matrix):
        found = value_again(EXACT, ONLY, M, a, b)
        if found is not None:
            return found
    if b is not None and getattr(b, "ndim", 1) == 2:
        return [
            emd2(a, b[:, k], M, log=log, return_matrix=return_matrix, center_dual=center_dual)
            for k in range(b.shape[1])
        ]
    if not (log or return_matrix or _has_derivative(a) or _has_derivative(b)):
        return linear_cost(emd(a, b, M.detach() if _has_derivative(M) else M), cost_of(M))
    plan, entry = emd_value(a, b, M, center_dual)
    if return_matrix:
        entry["G"] = plan
    return (entry["cost"], entry) if log or return_matrix else entry["cost"]


def _has_derivative(x: Any) -> bool:
    return is_torch(x) and x.requires_grad


def emd_value(a: Any, b: Any, M: Any, center_dual: bool = True) -> Any:
    """`emd` with its log, whose cost has the gradients of the optimal value: plan and dual variables."""
    given = [x for x in (a, b, M) if is_torch(x)]
    rows, columns, cost = (x.detach() if is_torch(x) else x for x in (a, b, M))
    plan, entry = emd(rows, columns, cost, log=True, center_dual=center_dual)
    if not any(x.requires_grad for x in given):
        return plan, entry
    from ._torch_ot import ExactCost

    # One by one, so that a tracer sees them.
    solved = plan, entry["u"], entry["v"], entry["cost"]
    entry["cost"] = ExactCost.apply(M, a, b, *solved)  # type: ignore[no-untyped-call]
    return plan, entry
