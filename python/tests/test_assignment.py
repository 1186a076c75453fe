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
