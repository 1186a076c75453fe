"""Entropic transport between masses that are kept, under POT's names: `sinkhorn` and `sinkhorn2`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from . import _native
from ._aux import NO_AUX, ArrayT
from ._call import ONLY, WITH_CERTIFICATE
from ._certificate import Certificate
from ._ot_problem import (
    JUDGED,
    Regularised,
    again,
    are_named,
    cost_of,
    cost_with,
    entry_of,
    facts_of,
    is_unwatched,
    levelled,
    linear_cost,
    mass_of,
    positive,
    run,
    spec_of_numbers,
    value_again,
)
from ._settings import flag, is_torch

if TYPE_CHECKING:
    from torch import Tensor


@overload
def sinkhorn(
    a: Any,
    b: Any,
    M: ArrayT,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: Literal[False] = False,
    warn: bool = True,
    warmstart: Any = None,
    **unused: Any,
) -> ArrayT: ...
@overload
def sinkhorn(
    a: Any,
    b: Any,
    M: ArrayT,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    *,
    log: Literal[True],
    warn: bool = True,
    warmstart: Any = None,
    **unused: Any,
) -> tuple[ArrayT, dict[str, Any]]: ...
@overload
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
) -> Any: ...
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
    if not (type(log) is type(warn) is type(verbose) is bool):
        log, warn = flag("log", log), flag("warn", warn)
        flag("verbose", verbose)
    if warmstart is None and type(method) is str and method == "sinkhorn":
        spec = spec_of_numbers(reg, stopThr, numItermax) if are_named(reg, stopThr, numItermax) else None
        if not log:
            found = again(spec, ONLY, M, a, b)
        else:
            found = _logged(again(spec, WITH_CERTIFICATE, M, a, b), reg, M)
        if found is not None:
            return found
    M, reg = cost_with(cost_of(M), a, b), positive("reg", reg)
    if not isinstance(method, str) or method.lower() not in _SINKHORNS:
        raise ValueError(f"method is {method!r}, wanted one of {', '.join(_SINKHORNS)}")
    if b is not None and getattr(b, "ndim", 1) == 2:
        values = [
            sinkhorn2(a, b[:, k], M, reg, numItermax=numItermax, stopThr=stopThr, warn=warn)
            for k in range(b.shape[1])
        ]
        return (_stack(values), {}) if log else _stack(values)
    a, b = mass_of("a", a, M.shape[0], M), mass_of("b", b, M.shape[1], M)
    b = levelled(a, b)
    start = None if warmstart is None else reg * warmstart[1]
    problem = Regularised(reg, stopThr, numItermax)
    plan, aux = run(problem, M, a, b, warn, JUDGED if log else NO_AUX, masked=False, start_potential=start)
    if not log:
        return plan
    f, g = aux.potentials
    return plan, _log_of(f, g, reg, entry_of(facts_of(aux.info), aux.certificate, aux.info.status))


def _logged(found: Any, reg: float, M: Any) -> Any:
    """What a call returns of a plan, or a cost, that was found with its certificate."""
    if found is None:
        return None
    first, f, g, _, facts, numbers = found
    # With derivatives the potentials are backward's, too.
    own = type(M) is np.ndarray or not first.requires_grad
    return first, _log_of(f, g, reg, entry_of(facts, Certificate._make(numbers), "ok"), own)


def _log_of(f: Any, g: Any, reg: float, entry: dict[str, Any], own: bool = False) -> dict[str, Any]:
    """The log with the scalings of the potentials, which may be changed where they are the log's own."""
    found = _native.scalings(f, g, reg, own) if own or is_unwatched(f, g) else None
    if found is None:
        found = (f / reg, g / reg, _exp(f / reg), _exp(g / reg))
    entry["log_u"], entry["log_v"], entry["u"], entry["v"] = found
    return entry


# POT's names of ways to the same plan.
_SINKHORNS = ("sinkhorn", "sinkhorn_log", "sinkhorn_stabilized", "sinkhorn_epsilon_scaling", "greenkhorn")


def _exp(x: Any) -> Any:
    return x.exp() if is_torch(x) else np.exp(x)


def _stack(values: list[Any]) -> Any:
    if values and is_torch(values[0]):
        import torch

        return torch.stack(values)
    return np.array(values)


@overload
def sinkhorn2(
    a: Any,
    b: Any,
    M: Tensor,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: Literal[False] = False,
    warn: bool = False,
    warmstart: Any = None,
    **unused: Any,
) -> Tensor: ...
@overload
def sinkhorn2(
    a: Any,
    b: Any,
    M: Tensor,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    *,
    log: Literal[True],
    warn: bool = False,
    warmstart: Any = None,
    **unused: Any,
) -> tuple[Tensor, dict[str, Any]]: ...
@overload
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
) -> Any: ...
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
    if not (type(log) is type(warn) is type(verbose) is bool):
        log, warn = flag("log", log), flag("warn", warn)
        flag("verbose", verbose)
    if type(method) is str and method == "sinkhorn" and warmstart is None:
        spec = spec_of_numbers(reg, stopThr, numItermax) if are_named(reg, stopThr, numItermax) else None
        if not log:
            found = value_again(spec, ONLY, M, a, b)
        else:
            found = _logged(value_again(spec, WITH_CERTIFICATE, M, a, b), reg, M)
        if found is not None:
            return found
    M = cost_of(M)
    if not isinstance(method, str) or method.lower() not in _SINKHORNS[:3]:
        raise ValueError(f"method is {method!r}, wanted one of {', '.join(_SINKHORNS[:3])}")
    if b is not None and getattr(b, "ndim", 1) == 2:
        return sinkhorn(a, b, M, reg, method, numItermax, stopThr, verbose, log, warn, warmstart)
    found = sinkhorn(a, b, M, reg, method, numItermax, stopThr, verbose, log, warn, warmstart)
    return (linear_cost(found[0], M), found[1]) if log else linear_cost(found, M)
