"""Hard plans with masses, caps and bounds beside SciPy's HiGHS, OR-Tools' min-cost flow and POT's emd.

All solve the same problem, whose data are made once: HiGHS a linear program of sparse constraints, OR-Tools a
graph that is made of arrays of arcs within the timed call. OR-Tools takes whole numbers alone, so masses are
whole, and costs are rounded to multiples of 2^-20 of the largest before anybody gets them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import ot
import otattn
from ortools.graph.python import min_cost_flow
from pairs import Pair, Prepared
from scipy import optimize, sparse

STEPS = 1 << 20
SHAPES = [(128, 128), (256, 256), (512, 512), (1024, 1024), (2048, 256)]
# Seconds a call and more beyond so many pairs.
SLOW = {"HiGHS": 256 * 256}
PAIR_CAP = 2


def uniform(rows: int, columns: int) -> Any:
    return np.random.default_rng(0).random((rows, columns))


def squares(rows: int, columns: int) -> Any:
    """Squared distances of points in 8 dimensions."""
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, 8)), rng.random((columns, 8))
    return ((a[:, None] - b) ** 2).sum(-1)


def attention(rows: int, columns: int) -> Any:
    """Minus the scores of queries and keys of width 64, from 0 on; some keys are popular with all queries."""
    rng = np.random.default_rng(0)
    scores = (1 + rng.standard_normal((rows, 64))) @ rng.standard_normal((64, columns)) / 8
    return scores.max() - scores


def integers(rows: int, columns: int) -> Any:
    """Whole numbers from 1 to 99, among which most are equal to many others."""
    return np.random.default_rng(0).integers(1, 100, (rows, columns)).astype(float)


@dataclass(frozen=True)
class Problem:
    """Whole sums of `rows`, those of columns from `low` to `high`; pairs at most `cap`, where it is not 0."""

    steps: Any
    unit: float
    rows: Any
    low: Any
    high: Any
    cap: int
    call: Callable[[], Any]

    @property
    def costs(self) -> Any:
        return self.steps * self.unit


def drawn(make: Callable[[int, int], Any], rule: str, shape: tuple[int, int]) -> Problem:
    n, m = shape
    costs = make(n, m)
    unit = 1.0 if make is integers else costs.max() / STEPS
    steps = np.rint(costs / unit).astype(np.int64)
    rng = np.random.default_rng(1)
    a = np.full(n, 4) if rule == "pair caps" else np.ones(n, np.int64)
    if rule in ("masses", "bounds"):
        a = rng.integers(1, 9, n)
    total = int(a.sum())
    if rule == "masses":
        b = np.bincount(rng.integers(0, m, total), minlength=m)
        call = partial(otattn.ot.emd, a.astype(float), b.astype(float), steps * unit)
        return Problem(steps, unit, a, b, b, 0, call)
    # Even masses of columns, whose half is whole but for the 1 of a square problem with caps.
    b = np.full(m, 1 if total == m else total // m // 2 * 2)
    least, most = 0.5 if rule == "bounds" else 0.0, 2.0 if total == m else 1.5
    cap = PAIR_CAP if rule == "pair caps" else 0
    method = f"hard/bounded:{least},{most}" if least else f"hard/capped:{most}"
    call = partial(
        otattn.coupling,
        steps * unit,
        method=f"{method}{{entry_cap={cap}}}" if cap else method,
        cost=True,
        row_mass=a.astype(float),
        column_mass=b.astype(float),
    )
    return Problem(steps, unit, a, (least * b).astype(np.int64), (most * b).astype(np.int64), cap, call)


def by_highs(problem: Problem) -> Callable[[], Any]:
    n, m = problem.steps.shape
    pair, one = np.arange(n * m), np.ones(n * m)
    rows = sparse.csr_array((one, (pair // m, pair)), shape=(n, n * m))
    columns = sparse.csr_array((one, (pair % m, pair)), shape=(m, n * m))
    equal = np.array_equal(problem.low, problem.high)
    costs, bounds = problem.costs.ravel(), (0, problem.cap or None)
    matrix = sparse.vstack([rows, columns]) if equal else rows
    sums = np.concatenate([problem.rows, problem.high]) if equal else problem.rows
    upper = None if equal else sparse.vstack([columns, -columns])
    limits = None if equal else np.concatenate([problem.high, -problem.low])

    def run() -> Any:
        found = optimize.linprog(
            costs, A_eq=matrix, b_eq=sums, A_ub=upper, b_ub=limits, bounds=bounds, method="highs"
        )
        return found.x.reshape(n, m)

    return run


def by_flow(problem: Problem) -> Callable[[], Any]:
    """Rows are sources, columns send on what is above their least to one sink."""
    n, m = problem.steps.shape
    node = np.arange(n + m)
    tail, head = np.repeat(node[:n], m), np.tile(node[n:], n)
    most = np.minimum(problem.rows[:, None], problem.high)
    most = (np.minimum(most, problem.cap) if problem.cap else most).ravel()
    costs = problem.steps.ravel()
    spare, left = problem.high - problem.low, problem.rows.sum() - problem.low.sum()
    supplies = np.concatenate([problem.rows, -problem.low, [-left]])

    def run() -> Any:
        flow = min_cost_flow.SimpleMinCostFlow()
        arcs = flow.add_arcs_with_capacity_and_unit_cost(tail, head, most, costs)
        if left:
            flow.add_arcs_with_capacity_and_unit_cost(node[n:], np.full(m, n + m), spare, 0 * spare)
        nodes = n + m + (left > 0)
        flow.set_nodes_supplies(np.arange(nodes), supplies[:nodes])
        if flow.solve() != flow.OPTIMAL:
            raise ValueError("OR-Tools found no optimum")
        return flow.flows(arcs).reshape(n, m)

    return run


def by_pot(problem: Problem) -> Callable[[], Any]:
    a, b, costs = problem.rows.astype(float), problem.high.astype(float), problem.costs
    return lambda: ot.emd(a, b, costs, numItermax=100_000_000)


PEERS: dict[str, Callable[[Problem], Callable[[], Any]]] = {
    "HiGHS": by_highs,
    "OR-Tools": by_flow,
    "POT": by_pot,
}


def prepare(make: Callable[[int, int], Any], rule: str, peer: str, shape: tuple[int, int]) -> Prepared:
    problem = drawn(make, rule, shape)
    costs = problem.costs

    def beyond(plan: Any) -> float:
        columns = plan.sum(0)
        return float(
            max(
                np.abs(plan.sum(1) - problem.rows).max(),
                (problem.low - columns).max(),
                (columns - problem.high).max(),
                plan.max() - problem.cap if problem.cap else 0.0,
                -plan.min(),
            )
        )

    def error(mine: Any, other: Any) -> float:
        """Of the optimum, and of what the plans have beyond their bounds."""
        best = float((other * costs).sum())
        return max(abs(float((mine * costs).sum()) - best) / best, beyond(mine), beyond(other))

    return problem.call, PEERS[peer](problem), error


KINDS = {"uniform": uniform, "squares": squares, "attention": attention, "integers": integers}
RULES = ("masses", "caps", "bounds", "pair caps")
ROWS = [
    Pair(
        f"transport, {rule}, {kind}",
        f"{n}x{m}",
        peer,
        lambda kind=kind, rule=rule, peer=peer, n=n, m=m: prepare(KINDS[kind], rule, peer, (n, m)),
        # Least costs within the tolerance of HiGHS.
        1e-7 if peer == "HiGHS" else 1e-9,
    )
    for rule in RULES
    for kind in KINDS
    for n, m in SHAPES
    for peer in PEERS
    if n * m <= SLOW.get(peer, n * m) and (peer != "POT" or rule == "masses")
]
