"""Transport of a part of the mass, under the names of POT's module ``partial``."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ._aux import ArrayT
from ._certificate import Certificate
from ._errors import PartialWarning
from ._ot_exact import emd
from ._ot_problem import cost_of, cost_with, entry_of, linear_cost, mass_of, positive
from ._settings import flag, is_torch, number

__all__ = ["entropic_partial_wasserstein", "partial_wasserstein", "partial_wasserstein2"]


class Partial(NamedTuple):
    """A problem in f64: the most that rows and columns give and take, costs, and the mass to carry."""

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    cost: NDArray[np.float64]
    mass: float


def _read(a: Any, b: Any, M: Any, m: Any) -> tuple[Any, Partial]:
    """The costs as they are, and the problem."""
    M = cost_with(cost_of(M), a, b)
    if is_torch(M):
        from ._torch_watch import refuse_tracers

        refuse_tracers("otattn.ot.partial")
    a, b = mass_of("a", a, M.shape[0], M), mass_of("b", b, M.shape[1], M)
    rows, columns, cost = (np.asarray(x.detach().cpu() if is_torch(x) else x, np.float64) for x in (a, b, M))
    least = min(rows.sum(), columns.sum())
    mass = float(least) if m is None else number("m", m)
    # As much as rounding of the totals may add is taken for the total.
    if not 0.0 <= mass <= least * (1.0 + 1e-12):
        raise ValueError(f"m is {mass!r}, wanted 0 to the smaller total of a and b, {float(least)!r}")
    return M, Partial(rows, columns, cost, min(mass, float(least)))


def _like(M: Any, plan: Any) -> Any:
    if not is_torch(M):
        return plan.astype(M.dtype)
    import torch

    return torch.from_numpy(np.ascontiguousarray(plan)).to(M)


@overload
def partial_wasserstein(
    a: Any,
    b: Any,
    M: ArrayT,
    m: Any = None,
    nb_dummies: int = 1,
    log: Literal[False] = False,
) -> ArrayT: ...
@overload
def partial_wasserstein(
    a: Any,
    b: Any,
    M: ArrayT,
    m: Any = None,
    nb_dummies: int = 1,
    *,
    log: Literal[True],
) -> tuple[ArrayT, dict[str, Any]]: ...
@overload
def partial_wasserstein(
    a: Any,
    b: Any,
    M: Any,
    m: Any = None,
    nb_dummies: int = 1,
    log: bool = False,
) -> Any: ...
def partial_wasserstein(a: Any, b: Any, M: Any, m: Any = None, nb_dummies: int = 1, log: bool = False) -> Any:
    """The cheapest plan that carries the mass `m` at row sums of at most `a` and column sums of at most `b`.

    One more row and column take what stays where it is, at no cost, and may not exchange mass: `emd` of that
    problem is exact.

    Parameters
    ----------
    a : array or tensor, shape (n,)
    b : array or tensor, shape (m,)
    M : array or tensor, shape (n, m)
        Costs, in f32 or f64; those of pairs that stay apart do not count.
    m : float, optional
        Mass to carry, 0 to the smaller total; by default that total.
    nb_dummies : int
        Accepted for POT's signature: one is exact here.
    log : bool
        Then the result is ``(plan, dict)`` with cost and partial_w_dist, which are the same number.

    Returns
    -------
    plan : array or tensor, shape (n, m)
        Nothing is differentiated through it.

    Raises
    ------
    ValueError
        For a mass out of range, or what `emd` refuses.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> M = np.array([[0.0, 9.0], [9.0, 1.0]])
    >>> otattn.ot.partial.partial_wasserstein([0.5, 0.5], [0.5, 0.5], M, m=0.7)
    array([[0.5, 0. ],
           [0. , 0.2]])
    """
    del nb_dummies
    M, (rows, columns, cost, mass) = _read(a, b, M, m)
    wider = np.zeros((len(rows) + 1, len(columns) + 1))
    wider[:-1, :-1] = cost
    wider[-1, -1] = np.inf
    taken = emd(np.append(rows, columns.sum() - mass), np.append(columns, rows.sum() - mass), wider)
    found = _like(M, taken[:-1, :-1])
    if not flag("log", log):
        return found
    value = linear_cost(found, M)
    return found, {"cost": value, "partial_w_dist": value}


def partial_wasserstein2(
    a: Any, b: Any, M: Any, m: Any = None, nb_dummies: int = 1, log: bool = False
) -> Any:
    """The cost of `partial_wasserstein`'s plan; parameters as there, and with `log` its plan as T.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> M = np.array([[0.0, 9.0], [9.0, 1.0]])
    >>> float(otattn.ot.partial.partial_wasserstein2([0.5, 0.5], [0.5, 0.5], M, m=0.75))
    0.25
    """
    plan, entry = partial_wasserstein(a, b, M, m, nb_dummies, log=True)
    return (entry["cost"], {**entry, "T": plan}) if flag("log", log) else entry["cost"]


# Rounds between two looks at how far the plan has moved, as POT has them.
_EVERY = 10
# What a plan that has converged may exceed its bounds by, relative to the mass.
_MET = 1e-6


@overload
def entropic_partial_wasserstein(
    a: Any,
    b: Any,
    M: ArrayT,
    reg: float,
    m: Any = None,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-100,
    verbose: bool = False,
    log: Literal[False] = False,
) -> ArrayT: ...
@overload
def entropic_partial_wasserstein(
    a: Any,
    b: Any,
    M: ArrayT,
    reg: float,
    m: Any = None,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-100,
    verbose: bool = False,
    *,
    log: Literal[True],
) -> tuple[ArrayT, dict[str, Any]]: ...
@overload
def entropic_partial_wasserstein(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    m: Any = None,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-100,
    verbose: bool = False,
    log: bool = False,
) -> Any: ...
def entropic_partial_wasserstein(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    m: Any = None,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-100,
    verbose: bool = False,
    log: bool = False,
) -> Any:
    """The plan of `partial_wasserstein` with an entropy: minimise ``<P, M> + reg sum P log P``.

    Bregman projections on the bounds of the rows, those of the columns and the mass, in logarithms.

    Parameters
    ----------
    a, b, M, m
        As in `partial_wasserstein`.
    reg : float
        Weight of the entropy.
    method : {"sinkhorn", "sinkhorn_log"}
        POT's names, which mean the same here.
    numItermax : int
        Limit of rounds. A plan whose sums exceed their bounds by more than 1e-6 of the mass then warns.
    stopThr : float
        How far ten rounds may move the plan at the end, as a Frobenius norm.
    verbose : bool
        Accepted for POT's signature.
    log : bool
        Then the result is ``(plan, dict)`` with partial_w_dist, err, niter, status and the certificate, whose
        primal and dual bound the objective from both sides.

    Returns
    -------
    plan : array or tensor, shape (n, m)
        Nothing is differentiated through it.

    Raises
    ------
    ValueError
        For a mass out of range, or a method that does not exist.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> M = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> otattn.ot.partial.entropic_partial_wasserstein([0.1, 0.2], [0.1, 0.1], M, 1, 0.1).round(2)
    array([[0.06, 0.02],
           [0.01, 0.  ]])
    """
    flag("verbose", verbose)
    if not isinstance(method, str) or method.lower() not in ("sinkhorn", "sinkhorn_log"):
        raise ValueError(f"method is {method!r}, wanted 'sinkhorn' or 'sinkhorn_log'")
    log, reg = flag("log", log), positive("reg", reg)
    M, problem = _read(a, b, M, m)
    potentials, moved, rounds = _project(problem, reg, numItermax, stopThr)
    plan = _plan_at(problem, reg, potentials)
    certificate = _certificate_of(problem, reg, plan, potentials)
    missed = max(certificate.row_error, certificate.column_error)
    # POT's default asks for the last bit, and says nothing of plans without it.
    done = missed <= _MET and (stopThr <= _MET or moved[-1] <= stopThr)
    if not done:
        warnings.warn(
            f"after {rounds} rounds the sums exceed their bounds by {missed:.3g} of the mass; "
            "raise numItermax, stopThr or reg",
            PartialWarning,
            stacklevel=2,
        )
    found = _like(M, plan)
    if not log:
        return found
    facts = rounds, certificate.row_error, certificate.column_error
    entry = entry_of(facts, certificate, "ok" if done else "partial")
    return found, {**entry, "err": moved, "partial_w_dist": linear_cost(found, M)}


def _logarithm(x: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _log_sum(x: Any, axis: int | None = None) -> Any:
    top = x.max(axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    found = _logarithm(np.exp(x - top).sum(axis, keepdims=True)) + top
    return found.reshape(()) if axis is None else found.squeeze(axis)


def _plan_at(problem: Partial, reg: float, potentials: Any) -> NDArray[np.float64]:
    f, g, c = potentials
    plan: NDArray[np.float64] = np.exp(f[:, None] + g + c - problem.cost / reg)
    return plan


def _project(problem: Partial, reg: float, limit: int, threshold: float) -> tuple[Any, list[float], int]:
    """Potentials over reg, how far ten rounds moved the plan each time, and the rounds that were made."""
    kernel = -problem.cost / reg
    rows, columns, mass = (_logarithm(np.asarray(x)) for x in (problem.rows, problem.columns, problem.mass))
    f, g = np.zeros(len(rows)), np.zeros(len(columns))
    if not problem.mass > 0.0:
        return (f, g, -np.inf), [0.0], 0
    c = mass - _log_sum(kernel)
    moved: list[float] = []
    rounds = 0
    while rounds < limit and not (moved and moved[-1] <= threshold):
        last = (f, g, c)
        with np.errstate(invalid="ignore"):
            # A bound of 0 shuts its row or column, and one that nothing reaches stays open.
            f = np.fmin(0.0, rows - _log_sum(kernel + g + c, 1))
            g = np.fmin(0.0, columns - _log_sum(kernel + f[:, None] + c, 0))
        c = mass - _log_sum(kernel + f[:, None] + g)
        if rounds % _EVERY == 0:
            moved.append(
                float(np.linalg.norm(_plan_at(problem, reg, (f, g, c)) - _plan_at(problem, reg, last)))
            )
        rounds += 1
    return (f, g, c), moved, rounds


def _certificate_of(problem: Partial, reg: float, plan: Any, potentials: Any) -> Certificate:
    """From the definitions: what the sums exceed, and the objective with its bound by the dual problem.

    Where P is e^(f + g + c - M / reg) with f, g <= 0,

        dual = reg (<a, f> + <b, g> + m c - sum P + m)

    is at most the objective of any plan.
    """
    f, g, c = potentials
    total = problem.mass if problem.mass > 0.0 else 1.0
    excess = (np.maximum(plan.sum(1) - problem.rows, 0.0), np.maximum(plan.sum(0) - problem.columns, 0.0))
    used = plan > 0.0
    logarithms = np.log(plan, where=used, out=np.zeros_like(plan))
    allowed = np.where(used, problem.cost, 0.0)
    primal = float((plan * (allowed + reg * logarithms)).sum())
    sides = [(x * np.where(x > 0.0, y, 0.0)).sum() for x, y in ((problem.rows, f), (problem.columns, g))]
    centre = problem.mass * c if problem.mass > 0.0 else 0.0
    dual = float(reg * (sides[0] + sides[1] + centre - plan.sum() + problem.mass))
    return Certificate(
        row_error=float(excess[0].sum() / total + abs(plan.sum() - problem.mass) / total),
        column_error=float(excess[1].sum() / total),
        primal=primal,
        dual=dual,
        gap=primal - dual,
        minimum=float(plan[used].min()) if used.any() else np.nan,
    )
