"""The k cheapest matchings and those whose dearest pair is cheapest, against all of small problems."""

from __future__ import annotations

import itertools

import numpy as np
import otattn
import pytest
import spec
from scipy.optimize import linear_sum_assignment


def matchings(cost: np.ndarray) -> list[tuple[float, float]]:
    """The sum and the dearest pair of each."""
    if cost.shape[0] > cost.shape[1]:
        cost = cost.T
    found = []
    for columns in itertools.permutations(range(cost.shape[1]), cost.shape[0]):
        own = cost[range(len(columns)), columns]
        if np.isfinite(own).all():
            found.append((float(own.sum()), float(own.max(initial=-np.inf))))
    return found


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5), (5, 3), (5, 5), (1, 6), (6, 1)])
@pytest.mark.parametrize("kind", ["uniform", "ties", "float32", "sparse"])
def test_against_all_matchings(shape: tuple[int, int], kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        cost = rng.integers(0, 4, shape).astype(float) if kind == "ties" else rng.random(shape)
        cost = cost.astype(np.float32) if kind == "float32" else cost
        if kind == "sparse":
            cost[rng.random(shape) < 0.3] = np.inf
        all_of_them = matchings(cost.astype(float))
        if not all_of_them:
            with pytest.raises(ValueError, match="cost matrix is infeasible"):
                otattn.k_best_assignments(cost, 3)
            with pytest.raises(ValueError, match="cost matrix is infeasible"):
                otattn.bottleneck_assignment(cost)
            continue
        sums = np.sort([x[0] for x in all_of_them])
        for k in (1, 7, 1000):
            best = otattn.k_best_assignments(cost, k, certificate=True)
            assert best.bound is not None and len(best.value) == min(k, len(sums))
            spec.check("ELA-14", np.abs(best.value - sums[:k]).max(), 1e-14)
            spec.check("ELA-14", np.abs(best.value - best.bound).max(), 1e-14)
            assert len(
                {(*i, *j) for i, j in zip(best.rows.tolist(), best.columns.tolist(), strict=True)}
            ) == len(best.value)
            spec.check(
                "ELA-14", np.abs(cost[best.rows, best.columns].sum(-1, dtype=float) - best.value).max(), 1e-14
            )
        narrow = otattn.bottleneck_assignment(cost)
        assert narrow.value == narrow.bound == min(x[1] for x in all_of_them)
        assert cost[narrow.rows, narrow.columns].max() == narrow.value
        dear = otattn.bottleneck_assignment(-cost, maximize=True)
        assert dear.value == -narrow.value and np.array_equal(dear.columns, narrow.columns)
        falling = otattn.k_best_assignments(-cost, 7, maximize=True)
        spec.check("ELA-14", np.abs(falling.value + sums[:7]).max(), 1e-14)


def test_a_larger_one_with_any_strides() -> None:
    cost = np.random.default_rng(0).random((90, 70))
    best = otattn.k_best_assignments(cost, 20, certificate=True)
    i, j = linear_sum_assignment(cost)
    assert np.array_equal(best.rows[0], i) and np.array_equal(best.columns[0], j)
    assert (np.diff(best.value) >= 0).all() and best.bound is not None
    spec.check("ELA-14", np.abs(best.value - best.bound).max(), 1e-12)
    for other in (cost[::-1], np.asfortranarray(cost), cost.tolist(), cost[:, ::-1]):
        spec.check("ELA-14", np.abs(otattn.k_best_assignments(other, 20).value - best.value).max(), 1e-13)
        assert otattn.bottleneck_assignment(other).value == otattn.bottleneck_assignment(cost).value
    narrow = otattn.bottleneck_assignment(cost)
    # The columns are the shorter side.
    assert narrow.marked_columns.sum() > narrow.marked_rows.sum()
    assert cost[np.ix_(~narrow.marked_rows, narrow.marked_columns)].min() == narrow.bound == narrow.value


def test_what_is_refused() -> None:
    good = np.eye(3)
    for k, sentence in ((0, "k is 0"), (-2, "k is -2")):
        with pytest.raises(ValueError, match=sentence):
            otattn.k_best_assignments(good, k)
    with pytest.raises(TypeError, match="k is"):
        otattn.k_best_assignments(good, 2.5)  # type: ignore[arg-type]
    for call in (lambda x: otattn.k_best_assignments(x, 2), otattn.bottleneck_assignment):
        with pytest.raises(ValueError, match="2-D"):
            call(np.zeros(3))
        with pytest.raises(ValueError, match="invalid numeric entries: costs holds NaN or -inf"):
            call(np.array([[np.nan, 1.0], [1.0, 2.0]]))
        with pytest.raises(TypeError, match="wanted numbers"):
            call([["a"]])
    assert otattn.k_best_assignments(np.zeros((0, 4)), 5).value.tolist() == [0.0]
    assert otattn.bottleneck_assignment(np.zeros((4, 0))).value == -np.inf
