"""Problems of transport: their arguments, and solves of them by the structs of earlier ones."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._arrays import type_of
from ._aux import AuxRequest
from ._call import Ask, coupling_again
from ._certificate import Certificate
from ._coupling import coupling, judged, spec_with
from ._errors import NotConverged, PartialWarning
from ._outcome import Info
from ._settings import is_torch, number, shown
from ._shapes import dense
from ._spec import Spec
from ._structs import NO_TYPE

# The certificate of a plan costs more than many plans do.
JUDGED = AuxRequest(potentials=True, certificate=True)
POTENTIALS = AuxRequest(potentials=True)
NUMBERS = frozenset((float, int, type(None)))
# What sums of masses leave room for.
_MOST_MASS = 1e307
# Relative differences of totals that the library takes for rounding, and that POT does.
_EQUAL, _NEAR = 1e-12, 1e-7


def cost_of(M: Any) -> Any:
    if type(M) is not np.ndarray:
        dense("M", M)
    M = M if is_torch(M) else np.asarray(M)
    if M.ndim != 2:
        raise ValueError(f"M has shape {tuple(M.shape)}, wanted a matrix")
    if is_torch(M):
        if M.is_complex():
            raise TypeError(f"M has type {M.dtype}, wanted numbers")
        M = M if M.is_floating_point() else M.double()
    elif M.dtype.kind in "iub":
        M = M.astype(np.float64)
    elif type_of(M.dtype.newbyteorder("=")) == NO_TYPE:
        raise TypeError(f"M has type {M.dtype}, wanted numbers")
    return M


def mass_of(name: str, x: Any, size: int, M: Any) -> Any:
    """The mass as given, or equal masses of total 1 where it is absent or empty."""
    if size == 0:
        raise ValueError(f"M has shape {tuple(M.shape)}, wanted at least one row and column")
    if x is not None and type(x) is not np.ndarray:
        dense(name, x)
    if x is None or (np.ndim(x) and len(x) == 0):
        # A tracer of torch takes the number of new_full for f32.
        return M.new_ones((size,)) / size if is_torch(M) else np.full(size, 1.0 / size, M.dtype)
    x = x if is_torch(x) else np.asarray(x)
    if tuple(x.shape) != (size,):
        raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted ({size},)")
    if x.is_complex() if is_torch(x) else x.dtype.kind not in "fiu":
        raise TypeError(f"{name} has type {x.dtype}, wanted numbers")
    if is_torch(x) and not is_torch(M):
        raise TypeError(f"{name} is a tensor, but M is none")
    if is_torch(M) and not is_torch(x):
        x = M.new_tensor(x.tolist())
    total = float((x.detach() if is_torch(x) else x).sum())
    if not (total < _MOST_MASS and bool((x >= 0).all())):
        raise ValueError(f"{name} is {shown(x)}, wanted numbers of 0 or more whose sum is below {_MOST_MASS}")
    return x


def levelled(a: Any, b: Any) -> Any:
    """`b` with the total of `a`, where they are near enough for POT: masses rounded to f32, or in a file."""
    if min(a.itemsize, b.itemsize) < 8:
        # The library itself leaves room for what such types cannot tell apart.
        return b
    rows, columns = ((x.detach() if is_torch(x) else x).sum() for x in (a, b))
    apart = abs(float(rows) - float(columns))
    return b * (rows / columns) if _EQUAL * float(columns) < apart <= _NEAR * float(columns) else b


def cost_with(M: Any, *masses: Any) -> Any:
    """M in the type that holds it and the masses that are arrays: theirs where it is the wider one."""
    widest: Any = M.dtype
    for x in masses:
        if is_torch(M):
            import torch

            if is_torch(x) and x.is_floating_point():
                widest = torch.promote_types(widest, x.dtype)
        elif isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.dtype.itemsize <= 8:
            widest = np.promote_types(widest, x.dtype.newbyteorder("="))
    if widest == M.dtype:
        return M
    return M.to(widest) if is_torch(M) else M.astype(widest)


class Filled(NamedTuple):
    """Masses without zeros."""

    a: Any
    b: Any
    empty: Any
    """Pairs of a row or a column without mass, shape (n, m); None: there are none, or zeros are left in."""

    def emptied(self, plan: Any) -> Any:
        """The plan with 0 on those pairs, and the derivatives that it has in the limit of small masses."""
        if self.empty is None:
            return plan
        if is_torch(plan):
            return plan - plan.detach().where(self.empty, plan.new_zeros(()))
        return np.where(self.empty, 0.0, plan).astype(plan.dtype, copy=False)


def filled(a: Any, b: Any, M: Any) -> Filled:
    """Masses of 0 become ones too small to show: their potentials are those of the limit.

    A plan has its derivatives without this; values that hold its logarithm need these potentials for theirs.
    Masses of rows and columns all of whose pairs are forbidden stay 0.
    """
    narrow = min(a.itemsize, b.itemsize) < 4
    if narrow or (a.all() and b.all()) or not (a.any() and b.any()):
        return Filled(a, b, None)
    both, open_pairs = [], (M.detach() if is_torch(M) else M) < math.inf
    for side, x in enumerate((a, b)):
        real = x.dtype.is_floating_point if is_torch(x) else x.dtype.kind == "f"
        if not real:
            x = x.double() if is_torch(x) else x.astype(np.float64)
        total = (x.detach() if is_torch(x) else x).sum()
        tiny = total * (2.0**-30 if x.itemsize == 4 else 2.0**-60)
        both.append(x + ((x == 0) & open_pairs.any(1 - side)) * tiny)
    return Filled(both[0], both[1], (a == 0)[:, None] | (b == 0)[None, :])


def log_or_zero(x: Any) -> Any:
    """log x, and 0 where x is 0: there the plan is 0 whatever is added."""
    if is_torch(x):
        return x.where(x > 0, x.new_ones(())).log()
    return np.log(np.where(x > 0, x, 1.0))


def xlogx(x: Any, y: Any) -> Any:
    """sum x log(x / y)."""
    return (x * (log_or_zero(x) - log_or_zero(y))).sum()


def kl(x: Any, y: Any) -> Any:
    """sum x log(x / y) - x + y."""
    return xlogx(x, y) - x.sum() + y.sum()


def positive(name: str, value: Any) -> float:
    found = number(name, value)
    if not found > 0.0:
        raise ValueError(f"{name} is {found!r}, wanted more than 0")
    return found


class Regularised(NamedTuple):
    """A problem with a regulariser: its weight, limits, strengths of the penalties on sums, and its name."""

    reg: float
    tol: float | None
    max_iter: int | None
    rows: float = math.inf
    """inf: these sums are exact."""
    columns: float = math.inf
    regulariser: str = "softmax"
    """As a method names it: entropy; "entmax:2": squares, whose sums are exact."""

    @property
    def is_turned(self) -> bool:
        """Relaxed rows go with relaxed columns only, so columns that are exact become the rows."""
        return math.isinf(self.columns) and not math.isinf(self.rows)

    def turned(self) -> Regularised:
        """The transposed problem."""
        return self._replace(rows=self.columns, columns=self.rows)


def method_of(problem: Regularised) -> dict[str, str]:
    """`method` and `rows` of `coupling` for a problem that is not to be turned."""
    columns = "exact" if math.isinf(problem.columns) else f"relaxed:{problem.columns!r}"
    rows = "hard" if math.isinf(problem.rows) else f"relaxed:{problem.rows!r}"
    return {"method": f"{problem.regulariser}/{columns}", "rows": rows}


# The spec of `emd`'s call of `coupling`.
EXACT = spec_with(method="hard/exact", cost=True)


@functools.lru_cache(maxsize=64)
def spec_of_problem(problem: Regularised | None) -> Spec:
    """That of `run`'s call for entropic transport, or of `emd`'s for None."""
    if problem is None:
        return EXACT
    limits: dict[str, Any] = {"tolerance": problem.tol, "max_rounds": problem.max_iter}
    how: dict[str, Any] = dict(method_of(problem))
    return spec_with(**how, temperature=problem.reg, cost=True, allow_partial=True, **limits)


@functools.lru_cache(maxsize=64, typed=True)
def spec_of_numbers(reg: float, tol: float | None, max_iter: int | None) -> Spec:
    """That of entropic transport whose masses are kept, by named numbers."""
    return spec_of_problem(Regularised(reg, tol, max_iter))


def are_named(reg: Any, tol: Any, max_iter: Any) -> bool:
    """Whether weight and limits are plain numbers, as strengths are: calls are known by them."""
    return type(reg) in NUMBERS and type(tol) in NUMBERS and type(max_iter) in NUMBERS


class _TorchWays(NamedTuple):
    """What is imported where there are tensors."""

    derivative_wanted: Any
    couple_again: Any
    plan_cost: Any
    is_plain: Any


@functools.lru_cache(maxsize=1)
def torch_ways() -> _TorchWays:
    from ._torch_call import couple_again
    from ._torch_derivative import plain_apply
    from ._torch_ot import PlanCost
    from ._torch_watch import derivative_wanted, is_plain

    return _TorchWays(derivative_wanted, couple_again, plain_apply(PlanCost), is_plain)


def is_unwatched(*arrays: Any) -> bool:
    """Whether `_native` may read arrays: NumPy's, or plain tensors that nobody looks on at."""
    return type(arrays[0]) is np.ndarray or (is_torch(arrays[0]) and torch_ways().is_plain(*arrays))


# What solves a problem by a spec, what is asked for, cost and masses as an earlier call; None: what does not.
Way = Callable[[Spec, Ask, Any, tuple[Any, ...]], Any]


def way_of(M: Any, a: Any, b: Any) -> Way | None:
    """The way of plain arrays that nobody looks on at, with or without derivatives; None: the longer way."""
    way: Way = coupling_again
    if type(M) is np.ndarray:
        if not type(a) is type(b) is np.ndarray:
            return None
    else:
        recorded = _native.derivative(M, a, b)
        if recorded is None:
            return None
        ways = torch_ways()
        wanted = ways[0](recorded, M)
        if wanted is None:
            return None
        way = ways[1] if wanted else way
    # A matrix and two vectors, none wider than it; of others the longer way speaks.
    fits = M.ndim == 2 and a.itemsize <= M.itemsize >= b.itemsize
    return way if fits and _native.without_zeros(a, b) else None


def again(spec: Spec | None, ask: Ask, M: Any, a: Any, b: Any) -> Any:
    """What `coupling_again` finds for arrays like these, by the structs of an earlier call; None: not so.

    There is no more to check: the spec (None: the longer way) and the layout are those of a call that was.
    """
    way = way_of(M, a, b)
    return None if way is None or spec is None else way(spec, ask, M, (None, a, b, None))


def value_again(spec: Spec | None, ask: Ask, M: Any, a: Any, b: Any) -> Any:
    """As `again`, with <P, M> in the place of the plan."""
    way = way_of(M, a, b)
    if way is None or spec is None or M.itemsize < 4:
        return None
    given = (None, a, b, None)
    if way is coupling_again:
        found = way(spec, ask, M, given)
        if type(found) is tuple:
            return _native.linear(found[0], M), *found[1:]
        return None if found is None else _native.linear(found, M)
    if spec is not EXACT:
        couple: Any = way
        return couple(spec, ask, M, given, True)
    # The plan of exact transport is a constant where the cost alone changes.
    plan = None if a.requires_grad or b.requires_grad else coupling_again(spec, ask, M, given)
    return None if plan is None else torch_ways()[2]((_native.linear(plan, M), plan), M)


def linear_cost(plan: Any, M: Any, unwatched: bool = False) -> Any:
    """<P, M>, to which a pair that carries nothing adds nothing, though its cost be inf.

    `unwatched`: the caller knows that `is_unwatched`.
    """
    found = None
    recorded = is_torch(M) and (M.requires_grad or plan.requires_grad)
    if plan.dtype == M.dtype and not recorded and (unwatched or is_unwatched(M, plan)):
        found = _native.linear(plan, M)
    if found is not None:
        return found
    # Not where the plan is 0: in the limit of small masses that has derivatives.
    allowed = np.inf > M
    return (plan * (M.where(allowed, M.new_zeros(())) if is_torch(M) else np.where(allowed, M, 0))).sum()


def certificate_of_plan(problem: Regularised, M: Any, a: Any, b: Any, plan: Any, potentials: Any) -> Any:
    """The judge's word on an earlier plan of a problem that is not to be turned."""
    return judged(spec_of_problem(problem), M, (None, a, b, None), plan, potentials)


def run(
    problem: Regularised,
    M: Any,
    a: Any,
    b: Any,
    warn: bool,
    wanted: AuxRequest = JUDGED,
    masked: bool = True,
    **arguments: Any,
) -> Any:
    """Plan and aux; rows and columns without mass are `masked`, since no logarithm reaches them."""
    arguments = method_of(problem) | arguments
    if masked and not (a.all() and b.all()):
        arguments["attn_mask"] = (a > 0)[:, None] & (b > 0)[None, :]

    def solved(**limits: Any) -> Any:
        return coupling(
            M,
            cost=True,
            row_mass=a,
            column_mass=b,
            allow_partial=True,
            temperature=problem.reg,
            return_aux=wanted,
            **limits,
            **arguments,
        )

    tol, max_iter = problem.tol, problem.max_iter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialWarning)
        try:
            never = tol is not None and tol <= 0.0
            plan, aux = solved(rounds=max_iter) if never else solved(tolerance=tol, max_rounds=max_iter)
        except NotConverged:
            # No arithmetic reaches the tolerance; POT goes on to the last round and warns.
            plan, aux = solved(rounds=max_iter)
    if aux.info is None:
        # In a graph and of shapes alone nobody knows yet.
        aux = aux._replace(info=Info("unknown", 0, math.nan, math.nan, 0, 0))
    if warn and aux.info.status in ("partial", "fixed_iters"):
        warnings.warn(
            f"after {aux.info.rounds} rounds the column error is {aux.info.column_error:.3g}; "
            "raise numItermax, stopThr or reg",
            PartialWarning,
            stacklevel=3,
        )
    return plan, aux


def facts_of(info: Info) -> tuple[Any, ...]:
    """Those that `again` gives."""
    return info.rounds, info.row_error, info.column_error


def entry_of(facts: tuple[Any, ...], certificate: Certificate | None, status: str) -> dict[str, Any]:
    """What a log says of a solve."""
    rows, columns = facts[1], facts[2]
    return {
        "niter": facts[0],
        "err": [rows if rows > columns else columns],
        "certificate": certificate,
        "status": status,
    }
