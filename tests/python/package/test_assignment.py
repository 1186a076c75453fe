"""otattn.linear_sum_assignment against SciPy's."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import otattn
import pytest
import spec
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment


@given(
    st.integers(1, 14),
    st.integers(1, 14),
    st.integers(0, 2**32),
    st.booleans(),
    st.sampled_from(["f8", "i8", "f4", "?"]),
)
def test_same_cost_as_scipy(rows: int, columns: int, seed: int, maximize: bool, kind: str) -> None:
    cost = (10 * np.random.default_rng(seed).standard_normal((rows, columns))).astype(kind)
    i, j = otattn.linear_sum_assignment(cost, maximize=maximize)
    k, l = linear_sum_assignment(cost, maximize)
    assert i.shape == j.shape == k.shape and (np.diff(i) > 0).all() and len(set(j.tolist())) == len(j)
    exact = cost.astype(np.float64)
    spec.check("ELA-14", abs(exact[i, j].sum() - exact[k, l].sum()), 1e-12 * np.abs(exact).sum())


KINDS = {
    "uniform": lambda rng, n, m: rng.random((n, m)),
    "ties": lambda rng, n, m: np.floor(5 * rng.random((n, m))),
    "points": lambda rng, n, m: ((rng.random((n, 1, 2)) - rng.random((1, m, 2))) ** 2).sum(2),
    "products": lambda rng, n, m: np.outer(1 + np.arange(n), 1 + np.arange(m)),
    "constant": lambda rng, n, m: np.full((n, m), 3.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape",
    [(1, 128), (127, 128), (128, 128), (129, 128), (300, 1), (100, 400), (400, 100), (280, 300), (300, 300)],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_shapes_beyond_the_first_candidates(
    kind: str, shape: tuple[int, int], dtype: str, forbidden: float
) -> None:
    rng = np.random.default_rng(7)
    cost = KINDS[kind](rng, *shape).astype(dtype)
    cost[rng.random(shape) < forbidden] = np.inf
    try:
        k, l = linear_sum_assignment(cost)
    except ValueError:
        with pytest.raises(ValueError, match="infeasible"):
            otattn.linear_sum_assignment(cost)
        return
    exact = cost.astype(np.float64)
    for seen in (cost, np.asfortranarray(cost), np.repeat(cost, 2, 1)[:, ::2]):
        i, j = otattn.linear_sum_assignment(seen)
        assert (np.diff(i) > 0).all() and len(set(j.tolist())) == len(j) == min(shape)
        spec.check("ELA-14", abs(exact[i, j].sum() - exact[k, l].sum()), 1e-12 * exact[k, l].sum() + 1e-12)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32))
def test_forbidden_pairs(rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.random((rows, columns))
    cost[rng.random((rows, columns)) < 0.4] = np.inf
    try:
        k, l = linear_sum_assignment(cost)
    except ValueError:
        with pytest.raises(ValueError, match="infeasible"):
            otattn.linear_sum_assignment(cost)
        return
    i, j = otattn.linear_sum_assignment(cost)
    assert abs(cost[i, j].sum() - cost[k, l].sum()) <= 1e-12


def test_rows_and_columns_of_forbidden_pairs() -> None:
    inf = np.inf
    for cost in (
        [[inf, inf]],
        [[inf], [inf]],
        [[1, inf], [2, inf]],
        [[inf, inf], [1, 2]],
        [[1, 2], [inf, inf], [inf, inf]],
    ):
        with pytest.raises(ValueError, match="infeasible"):
            otattn.linear_sum_assignment(cost)


def test_edges() -> None:
    assert [len(x) for x in otattn.linear_sum_assignment(np.empty((0, 4)))] == [0, 0]
    for bad in (np.ones(3), np.array([[np.nan]]), np.array([[-np.inf]])):
        with pytest.raises(ValueError):
            otattn.linear_sum_assignment(bad)


def best(cost: np.ndarray) -> Fraction:
    """The least sum over all matchings, exact."""
    rows, columns = cost.shape
    if rows > columns:
        return best(cost.T)
    exact = [[Fraction(float(x)) for x in row] for row in cost]
    return min(
        sum((exact[i][j] for i, j in enumerate(chosen)), Fraction(0))
        for chosen in itertools.permutations(range(columns), rows)
    )


def blocked(rng: np.random.Generator) -> np.ndarray:
    """Costs of which some, a row or a column are up to 1e300 times others."""
    rows, columns = rng.integers(1, 6, 2)
    columns = rows if rng.random() < 0.5 else columns
    cost = rng.random((rows, columns)) if rng.random() < 0.5 else rng.integers(0, 6, (rows, columns)) * 1.0
    kind = rng.choice(["f4", "f8"])
    powers = [9, 12, 15, 16, 17, 30, 38] if kind == "f4" else [9, 15, 16, 17, 38, 100, 300]
    large = 10.0 ** rng.choice(powers, size=(rows, columns) if rng.random() < 0.5 else 1)
    return np.where(rng.random((rows, columns)) < rng.choice([0.1, 0.3, 0.6, 0.8]), large, cost).astype(kind)


def test_costs_that_dwarf_others() -> None:
    rng = np.random.default_rng(5)
    matrices = [blocked(rng) for _ in range(300)]
    # Beside two rows that must pay 1e100 the others' differences are lost where a row's least is taken off.
    far = 1e100
    matrices.append(np.array([[far, far, 5, 5], [far, far, 5, 4], [4, far, 4, 5], [far, far, 3, 1]]))
    found = otattn.linear_sum_assignment(matrices)
    for cost, ragged in zip(matrices, found, strict=True):
        wanted = best(cost)
        for i, j in (
            ragged,
            otattn.linear_sum_assignment(cost),
            otattn.linear_sum_assignment(-cost, maximize=True),
            [x[0] for x in otattn.linear_sum_assignment(np.stack([cost, cost]))],
        ):
            assert sum((Fraction(float(x)) for x in cost[i, j]), Fraction(0)) == wanted
        if cost.dtype == np.float64 and cost.shape[0] <= cost.shape[1]:
            rule = "exact" if cost.shape[0] == cost.shape[1] else "capped:1"
            plan = otattn.coupling(cost, method=f"hard/{rule}", cost=True)
            pairs = plan.nonzero()
            assert sum((Fraction(float(x)) for x in cost[pairs]), Fraction(0)) == wanted


@pytest.mark.parametrize("shape", [(40, 40), (460, 460), (60, 90), (1460, 1460)])
def test_large_costs_that_dwarf_others(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    cost = rng.random(shape)
    chance = rng.random(shape) < 0.3
    for large in (1e9, 1e17, 1e300) if shape[0] < 1000 else (1e17,):
        for where in (chance, np.arange(shape[0])[:, None] % 19 == 3, np.arange(shape[1]) % 19 == 3):
            given = np.where(where, large, cost)
            # What the pairs cost apart from how many of the large ones there are.
            i, j = otattn.linear_sum_assignment(given)
            k, l = linear_sum_assignment(np.where(where, 1000.0, cost))
            seen = np.where(where, 0.0, cost)
            assert (given[i, j] == large).sum() == (given[k, l] == large).sum()
            spec.check("ELA-14", abs(seen[i, j].sum() - seen[k, l].sum()), 1e-9)


@pytest.mark.parametrize("shape", [(8, 8), (40, 40), (5, 9), (9, 5), (1460, 1460)])
def test_equal_costs_give_the_identity(shape: tuple[int, int]) -> None:
    cost = np.full(shape, 3.0)
    wanted = np.arange(min(shape))
    for i, j in (otattn.linear_sum_assignment(cost), otattn.linear_sum_assignment(cost, maximize=True)):
        assert np.array_equal(i, wanted) and np.array_equal(j, wanted)
    if shape == (40, 40):
        plan = otattn.coupling(cost, method="hard/exact", cost=True)
        assert np.array_equal(plan, np.eye(40))


@pytest.mark.parametrize("cost", [[["a"]], np.array([[object()]]), [[1j]]])
def test_costs_that_are_no_numbers(cost: object) -> None:
    with pytest.raises(TypeError, match="Cannot cast array data of cost_matrix"):
        otattn.linear_sum_assignment(cost)


def test_capped_and_bounded_plans_beside_large_costs() -> None:
    rng = np.random.default_rng(2)
    for _ in range(120):
        cost = blocked(rng).astype(np.float64)
        rows, columns = cost.shape
        most = -(-rows // columns) + int(rng.integers(0, 2))
        least = int(rng.integers(0, rows // columns + 1))
        sink = float(rng.random()) if rng.random() < 0.3 else -np.inf
        exact = [
            [*map(Fraction, row), Fraction(-sink) if sink > -np.inf else Fraction(10) ** 400]
            for row in cost.tolist()
        ]
        wanted = min(
            sum((exact[i][j] for i, j in enumerate(chosen)), Fraction(0))
            for chosen in itertools.product(range(columns + 1), repeat=rows)
            if all(least <= chosen.count(j) <= most for j in range(columns))
        )
        method = f"hard/bounded:{least},{most}" if least > 0 else f"hard/capped:{most}"
        masses = {"row_mass": np.ones(rows), "column_mass": np.ones(columns)}
        plan, aux = otattn.coupling(cost, method=method, cost=True, sink=sink, return_aux=True, **masses)
        found = sum((Fraction(float(x)) for x in cost[plan > 0]), Fraction(0))
        left = round(rows - plan.sum())
        assert found + (left * Fraction(-sink) if left else 0) == wanted and set(plan.ravel()) <= {0.0, 1.0}
        assert abs(aux.certificate.gap) <= 1e-12 * (1.0 + abs(float(wanted)))
