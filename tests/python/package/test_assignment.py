"""otattn.linear_sum_assignment against SciPy's."""

from __future__ import annotations

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
    for bad in (np.ones(3), np.array([[np.nan]]), np.array([[-np.inf]]), np.array([["a"]])):
        with pytest.raises(ValueError):
            otattn.linear_sum_assignment(bad)
