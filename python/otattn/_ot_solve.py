"""The one call for all problems, `solve`, and transport with relaxed sums, under POT's names."""

from __future__ import annotations

import functools
import math
from types import NoneType
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from . import _native
from ._aux import ArrayT, AuxOutput, AuxRequest, Potentials
from ._call import WITH_POTENTIALS, coupling_again
from ._certificate import Certificate
from ._coupling import coupling
from ._kept import Kept
from ._ot_exact import emd_log, emd_value
from ._ot_problem import (
    EXACT,
    JUDGED,
    NUMBERS,
    POTENTIALS,
    Filled,
    Regularised,
    Way,
    are_named,
    certificate_of_plan,
    cost_of,
    cost_with,
    entry_of,
    facts_of,
    filled,
    kl,
    levelled,
    linear_cost,
    log_or_zero,
    mass_of,
    positive,
    run,
    spec_of_problem,
    way_of,
    xlogx,
)
from ._ot_result import OTResult, Rest
from ._settings import flag, is_torch, number
from ._spec import Spec


@overload
def sinkhorn_unbalanced(
    a: Any,
    b: Any,
    M: ArrayT,
    reg: float,
    reg_m: Any,
    method: str = "sinkhorn",
    reg_type: str = "kl",
    c: Any = None,
    warmstart: Any = None,
    numItermax: int = 1000,
    stopThr: float = 1e-6,
    verbose: bool = False,
    log: Literal[False] = False,
    **unused: Any,
) -> ArrayT: ...
@overload
def sinkhorn_unbalanced(
    a: Any,
    b: Any,
    M: ArrayT,
    reg: float,
    reg_m: Any,
    method: str = "sinkhorn",
    reg_type: str = "kl",
    c: Any = None,
    warmstart: Any = None,
    numItermax: int = 1000,
    stopThr: float = 1e-6,
    verbose: bool = False,
    *,
    log: Literal[True],
    **unused: Any,
) -> tuple[ArrayT, dict[str, Any]]: ...
@overload
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
) -> Any: ...
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
    reg, log = number("reg", reg), flag("log", log)
    flag("verbose", verbose)
    if c is warmstart is None and reg_type in _KINDS and type(reg_m) in _PLAIN_UNBALANCED:
        plain = None
        if are_named(reg, stopThr, numItermax):
            plain = _plain_problem(reg, stopThr, numItermax, reg_m, _KINDS[reg_type])
        way = None if plain is None else way_of(M, a, b)
        if (
            plain is not None
            and way is not None
            and not (log and (way is not coupling_again or plain.turned))
        ):
            found = _solved_again(way, plain, M, a, b)
            if found is not None:
                return _unbalanced_log(found, plain, M, a, b) if log else found[0]
    result = solve(
        M,
        a,
        b,
        reg,
        c,
        reg_type,
        None if reg_m is None else _strengths(reg_m, "reg_m"),
        "KL",
        max_iter=numItermax,
        tol=stopThr,
        potentials_init=_potentials(warmstart, reg),
    )
    if not log:
        return result.plan
    log_u, log_v = (x / reg for x in result.potentials or (math.nan, math.nan))
    return result.plan, {**result.log, "logu": log_u, "logv": log_v, "cost": result.value_linear}


def _unbalanced_log(
    found: tuple[Any, ...], plain: _Plain, M: Any, a: Any, b: Any
) -> tuple[Any, dict[str, Any]]:
    """The plan that `_solved_again` found, and its log."""
    plan, f, g, repeat, facts = found
    held = _native.hold(M, a, b, plan)
    potentials, _, linear, entry = _held_rest(held, f, g, facts, repeat, plain)
    assert potentials is not None and plain.problem is not None
    entry["logu"], entry["logv"] = _native.divided(*potentials, plain.problem.reg)
    entry["cost"] = linear
    return plan, entry


def _potentials(warmstart: Any, reg: float) -> Any:
    return None if warmstart is None else (reg * warmstart[0], reg * warmstart[1])


@overload
def solve(
    M: ArrayT,
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
) -> OTResult[ArrayT]: ...
@overload
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
) -> OTResult[Any]: ...
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
) -> OTResult[Any]:
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
    if type(verbose) is not bool:
        flag("verbose", verbose)
    if c is method is potentials_init is None and grad == "autodiff":
        later = _solve_later(M, a, b, reg, reg_type, (unbalanced, unbalanced_type), (tol, max_iter))
        if later is not None:
            return later
    if grad not in ("autodiff", "envelope", "last_step", "detach"):
        raise ValueError(f"grad is {grad!r}, wanted 'autodiff', 'envelope', 'last_step' or 'detach'")
    M = cost_with(cost_of(M), a, b)
    a, b = mass_of("a", a, M.shape[0], M), mass_of("b", b, M.shape[1], M)
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
    relaxed = not all(map(math.isinf, strengths))
    potentials: Any
    if reg is None or not number("reg", reg):
        if relaxed:
            raise NotImplementedError(
                "unbalanced needs reg: exact transport with relaxed sums has no solver here"
            )
        plan, entry = emd_value(a, b, M)
        return OTResult(plan, (entry["u"], entry["v"]), entry["cost"], entry["cost"], "ok", entry)
    if kind == "l2" and relaxed:
        raise NotImplementedError("reg_type='L2' with unbalanced has no solver here")
    problem = Regularised(positive("reg", reg), tol, max_iter, *strengths, _REGULARISERS[kind])
    if not relaxed:
        b = levelled(a, b)
    start = None if potentials_init is None else potentials_init[1]
    # The logarithm of a mass of 0 has no derivative.
    given = filled(a, b, M) if kind == "kl" and c is None else Filled(a, b, None)
    a, b = given.a, given.b
    if kind == "kl" and c is None and not relaxed:
        # Entropy's plan, whose potentials hold the logarithms of masses.
        start = None if start is None else start + problem.reg * log_or_zero(b)
        plan, aux = _regularised(problem, M, a, b, start)
        potentials = _apart(aux.potentials, a, b, problem.reg)
        value, linear = _values(problem, kind, plan, M, given, None)
    else:
        cost = M
        if kind == "kl":
            logarithms = log_or_zero(a)[:, None] + log_or_zero(b)[None, :] if c is None else log_or_zero(c)
            cost = M - problem.reg * logarithms
        plan, aux = _regularised(problem, cost, a, b, start)
        potentials = aux.potentials
        value, linear = _values(problem, kind, plan, M, given, c)
    plan = given.emptied(plan)
    assert aux.info is not None
    entry = entry_of(facts_of(aux.info), aux.certificate, aux.info.status)
    return OTResult(plan, potentials, value, linear, entry["status"], entry)


def _values(problem: Regularised, kind: str, plan: Any, M: Any, given: Filled, reference: Any) -> Any:
    """Objective and cost of a plan, with their derivatives."""
    a, b = given.a, given.b
    # Masses too small to show would, times a cost that stands for "forbidden".
    linear = linear_cost(given.emptied(plan), M)
    if kind == "kl":
        own = kl(plan, a[:, None] * b[None, :] if reference is None else reference)
    elif kind == "l2":
        own = (plan**2).sum() / 2
    else:
        own = xlogx(plan, plan * 0 + 1)
        own = own if _is_balanced(problem) else own - plan.sum()
    value = linear + problem.reg * own
    for strength, sums, mass in ((problem.rows, plan.sum(1), a), (problem.columns, plan.sum(0), b)):
        if not math.isinf(strength):
            value = value + strength * kl(sums, mass)
    return value, linear


def _plain_values(problem: Regularised, kind: str, plan: Any, M: Any, a: Any, b: Any) -> Any:
    """The same of plain arrays, without derivatives."""
    logarithmic = kind != "l2" and M.dtype == a.dtype == b.dtype == plan.dtype
    sums = _native.sums(plan, M, a, b) if logarithmic else None
    if sums is None:
        return _values(problem, kind, plan, M, Filled(a, b, None), None)
    linear, entropy, mass, relative, rows, columns = sums
    own = relative if kind == "kl" else entropy if _is_balanced(problem) else entropy - mass
    value = linear + problem.reg * own
    for strength, divergence in ((problem.rows, rows), (problem.columns, columns)):
        if not math.isinf(strength):
            value += strength * divergence
    return _native.scalars(M, value, linear)


def _is_balanced(problem: Regularised) -> bool:
    return math.isinf(problem.rows) and math.isinf(problem.columns)


def _apart(potentials: Any, a: Any, b: Any, reg: float) -> tuple[Any, Any]:
    """The potentials without the masses, of which those of 0 have none."""
    f, g = potentials
    return f - reg * log_or_zero(a), g - reg * log_or_zero(b)


def _plain_strengths(unbalanced: float | tuple[float, float] | None) -> tuple[float, float] | None:
    """Those of `unbalanced` where they are plain and right; None: the longer way knows what to say."""
    if unbalanced is None:
        return math.inf, math.inf
    pair = unbalanced if isinstance(unbalanced, tuple) else (unbalanced, unbalanced)
    if len(pair) != 2 or not all(type(x) in (float, int) and x > 0.0 for x in pair):
        return None
    return pair


def _solve_later(
    M: Any,
    a: Any,
    b: Any,
    reg: Any,
    reg_type: Any,
    relaxed: tuple[Any, Any],
    limits: tuple[Any, Any],
) -> OTResult[Any] | None:
    """`solve` of a plain problem: the plan now, the rest when it is read; None: not so."""
    (unbalanced, unbalanced_type), (tol, max_iter) = relaxed, limits
    kind = _KINDS.get(reg_type) if type(reg_type) is str else None
    if kind is None or type(reg) not in NUMBERS or (reg and reg < 0.0) or getattr(M, "ndim", 0) != 2:
        return None
    if (
        getattr(M, "itemsize", 0) < 4
        or not (reg or kind == "kl")
        or type(unbalanced) not in _PLAIN_UNBALANCED
    ):
        return None
    a = mass_of("a", a, M.shape[0], M) if a is None else a
    b = mass_of("b", b, M.shape[1], M) if b is None else b
    way = way_of(M, a, b)
    if way is None or way is not coupling_again:
        return None
    if unbalanced is not None and (not reg or kind == "l2" or unbalanced_type not in ("KL", "kl")):
        return None
    if reg and not are_named(reg, tol, max_iter):
        return None
    plain = _plain_problem(reg, tol, max_iter, unbalanced, kind) if reg else _EXACT
    if plain is None:
        return None
    problem = plain.problem
    found = _solved_again(way, plain, M, a, b)
    if found is None:
        if str(M.dtype).removeprefix("torch.") not in ("float64", "float32"):
            return None
        if _cost_of_problem(problem, kind, M, a, b) is None:
            return None
        if (problem is None or _is_balanced(problem)) and levelled(a, b) is not b:
            return None
        plan, aux = _solved(problem, kind, M, a, b)
        info = aux.info
        own = _native.copies(M, a, b, plan)
        rest = functools.partial(_rest, own, aux.potentials, facts_of(info), info.status, problem, kind)
        return OTResult._with_rest(plan, info.status, rest)
    plan, f, g, repeat, facts = found
    # The caller may write into all of these.
    if problem is None or plain.turned or kind == "l2":
        own = _native.copies(M, a, b, plan)
        rest = functools.partial(_rest, own, Potentials(f, g), facts, "ok", problem, kind)
    else:
        held = _native.hold(M, a, b, plan)
        rest = functools.partial(_held_rest, held, f, g, facts, repeat, plain)
    return OTResult._with_rest(plan, "ok", rest)


_KINDS = {"KL": "kl", "kl": "kl", "entropy": "entropy", "L2": "l2", "l2": "l2"}
_REGULARISERS = {"kl": "softmax", "entropy": "softmax", "l2": "entmax:2"}
_PLAIN_UNBALANCED = (NoneType, float, int, tuple)


def _cost_of_problem(problem: Regularised | None, kind: str, M: Any, a: Any, b: Any) -> Any:
    """The cost that `_regularised` takes: with relaxed sums KL's reference is a part of it."""
    if problem is None or kind != "kl" or _is_balanced(problem):
        return M
    return _native.against(M, a, b, problem.reg)


class _Plain(NamedTuple):
    """A problem (None: exact transport) of plain numbers, with what follows from them."""

    problem: Regularised | None
    spec: Spec
    kind: str
    referred: bool
    """KL's reference is a part of the cost."""
    turned: bool


_EXACT = _Plain(None, EXACT, "kl", False, False)


@functools.lru_cache(maxsize=64, typed=True)
def _plain_problem(
    reg: float, tol: float | None, max_iter: int | None, unbalanced: Any, kind: str
) -> _Plain | None:
    """That of named numbers; None: the longer way knows what to say."""
    strengths = _plain_strengths(unbalanced)
    if strengths is None or (kind == "l2" and not all(map(math.isinf, strengths))):
        return None
    problem = Regularised(reg, tol, max_iter, *strengths, _REGULARISERS[kind])
    turned = problem.is_turned
    spec = spec_of_problem(problem.turned() if turned else problem)
    return _Plain(problem, spec, kind, kind == "kl" and not _is_balanced(problem), turned)


def _solved_again(way: Way, plain: _Plain, M: Any, a: Any, b: Any) -> Any:
    """Plan, potentials, structs and facts, by those of an earlier call like this; None: not so."""
    if way is not coupling_again and plain.kind == "kl":
        # Derivatives by the cost that KL's reference has become a part of.
        return None
    cost = M
    if plain.referred and plain.problem is not None:
        cost = _native.against(M, a, b, plain.problem.reg)
        if cost is None:
            return None
    if not plain.turned:
        return way(plain.spec, WITH_POTENTIALS, cost, (None, a, b, None))
    found = way(plain.spec, WITH_POTENTIALS, cost.T, (None, b, a, None))
    return None if found is None else (found[0].T, found[2], found[1], *found[3:])


def _solved(problem: Regularised | None, kind: str, M: Any, a: Any, b: Any) -> Any:
    """Plan and aux with potentials by the way that finds everything wrong."""
    if problem is None:
        how: dict[str, Any] = {"method": "hard/exact", "cost": True, "row_mass": a, "column_mass": b}
        return coupling(M, **how, return_aux=POTENTIALS)
    return _regularised(problem, _cost_of_problem(problem, kind, M, a, b), a, b, None, POTENTIALS)


def _held_rest(held: Any, f: Any, g: Any, facts: tuple[Any, ...], repeat: Kept, plain: _Plain) -> Rest:
    """The rest of a result, from what is held of the problem, its plan, and the structs of its solve."""
    assert plain.problem is not None
    (reg, _, _, rows, columns, _), relative = plain.problem, plain.kind == "kl"
    f, g, value, linear, numbers = _native.rest(repeat.call, held, f, g, reg, rows, columns, relative)
    return (f, g), value, linear, entry_of(facts, Certificate._make(numbers), "ok")


def _rest(
    solved: tuple[Any, ...],
    own: Potentials,
    facts: tuple[Any, ...],
    status: str,
    problem: Regularised | None,
    kind: str,
) -> Rest:
    """The rest of a result, from NumPy's copies of the problem and its plan."""
    if is_torch(own.row):
        import torch

        solved = tuple(map(torch.from_numpy, solved))
    M, a, b, plan = solved
    if problem is None:
        entry = emd_log(M, a, b, plan, own)
        return (entry["u"], entry["v"]), entry["cost"], entry["cost"], entry
    value, linear = _plain_values(problem, kind, plan, M, a, b)
    potentials: Any = own
    if kind == "kl" and _is_balanced(problem):
        potentials = _native.apart(*own, a, b, problem.reg) or _apart(own, a, b, problem.reg)
    cost = _cost_of_problem(problem, kind, M, a, b)
    if problem.is_turned:
        across = plan.T.contiguous() if is_torch(plan) else np.ascontiguousarray(plan.T)
        proof = certificate_of_plan(problem.turned(), cost.T, b, a, across, own[::-1])
    else:
        proof = certificate_of_plan(problem, cost, a, b, plan, own)
    return potentials, value, linear, entry_of(facts, proof, status)


def _strengths(unbalanced: Any, name: str = "unbalanced") -> tuple[float, float]:
    """Of the penalties on sums of rows and of columns; inf: exact."""
    if unbalanced is None:
        return math.inf, math.inf
    pair = (unbalanced, unbalanced) if np.ndim(unbalanced) == 0 else tuple(unbalanced)
    if len(pair) == 1:
        pair = (pair[0], pair[0])
    if len(pair) != 2:
        raise ValueError(f"{name} has {len(pair)} numbers, wanted one or two")
    rows, columns = (positive(name, x) for x in pair)
    return rows, columns


def _turned(plan: Any, aux: AuxOutput) -> tuple[Any, AuxOutput]:
    """Those of the transposed problem."""
    assert aux.potentials is not None
    g, f = aux.potentials
    return plan.T, aux._replace(potentials=Potentials(f, g))


def _regularised(
    problem: Regularised, M: Any, a: Any, b: Any, start: Any, wanted: AuxRequest = JUDGED
) -> tuple[Any, AuxOutput]:
    if problem.is_turned:
        return _turned(*run(problem.turned(), M.T, b, a, True, wanted))
    # Squares reach rows and columns without mass: their derivatives are those of a mass that begins to grow.
    masked = problem.regulariser == "softmax"
    plan, aux = run(problem, M, a, b, True, wanted, masked, start_potential=start)
    return plan, aux
