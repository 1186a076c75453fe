"""Rows that take k columns at the least cost under bounds on loads, against a linear program solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import spec
from otattn._bounded import assign_bounded, solve_bounded


def optimum(cost: Any, k: int, lower: Any, upper: Any) -> float | None:
    """The least cost by SciPy's HiGHS, whose vertices are whole, or None where nothing meets the bounds."""
    optimize = pytest.importorskip("scipy.optimize")
    n, m = cost.shape
    allowed = np.isfinite(cost).ravel()
    rows = np.kron(np.eye(n), np.ones((1, m)))
    columns = np.kron(np.ones((1, n)), np.eye(m))
    found = optimize.linprog(
        np.where(allowed, cost.ravel(), 0.0),
        A_ub=np.vstack([columns, -columns]),
        b_ub=np.concatenate([upper, -np.asarray(lower)]),
        A_eq=rows,
        b_eq=np.full(n, k),
        bounds=[(0, 1) if pair else (0, 0) for pair in allowed],
        method="highs",
    )
    assert found.status in (0, 2), found.message
    return float(found.fun) if found.status == 0 else None


def check(cost: Any, k: int, lower: Any, upper: Any, found: Any) -> None:
    """An admissible answer whose prices prove it."""
    n, m = cost.shape
    chosen = found.columns
    assert chosen.shape == (n, k)
    assert (np.diff(chosen, axis=1) > 0).all()
    loads = np.bincount(chosen.ravel(), minlength=m)
    assert (loads == found.loads).all()
    assert (loads >= lower).all()
    assert (loads <= upper).all()
    total = np.take_along_axis(cost, chosen, 1).sum()
    size = np.abs(cost[np.isfinite(cost)]).sum() + np.abs(found.prices).sum() * n
    assert abs(found.cost - total) <= 1e-13 * size
    prices = found.prices
    least = np.sort(cost + prices, axis=1)[:, :k].sum()
    proved = least - np.where(prices > 0, prices * np.minimum(upper, n), prices * lower).sum()
    assert abs(proved - total) <= 1e-13 * size
    assert abs(found.dual - proved) <= 1e-13 * size


def problem(rng: Any) -> tuple[Any, int, Any, Any]:
    """A small problem of any kind: ties, forbidden pairs, equal bounds, k up to the number of columns."""
    n, m = int(rng.integers(1, 12)), int(rng.integers(1, 8))
    k = int(rng.integers(1, m + 1))
    kind = rng.integers(4)
    if kind == 0:
        cost = rng.standard_normal((n, m))
    elif kind == 1:
        cost = rng.integers(0, 3, (n, m)).astype(float)
    elif kind == 2:
        cost = np.full((n, m), 1.5)
    else:
        cost = rng.standard_normal((n, 1)) * rng.standard_normal((1, m))
    if rng.random() < 0.4:
        cost[rng.random((n, m)) < 0.25] = np.inf
    share = n * k / m
    lower = np.maximum(np.floor(share - rng.integers(0, 3, m)), 0).astype(int)
    upper = np.ceil(share + rng.integers(0, 3, m)).astype(int)
    if rng.random() < 0.3:
        # Loads of some assignment, so that both bounds are equal and can be met where all pairs are allowed.
        picks = rng.random((n, m)).argsort(axis=1)[:, :k]
        lower = upper = np.bincount(picks.ravel(), minlength=m)
    return cost, k, lower, upper


def test_a_thousand_small_problems_have_the_optimum_of_highs() -> None:
    rng = np.random.default_rng(19)
    infeasible = 0
    for _ in range(1000):
        cost, k, lower, upper = problem(rng)
        best = optimum(cost, k, lower, upper)
        if best is None:
            infeasible += 1
            with pytest.raises(otattn.Infeasible):
                solve_bounded(cost, k, lower, upper)
            continue
        found = solve_bounded(cost, k, lower, upper)
        check(cost, k, lower, upper, found)
        spec.check("LIT-06", abs(found.cost - best), 1e-10 * max(1.0, np.abs(cost[np.isfinite(cost)]).sum()))
    assert 20 <= infeasible <= 500


@pytest.mark.parametrize("kind", ["uniform", "ties", "one favourite", "forbidden", "f32"])
@pytest.mark.parametrize(("n", "m", "k"), [(3000, 20, 1), (2000, 70, 3), (5000, 6, 5)])
def test_prices_prove_larger_answers(kind: str, n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(n + k)
    cost = rng.random((n, m))
    if kind == "ties":
        cost = np.floor(4 * cost)
    elif kind == "one favourite":
        cost[:, 0] -= 10.0
    elif kind == "forbidden":
        cost[rng.random((n, m)) < 0.2] = np.inf
    elif kind == "f32":
        cost = cost.astype(np.float32)
    # Short rows of forbidden pairs would make the problem infeasible.
    cost[:, : k + 1] = np.where(np.isinf(cost[:, : k + 1]), 2.0, cost[:, : k + 1])
    lower = np.full(m, n * k // m - 2)
    upper = np.full(m, -(-n * k // m) + 2)
    found = solve_bounded(cost, k, lower, upper)
    check(cost.astype(float), k, lower, upper, found)
    again = solve_bounded(cost, k, lower, upper, start=found.prices)
    assert again.paths <= found.paths
    check(cost.astype(float), k, lower, upper, again)


def test_points_cost_their_squared_distances() -> None:
    rng = np.random.default_rng(7)
    points, centres = rng.standard_normal((4000, 5)), rng.standard_normal((12, 5))
    cost = ((points[:, None] - centres) ** 2).sum(2)
    lower, upper = np.full(12, 300), np.full(12, 340)
    found = solve_bounded(points=points, centres=centres, lower=lower, upper=upper)
    check(cost, 1, lower, upper, found)
    narrow = solve_bounded(points=points.astype(np.float32), centres=centres, lower=lower, upper=upper)
    assert abs(narrow.cost - found.cost) <= 1e-5 * found.cost


def test_any_number_of_threads_gives_the_same_answer() -> None:
    rng = np.random.default_rng(3)
    points, centres = rng.standard_normal((20000, 8)), rng.standard_normal((30, 8))
    answers = []
    for count in (1, 2, 3):
        with otattn.threads(count):
            answers.append(solve_bounded(points=points, centres=centres, upper=700))
    for other in answers[1:]:
        assert (other.columns == answers[0].columns).all()
        assert (other.prices == answers[0].prices).all()
        assert other.cost == answers[0].cost


def test_strides_are_read_where_they_are() -> None:
    rng = np.random.default_rng(4)
    wide = rng.random((60, 18))
    view = wide[::2, ::-3]
    columns, prices = assign_bounded(view, 2, 10, 10)
    same, again = assign_bounded(view.copy(), 2, 10, 10)
    assert (columns == same).all()
    assert (prices == again).all()


def test_nothing_to_assign() -> None:
    found = solve_bounded(np.empty((0, 3)), 2)
    assert found.columns.shape == (0, 2)
    assert found.cost == found.dual == 0.0
    assert (found.loads == 0).all()


REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (np.zeros(3), {}, ValueError, "cost has shape"),
    (np.zeros((2, 2)), {"k": 3}, ValueError, "k is 3, wanted 1 to 2"),
    (np.zeros((2, 2)), {"k": 0}, ValueError, "k is 0, wanted 1 to 2"),
    (np.zeros((2, 2)), {"k": 1.5}, TypeError, "k is 1.5"),
    (np.zeros((2, 2)), {"lower": [1, 2, 3]}, ValueError, "lower has shape"),
    (np.zeros((2, 2)), {"upper": 0.5}, TypeError, "upper has type float64"),
    (np.zeros((2, 2)), {"lower": 2, "upper": 1}, ValueError, r"upper\[0\] is 1, below lower\[0\] = 2"),
    (np.zeros((2, 2)), {"lower": -1}, ValueError, r"lower\[0\] is -1"),
    (np.zeros((2, 2)), {"start": [0.0, np.nan]}, ValueError, r"start\[1\] is nan"),
    (np.zeros((4, 2)), {"upper": 1}, otattn.Infeasible, "take 4 units and the columns have room for 2"),
    (np.zeros((1, 2)), {"lower": 1}, otattn.Infeasible, "take 1 units and the columns need at least 2"),
    (np.array([[0.0, np.nan]]), {}, otattn.NotFinite, r"costs\[0,1\] is nan"),
    (np.array([[0.0, -np.inf]]), {}, otattn.NotFinite, r"costs\[0,1\] is -inf"),
    (np.array([[0.0, 1e300]]), {}, ValueError, r"costs\[0,1\] is 1e\+300"),
    (np.array([[0.0, np.inf]]), {"k": 2}, otattn.Infeasible, "row 0 may use 1 columns and takes 2"),
    (np.array([["a"]]), {}, TypeError, "cost has type"),
]


@pytest.mark.parametrize(("cost", "arguments", "kind", "sentence"), REFUSED)
def test_one_sentence_says_what_is_wrong(
    cost: Any, arguments: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        solve_bounded(cost, **arguments)


def test_infeasible_pairs_name_their_columns() -> None:
    cost = np.zeros((6, 4))
    cost[:5, [0, 2]] = np.inf
    with pytest.raises(
        otattn.Infeasible, match=r"columns 1, 3 at least 5 units, and together they may take 4"
    ):
        solve_bounded(cost, upper=2)
    with pytest.raises(otattn.Infeasible, match=r"columns 0, 2 at most 1 units, and together they need 2"):
        solve_bounded(cost, lower=1)
