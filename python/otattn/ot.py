"""Transport between histograms under the names of the package POT (Python Optimal Transport).

``a`` (rows) and ``b`` (columns) are masses, ``M`` is a cost, ``reg`` the entropic weight. Potentials are in
units of the cost. NumPy arrays or torch tensors; with torch, plans and values have gradients.
"""

from __future__ import annotations

import functools
import math
import sys
import warnings
from typing import Any

import numpy as np

from . import _native
from ._attention import is_torch
from ._aux import NO_AUX, AuxOutput, AuxRequest
from ._coupling import coupling, judged, words_of
from ._coupling_repeat import ONLY, WITH_INFO, WITH_POTENTIALS, coupling_again
from ._errors import NotConverged, PartialWarning
from ._ot_result import OTResult, Rest
from ._sampler import PlanSampler, sinkhorn_knopp_teacher
from ._settings import number

__all__ = [
    "OTResult",
    "PlanSampler",
    "emd",
    "emd2",
    "from_geomloss",
    "from_ott",
    "sinkhorn",
    "sinkhorn2",
    "sinkhorn_knopp_teacher",
    "sinkhorn_unbalanced",
    "solve",
    "solve_sample",
]


# ---- helpers -------------------------------------------------------------------------------------


def _cost(M: Any) -> Any:
    M = M if is_torch(M) else np.asarray(M)
    if M.ndim != 2:
        raise ValueError(f"M has shape {tuple(M.shape)}, wanted a matrix")
    if not is_torch(M) and M.dtype.kind in "iub":
        M = M.astype(np.float64)
    return M


def _mass(name: str, x: Any, size: int, M: Any) -> Any:
    """The mass as given, or equal masses of total 1 where it is absent or empty."""
    if x is None or len(x) == 0:
        return M[:, 0].new_full((size,), 1.0 / size) if is_torch(M) else np.full(size, 1.0 / size, M.dtype)
    x = x if is_torch(x) else np.asarray(x)
    if tuple(x.shape) != (size,):
        raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted ({size},)")
    return x


def _log(x: Any) -> Any:
    """log x, and 0 where x is 0: there the plan is 0 whatever is added."""
    if is_torch(x):
        return x.where(x > 0, x.new_ones(())).log()
    return np.log(np.where(x > 0, x, 1.0))


def _xlogx(x: Any, y: Any) -> Any:
    """sum x log(x / y)."""
    return (x * (_log(x) - _log(y))).sum()


def _kl(x: Any, y: Any) -> Any:
    """sum x log(x / y) - x + y."""
    return _xlogx(x, y) - x.sum() + y.sum()


def _positive(name: str, value: Any) -> float:
    found = number(name, value)
    if not found > 0.0:
        raise ValueError(f"{name} is {found!r}, wanted more than 0")
    return found


# The certificate of a plan costs more than many plans do.
_JUDGED = AuxRequest(potentials=True, certificate=True)
_POTENTIALS = AuxRequest(potentials=True)
_NUMBERS = frozenset((float, int, type(None)))


@functools.lru_cache(maxsize=64)
def _words(reg: float | None, tol: float | None, max_iter: int | None) -> tuple[Any, ...]:
    """Those of `_run`'s call for entropic transport, or of `emd`'s without `reg`."""
    if reg is None:
        return words_of("hard/exact", cost=True)
    limits: dict[str, Any] = {"tolerance": tol, "max_rounds": max_iter}
    return words_of("softmax/exact", temperature=reg, cost=True, allow_partial=True, **limits)


def _are_plain(M: Any, a: Any, b: Any) -> bool:
    """A matrix and two vectors without zeros, all of NumPy or all of torch and no derivative wanted."""
    if not type(M) is type(a) is type(b):
        return False
    if type(M) is not np.ndarray:
        tensors = sys.modules.get("otattn._torch_repeat")
        if tensors is None or not tensors.is_plain_constant(M, a, b):
            return False
    return bool(M.ndim == 2 and a.ndim == b.ndim == 1 and _native.without_zeros(a, b))


def _again(reg: Any, tol: Any, max_iter: Any, names: tuple[str, ...], M: Any, a: Any, b: Any) -> Any:
    """What `coupling` returned for arrays like these, by the structs of that call; None: not so.

    There is no more to check: the words and the layout are those of a call that was checked.
    """
    if not (_NUMBERS.issuperset((type(reg), type(tol), type(max_iter))) and _are_plain(M, a, b)):
        return None
    return coupling_again(_words(reg, tol, max_iter), names, M, (None, a, b, None))


def _run(
    M: Any,
    a: Any,
    b: Any,
    warn: bool,
    tol: float | None,
    max_iter: int | None,
    *,
    wanted: AuxRequest = _JUDGED,
    **arguments: Any,
) -> Any:
    """Plan and aux; rows and columns without mass are masked, since no logarithm reaches them."""
    mask = None
    if not (a.all() and b.all()):
        mask = (a > 0)[:, None] & (b > 0)[None, :]
        arguments["attn_mask"] = mask

    def solved(**limits: Any) -> Any:
        return coupling(
            M,
            cost=True,
            row_mass=a,
            column_mass=b,
            allow_partial=True,
            return_aux=wanted,
            **limits,
            **arguments,
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialWarning)
        try:
            never = tol is not None and tol <= 0.0
            plan, aux = solved(rounds=max_iter) if never else solved(tolerance=tol, max_rounds=max_iter)
        except NotConverged:
            # No arithmetic reaches the tolerance; POT goes on to the last round and warns.
            plan, aux = solved(rounds=max_iter)
    if warn and aux.info.status in ("partial", "fixed_iters"):
        warnings.warn(
            f"after {aux.info.rounds} rounds the column error is {aux.info.column_error:.3g}; "
            "raise numItermax, stopThr or reg",
            PartialWarning,
            stacklevel=3,
        )
    return plan, aux


def _entry(aux: AuxOutput) -> dict[str, Any]:
    assert aux.info is not None
    error = max(aux.info.row_error, aux.info.column_error)
    return {
        "niter": aux.info.rounds,
        "err": [error],
        "certificate": aux.certificate,
        "status": aux.info.status,
    }


# ---- entropic transport --------------------------------------------------------------------------


def sinkhorn(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = True,
    warmstart: Any = None,
    **unused: Any,
) -> Any:
    """Entropic transport: minimise ``<P, M> + reg sum P log P`` with row sums `a` and column sums `b`.

    Parameters
    ----------
    a : array, shape (n,)
        Row masses; empty means equal ones. Same total as `b`.
    b : array, shape (m,) or (m, histograms)
        Several columns give one value each, as in POT.
    M : array, shape (n, m)
    reg : float
    method : str
        POT's names are accepted and mean the same plan; every solve works on logarithms.
    numItermax : int
    stopThr : float
        On the larger of row and column error, relative to the total mass.
    verbose : bool
        Accepted for POT's signature.
    log : bool
        Then the result is ``(plan, dict)`` with u, v, log_u, log_v, err, niter.
    warn : bool
        Warn when the rounds run out.
    warmstart : (array, array), optional
        Logarithms of u and v to start from.

    Returns
    -------
    plan : array, shape (n, m), or values, shape (histograms,)

    Raises
    ------
    Infeasible
        For unequal totals.
    ValueError, TypeError
        Naming the argument.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.ot.sinkhorn([0.5, 0.5], [0.5, 0.5], np.array([[0.0, 1.0], [1.0, 0.0]]), 1.0).round(6)
    array([[0.365529, 0.134471],
           [0.134471, 0.365529]])
    """
    if method == "sinkhorn" and warmstart is None and not log:
        plan = _again(reg, stopThr, numItermax, WITH_INFO, M, a, b)
        if plan is not None:
            return plan
    M, reg = _cost(M), _positive("reg", reg)
    if not isinstance(method, str) or method.lower() not in _SINKHORNS:
        raise ValueError(f"method is {method!r}, wanted one of {', '.join(_SINKHORNS)}")
    if b is not None and getattr(b, "ndim", 1) == 2:
        values = [
            sinkhorn2(a, b[:, k], M, reg, numItermax=numItermax, stopThr=stopThr, warn=warn)
            for k in range(b.shape[1])
        ]
        return (_stack(values), {}) if log else _stack(values)
    a, b = _mass("a", a, M.shape[0], M), _mass("b", b, M.shape[1], M)
    start = None if warmstart is None else reg * warmstart[1]
    how = {"method": "softmax/exact", "temperature": reg, "start_potential": start}
    plan, aux = _run(M, a, b, warn, stopThr, numItermax, wanted=_JUDGED if log else NO_AUX, **how)
    if not log:
        return plan
    log_u, log_v = (x / reg for x in aux.potentials)
    return plan, {"log_u": log_u, "log_v": log_v, "u": _exp(log_u), "v": _exp(log_v), **_entry(aux)}


# POT's names of ways to the same plan.
_SINKHORNS = ("sinkhorn", "sinkhorn_log", "sinkhorn_stabilized", "sinkhorn_epsilon_scaling", "greenkhorn")


def _exp(x: Any) -> Any:
    return x.exp() if is_torch(x) else np.exp(x)


def _stack(values: list[Any]) -> Any:
    if values and is_torch(values[0]):
        import torch

        return torch.stack(values)
    return np.array(values)


def sinkhorn2(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = False,
    warmstart: Any = None,
    **unused: Any,
) -> Any:
    """The cost ``<P, M>`` of `sinkhorn`'s plan; parameters as there.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> float(otattn.ot.sinkhorn2([0.5, 0.5], [0.5, 0.5], np.array([[0.0, 1.0], [1.0, 0.0]]), 1.0).round(6))
    0.268941
    """
    M = _cost(M)
    if not isinstance(method, str) or method.lower() not in _SINKHORNS[:3]:
        raise ValueError(f"method is {method!r}, wanted one of {', '.join(_SINKHORNS[:3])}")
    if b is not None and getattr(b, "ndim", 1) == 2:
        return sinkhorn(a, b, M, reg, method, numItermax, stopThr, verbose, log, warn, warmstart)
    found = sinkhorn(a, b, M, reg, method, numItermax, stopThr, verbose, log, warn, warmstart)
    return ((found[0] * M).sum(), found[1]) if log else (found * M).sum()


def sinkhorn_unbalanced(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    reg_m: Any,
    method: str = "sinkhorn",
    reg_type: str = "kl",
    c: Any = None,
    warmstart: Any = None,
    numItermax: int = 1000,
    stopThr: float = 1e-6,
    verbose: bool = False,
    log: bool = False,
    **unused: Any,
) -> Any:
    """Entropic transport with relaxed sums: ``<P, M> + reg R(P) + reg_m KL(sums | masses)``.

    Parameters
    ----------
    a, b, M, reg, method, numItermax, stopThr, verbose, log, warmstart
        As in `sinkhorn`.
    reg_m : float or (float, float)
        Strength for rows and for columns, in units of the cost; inf makes that side exact.
    reg_type : {"kl", "entropy"}
        KL relative to `c` (default a b^T), or ``sum P (log P - 1)``.
    c : array, shape (n, m), optional

    Returns
    -------
    plan : array, shape (n, m)

    Examples
    --------
    >>> import numpy as np, otattn
    >>> plan = otattn.ot.sinkhorn_unbalanced([1.0, 2.0], [2.0, 1.0], np.eye(2), 0.5, 1.0)
    >>> plan.shape
    (2, 2)
    """
    result = solve(
        M,
        a,
        b,
        reg,
        c,
        reg_type,
        reg_m,
        "KL",
        max_iter=numItermax,
        tol=stopThr,
        potentials_init=_potentials(warmstart, reg),
    )
    if not log:
        return result.plan
    log_u, log_v = (x / reg for x in result.potentials or (math.nan, math.nan))
    return result.plan, {**result.log, "logu": log_u, "logv": log_v, "cost": result.value_linear}


def _potentials(warmstart: Any, reg: float) -> Any:
    return None if warmstart is None else (reg * warmstart[0], reg * warmstart[1])


# ---- exact transport -----------------------------------------------------------------------------


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
    if not log:
        plan = _again(None, None, None, ONLY, M, a, b)
        if plan is not None:
            return plan
    M = _cost(M)
    a, b = _mass("a", a, M.shape[0], M), _mass("b", b, M.shape[1], M)
    how: dict[str, Any] = {"method": "hard/exact", "cost": True, "row_mass": a, "column_mass": b}
    if not log:
        return coupling(M, **how)
    plan, aux = coupling(M, **how, return_aux=_POTENTIALS)
    return plan, _emd_log(M, plan, aux.potentials, center_dual)


def _emd_log(M: Any, plan: Any, potentials: Any, center_dual: bool = True) -> dict[str, Any]:
    # The library's potentials obey -M + f + g <= 0: they are the dual variables themselves.
    u, v = _filled(potentials[0], potentials[1], M)
    if center_dual:
        shift = (u.mean() - v.mean()) / 2
        u, v = u - shift, v + shift
    return {"cost": (plan * M).sum(), "u": u, "v": v, "warning": None, "result_code": 1}


def _filled(u: Any, v: Any, M: Any) -> tuple[Any, Any]:
    """Dual variables of rows and columns without mass: the largest that are feasible."""
    dead_u, dead_v = ~_finite(u), ~_finite(v)
    if not (dead_u.any() or dead_v.any()):
        return u, v
    u, v, M = (np.asarray(x.detach() if is_torch(x) else x) for x in (u, v, M))
    dead_u, dead_v = ~np.isfinite(u), ~np.isfinite(v)
    u, v = u.copy(), v.copy()
    v[dead_v] = (M - u[:, None])[~dead_u][:, dead_v].min(0)
    u[dead_u] = (M - v)[dead_u].min(1)
    return u, v


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
    if b is not None and getattr(b, "ndim", 1) == 2:
        return [
            emd2(a, b[:, k], M, log=log, return_matrix=return_matrix, center_dual=center_dual)
            for k in range(b.shape[1])
        ]
    given: list[Any] = [x for x in (a, b, M) if is_torch(x)]
    if not (log or return_matrix or any(x.requires_grad for x in given)):
        return (emd(a, b, M) * _cost(M)).sum()
    plan, entry = _emd_value(a, b, M, center_dual)
    if return_matrix:
        entry["G"] = plan
    return (entry["cost"], entry) if log or return_matrix else entry["cost"]


def _emd_value(a: Any, b: Any, M: Any, center_dual: bool = True) -> Any:
    """`emd` with its log, whose cost has the gradients of the optimal value: plan and dual variables."""
    given = [x for x in (a, b, M) if is_torch(x)]
    rows, columns, cost = (x.detach() if is_torch(x) else x for x in (a, b, M))
    plan, entry = emd(rows, columns, cost, log=True, center_dual=center_dual)
    if not any(x.requires_grad for x in given):
        return plan, entry
    value = (plan * M).sum()
    for mass, dual in ((a, entry["u"]), (b, entry["v"])):
        if is_torch(mass) and mass.requires_grad:
            # The total is fixed, so that a constant in the dual variable means nothing.
            value = value + ((dual - dual.mean()).to(mass.dtype) * (mass - mass.detach())).sum()
    return plan, {**entry, "cost": value}


# ---- the one call --------------------------------------------------------------------------------


def solve(
    M: Any,
    a: Any = None,
    b: Any = None,
    reg: float | None = None,
    c: Any = None,
    reg_type: Any = "KL",
    unbalanced: Any = None,
    unbalanced_type: str = "KL",
    method: str | None = None,
    n_threads: int = 1,
    max_iter: int | None = None,
    plan_init: Any = None,
    potentials_init: Any = None,
    tol: float | None = None,
    verbose: bool = False,
    grad: str = "autodiff",
) -> OTResult:
    """Any of the problems above, with POT's result object.

    Parameters
    ----------
    M : array, shape (n, m)
    a, b : array, optional
        Masses; default equal ones of total 1.
    reg : float, optional
        0 or None: exact transport.
    c : array, shape (n, m), optional
        Reference of ``reg_type="KL"``; default a b^T.
    reg_type : {"KL", "entropy", "L2"}
        KL: ``sum P log(P / c) - P + c``; entropy: ``sum P log P`` (less ``P`` when unbalanced); L2:
        ``sum P^2 / 2``, balanced only.
    unbalanced : float or (float, float), optional
        Strength of the KL penalties on row and column sums; inf keeps a side exact.
    unbalanced_type : {"KL"}
    max_iter, tol : optional
        Limit of rounds; tolerance relative to the mass.
    potentials_init : (array, array), optional
        The second is where the solve starts.
    method, n_threads, plan_init, verbose, grad
        Accepted for POT's signature.

    Returns
    -------
    OTResult

    Raises
    ------
    NotImplementedError
        For regularisers and penalties that the library does not have.
    Infeasible
        For unequal totals when both sides are exact.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> result = otattn.ot.solve(np.array([[0.0, 1.0], [1.0, 0.0]]), reg=1.0)
    >>> round(float(result.value_linear), 6), result.status
    (0.268941, 'ok')
    """
    if c is unbalanced is method is potentials_init is None and grad == "autodiff":
        later = _solve_later(M, a, b, reg, reg_type, tol, max_iter)
        if later is not None:
            return later
    if grad not in ("autodiff", "envelope", "last_step", "detach"):
        raise ValueError(f"grad is {grad!r}, wanted 'autodiff', 'envelope', 'last_step' or 'detach'")
    M = _cost(M)
    a, b = _mass("a", a, M.shape[0], M), _mass("b", b, M.shape[1], M)
    if method not in (None, "emd", "sinkhorn", "sinkhorn_log", "sinkhorn_stabilized", "lbfgsb", "mm"):
        raise ValueError(f"method is {method!r}, which does not exist; the library chooses its solver itself")
    if grad == "detach":
        M, a, b = (x.detach() if is_torch(x) else x for x in (M, a, b))
    kind = reg_type.lower() if isinstance(reg_type, str) else ""
    if kind not in ("kl", "entropy", "l2"):
        raise NotImplementedError(f"reg_type is {reg_type!r}, wanted 'KL', 'entropy' or 'L2'")
    if unbalanced is not None and str(unbalanced_type).lower() != "kl":
        raise NotImplementedError(f"unbalanced_type is {unbalanced_type!r}, wanted 'KL'")
    strengths = _strengths(unbalanced)
    if not reg:
        if strengths is not None:
            raise NotImplementedError(
                "unbalanced needs reg: exact transport with relaxed sums has no solver here"
            )
        plan, entry = _emd_value(a, b, M)
        return OTResult(plan, (entry["u"], entry["v"]), entry["cost"], entry["cost"], "ok", entry)
    reg = _positive("reg", reg)
    if kind == "l2":
        return _quadratic(M, a, b, reg, strengths, tol, max_iter)
    if kind == "kl" and c is None and strengths is None:
        return _relative_to_masses(M, a, b, reg, potentials_init, tol, max_iter)
    cost, reference = M, None
    if kind == "kl":
        reference = a[:, None] * b[None, :] if c is None else c
        cost = M - reg * _log(reference)
    start = None if potentials_init is None else potentials_init[1]
    plan, potentials, aux = _entropic(cost, a, b, reg, strengths, start, tol, max_iter)
    linear = (plan * M).sum()
    value = _objective(plan, linear, reg, reference, strengths)
    for strength, sums, mass in zip(strengths or (), (plan.sum(1), plan.sum(0)), (a, b), strict=False):
        if strength < math.inf:
            value = value + strength * _kl(sums, mass)
    entry = _entry(aux)
    return OTResult(plan, potentials, value, linear, entry["status"], entry)


def _objective(plan: Any, linear: Any, reg: float, reference: Any, strengths: Any) -> Any:
    """Cost and regulariser."""
    if reference is not None:
        return linear + reg * _kl(plan, reference)
    entropy = _xlogx(plan, plan * 0 + 1)
    return linear + reg * (entropy if strengths is None else entropy - plan.sum())


def _relative_to_masses(
    M: Any, a: Any, b: Any, reg: float, potentials_init: Any, tol: float | None, max_iter: int | None
) -> OTResult:
    """Balanced, KL relative to a b^T: entropy's plan, whose potentials hold the logarithms of masses."""
    start = None if potentials_init is None else potentials_init[1] + reg * _log(b)
    plan, potentials, aux = _entropic(M, a, b, reg, None, start, tol, max_iter)
    linear = (plan * M).sum()
    value = _objective(plan, linear, reg, a[:, None] * b[None, :], None)
    entry = _entry(aux)
    return OTResult(plan, _apart(potentials, a, b, reg), value, linear, entry["status"], entry)


def _apart(potentials: Any, a: Any, b: Any, reg: float) -> tuple[Any, Any]:
    """The potentials without the masses, of which those of 0 have none."""
    f, g = potentials
    return f - reg * _log(a), g - reg * _log(b)


def _solve_later(M: Any, a: Any, b: Any, reg: Any, reg_type: Any, tol: Any, max_iter: Any) -> OTResult | None:
    """`solve` of a plain balanced problem: the plan now, the rest when it is read; None: not so."""
    kind = _KINDS.get(reg_type) if type(reg_type) is str else None
    if kind is None or type(reg) not in _NUMBERS or (reg and reg < 0.0) or getattr(M, "ndim", 0) != 2:
        return None
    if M.itemsize < 4 or not (reg or kind == "kl"):
        return None
    a = _mass("a", a, M.shape[0], M) if a is None else a
    b = _mass("b", b, M.shape[1], M) if b is None else b
    reg, tol, max_iter = (reg, tol, max_iter) if reg else (None, None, None)
    found = _again(reg, tol, max_iter, WITH_POTENTIALS, M, a, b)
    if found is None:
        if str(M.dtype).removeprefix("torch.") not in ("float64", "float32") or not _are_plain(M, a, b):
            return None
        if reg is None:
            how: dict[str, Any] = {"method": "hard/exact", "cost": True, "row_mass": a, "column_mass": b}
            found = coupling(M, **how, return_aux=_POTENTIALS)
        else:
            how = {"method": "softmax/exact", "temperature": reg}
            found = _run(M, a, b, True, tol, max_iter, wanted=_POTENTIALS, **how)
    plan, aux = found
    # The caller may write into all of these.
    own = _native.copies(M, a, b, plan)
    rest = functools.partial(_rest, own, aux, reg, kind, (tol, max_iter))
    return OTResult._with_rest(plan, aux.info.status, rest)


_KINDS = {"KL": "kl", "kl": "kl", "entropy": "entropy"}


def _rest(solved: tuple[Any, ...], aux: AuxOutput, reg: Any, kind: str, limits: tuple[Any, Any]) -> Rest:
    """The rest of a result, from NumPy's copies of the problem and its plan."""
    assert aux.potentials is not None
    if is_torch(aux.potentials.row):
        import torch

        solved = tuple(map(torch.from_numpy, solved))
    M, a, b, plan = solved
    if reg is None:
        entry = _emd_log(M, plan, aux.potentials)
        return (entry["u"], entry["v"]), entry["cost"], entry["cost"], entry
    reference = a[:, None] * b[None, :] if kind == "kl" else None
    linear = (plan * M).sum()
    value = _objective(plan, linear, reg, reference, None)
    potentials = aux.potentials if kind == "entropy" else _apart(aux.potentials, a, b, reg)
    proof = judged(_words(reg, *limits), M, (None, a, b, None), plan, aux.potentials)
    return potentials, value, linear, _entry(aux._replace(certificate=proof))


def _strengths(unbalanced: Any) -> tuple[float, float] | None:
    if unbalanced is None:
        return None
    pair = (unbalanced, unbalanced) if np.ndim(unbalanced) == 0 else tuple(unbalanced)
    if len(pair) == 1:
        pair = (pair[0], pair[0])
    rows, columns = (_positive("unbalanced", x) for x in pair)
    return None if math.isinf(rows) and math.isinf(columns) else (rows, columns)


def _entropic(
    M: Any,
    a: Any,
    b: Any,
    reg: float,
    strengths: tuple[float, float] | None,
    start: Any,
    tol: Any,
    max_iter: Any,
) -> tuple[Any, tuple[Any, Any], AuxOutput]:
    if strengths is not None and math.isinf(strengths[1]):
        # Relaxed rows go with relaxed columns only, so the exact side becomes the rows.
        plan, (g, f), aux = _entropic(M.T, b, a, reg, (strengths[1], strengths[0]), None, tol, max_iter)
        return plan.T, (f, g), aux
    arguments: dict[str, Any] = {"temperature": reg, "start_potential": start, "method": "softmax/exact"}
    if strengths is not None:
        arguments["method"] = f"softmax/relaxed:{strengths[1]!r}"
        if not math.isinf(strengths[0]):
            arguments["rows"] = f"relaxed:{strengths[0]!r}"
    plan, aux = _run(M, a, b, True, tol, max_iter, **arguments)
    return plan, aux.potentials, aux


def _quadratic(M: Any, a: Any, b: Any, reg: float, strengths: Any, tol: Any, max_iter: Any) -> OTResult:
    if strengths is not None:
        raise NotImplementedError("reg_type='L2' with unbalanced has no solver here")
    plan, aux = _run(M, a, b, True, tol, max_iter, method="entmax:2/exact", temperature=reg)
    linear = (plan * M).sum()
    entry = _entry(aux)
    return OTResult(
        plan, tuple(aux.potentials), linear + reg * (plan**2).sum() / 2, linear, entry["status"], entry
    )


_APPROXIMATIONS = (
    "1d",
    "bsp",
    "factored",
    "gaussian",
    "gaussian_hd",
    "geomloss",
    "geomloss_auto",
    "geomloss_multiscale",
    "geomloss_online",
    "geomloss_tensorized",
    "lowrank",
    "max_sliced",
    "nystroem",
    "sliced",
)


def solve_sample(
    X_a: Any,
    X_b: Any,
    a: Any = None,
    b: Any = None,
    metric: str = "sqeuclidean",
    reg: float | None = None,
    *,
    method: str | None = None,
    **arguments: Any,
) -> OTResult:
    """`solve` with ``M`` the squared (or plain) Euclidean distances of two point clouds.

    Parameters
    ----------
    X_a : array, shape (n, width)
    X_b : array, shape (m, width)
    metric : {"sqeuclidean", "euclidean"}
    method : str, optional
        Approximations by name are not offered.
    a, b, reg, **arguments
        As in `solve`.

    Returns
    -------
    OTResult

    Raises
    ------
    NotImplementedError
        Naming the argument that is not offered.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> float(otattn.ot.solve_sample(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]])).value)
    2.5
    """
    if metric not in ("sqeuclidean", "euclidean"):
        raise NotImplementedError(f"metric is {metric!r}, wanted 'sqeuclidean' or 'euclidean'")
    if method in _APPROXIMATIONS:
        raise NotImplementedError(
            f"method is {method!r}, an approximation; here the problem itself is solved"
        )
    if method is not None:
        raise ValueError(f"method is {method!r}, which does not exist")
    for name in ("lazy", "batch_size", "rank", "n_projections", "scaler", "debias"):
        if arguments.pop(name, None):
            raise NotImplementedError(f"{name} is not offered: the whole cost matrix is solved as it is")
    difference = X_a[:, None, :] - X_b[None, :, :]
    M = (difference * difference).sum(-1)
    if metric == "euclidean":
        M = M**0.5
    return solve(M, a, b, reg, **arguments)


# ---- other libraries' parameters -----------------------------------------------------------------


def from_ott(epsilon: float, tau_a: float = 1.0, tau_b: float = 1.0) -> dict[str, Any]:
    """OTT-JAX's epsilon and taus as arguments of `solve`: tau = rho / (rho + epsilon), 1 is exact.

    Examples
    --------
    >>> import otattn
    >>> otattn.ot.from_ott(0.5, tau_b=0.5)
    {'reg': 0.5, 'unbalanced': (inf, 0.5)}
    """
    strengths = []
    for name, tau in (("tau_a", tau_a), ("tau_b", tau_b)):
        if not 0.0 < tau <= 1.0:
            raise ValueError(f"{name} is {tau!r}, wanted more than 0 and at most 1")
        strengths.append(math.inf if tau == 1.0 else epsilon * tau / (1.0 - tau))
    relaxed = None if all(math.isinf(x) for x in strengths) else tuple(strengths)
    return {"reg": epsilon, "unbalanced": relaxed}


def from_geomloss(blur: float, reach: float | None = None, p: int = 2) -> dict[str, Any]:
    """GeomLoss's blur and reach as arguments of `solve`: reg = blur^p, strength = reach^p.

    GeomLoss's cost for p = 2 is half the squared distance: give `solve` that ``M``.

    Examples
    --------
    >>> import otattn
    >>> otattn.ot.from_geomloss(0.5, reach=2.0)
    {'reg': 0.25, 'unbalanced': 4.0}
    """
    return {"reg": blur**p, "unbalanced": None if reach is None else reach**p}
