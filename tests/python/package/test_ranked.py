"""The k cheapest matchings and those whose dearest pair is cheapest, against all of small problems."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import otattn
import pytest
import spec
import torch
from scipy.optimize import linear_sum_assignment
from torch.utils.flop_counter import FlopCounterMode


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


def partial_matchings(cost: np.ndarray, limit: float) -> list[tuple[float, int, float]]:
    """The sum with the limit for what is left out, the pairs, and the dearest pair of each."""
    if cost.shape[0] > cost.shape[1]:
        cost = cost.T
    found = []

    def go(i: int, taken: tuple[int, ...], own: tuple[float, ...]) -> None:
        if i == len(cost):
            left_out = len(cost) - len(own)
            found.append((sum(own) + limit * left_out, len(own), max(own, default=-np.inf)))
            return
        go(i + 1, taken, own)
        for j, c in enumerate(cost[i].tolist()):
            if j not in taken and c < limit:
                go(i + 1, (*taken, j), (*own, c))

    go(0, (), ())
    return found


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4), (4, 3), (4, 4)])
@pytest.mark.parametrize("limit", [0.1, 0.35, 0.7, 2.0, -0.5])
def test_limits_against_all_matchings(shape: tuple[int, int], limit: float) -> None:
    cost = np.random.default_rng(7).random((6, *shape)) - (0.9 if limit < 0.0 else 0.0)
    cost[1, 0] = np.inf
    for one in cost:
        every = sorted(partial_matchings(one, limit))
        sums, most = np.array([x[0] for x in every]), max(x[1] for x in every)
        for k in (1, 9, 1000):
            best = otattn.k_best_assignments(one, k, cost_limit=limit, certificate=True)
            assert best.found == len(best.value) == min(k, len(every))
            pairs = (best.rows >= 0).sum(-1)
            total = best.value + limit * (min(shape) - pairs)
            spec.check("ELA-14", np.abs(total - sums[:k]).max(), 1e-14)
            spec.check("ELA-14", np.abs(total - best.bound).max(), 1e-14)
        i, j = otattn.linear_sum_assignment(one, cost_limit=limit)
        assert np.array_equal(best.columns[0][: len(i)], j)
        narrow = otattn.bottleneck_assignment(one, cost_limit=limit)
        assert len(narrow.rows) == most == narrow.covered_rows.sum() + narrow.covered_columns.sum()
        assert narrow.value == narrow.bound == min(x[2] for x in every if x[1] == most)
        assert (narrow.covered_rows[:, None] | narrow.covered_columns | ~(one < limit)).all()


def test_a_limit_beside_scipy() -> None:
    """SciPy's matching of the matrix with a column of its own for every row."""
    cost = np.random.default_rng(1).random((40, 30))
    best = otattn.k_best_assignments(cost, 5, cost_limit=0.08, certificate=True)
    wide = np.hstack([np.where(cost.T < 0.08, cost.T, 1e3), np.where(np.eye(30) > 0, 0.08, 1e3)])
    i, j = linear_sum_assignment(wide)
    pairs = (best.rows >= 0).sum(-1)
    spec.check("ELA-14", abs(best.value[0] + 0.08 * (30 - pairs[0]) - wide[i, j].sum()), 1e-13)
    assert pairs[0] == (j < 40).sum() < 30


@pytest.mark.parametrize("limit", [None, 0.3])
@pytest.mark.parametrize("double", [True, False])
def test_batches_and_tensors(limit: float | None, double: bool) -> None:
    """What each is alone; tensors come of tensors."""
    rng = np.random.default_rng(2)
    stack = rng.random((7, 4, 6)).astype(np.float64 if double else np.float32)
    many = [rng.random((n, m)) for n, m in ((3, 3), (2, 5), (4, 1), (0, 3))]
    call = functools.partial(otattn.k_best_assignments, k=4, cost_limit=limit, certificate=True)
    for other in (stack, stack[::-1], np.asfortranarray(stack)):
        ranked, narrow = call(other), otattn.bottleneck_assignment(other, cost_limit=limit)
        for p, one in enumerate(other):
            alone, own = call(one), otattn.bottleneck_assignment(one, cost_limit=limit)
            assert ranked.found[p] == alone.found
            for x, y in zip(ranked[:4], alone[:4], strict=True):
                assert np.array_equal(x[p][: alone.found], y)
                assert np.all(np.isnan(x[p][alone.found :]) | (x[p][alone.found :] == -1))
            assert narrow.value[p] == narrow.bound[p] == own.value
            assert np.array_equal(narrow.rows[p][: len(own.rows)], own.rows)
            assert (narrow.rows[p][len(own.rows) :] == -1).all()
            for x, y in zip(narrow[4:], own[4:], strict=True):
                assert np.array_equal(x[p], y)
    tensor = torch.from_numpy(stack).requires_grad_()
    for a, b in ((call(stack), call(tensor)), (call(stack[0]), call(tensor[0]))):
        for x, y in zip(a, b, strict=True):
            assert np.array_equal(x, y.numpy() if isinstance(y, torch.Tensor) else y)
        assert isinstance(b.rows, torch.Tensor) and isinstance(b.value, torch.Tensor)
    assert isinstance(otattn.bottleneck_assignment(tensor).value, torch.Tensor)
    assert isinstance(otattn.bottleneck_assignment(tensor[0]).value, float)
    for x, y in zip(many, call(many), strict=True):
        alone = call(x)
        assert np.array_equal(alone.columns, y.columns) and np.array_equal(alone.bound, y.bound)
    for x, z in zip(many, otattn.bottleneck_assignment(many, cost_limit=limit), strict=True):
        own = otattn.bottleneck_assignment(x, cost_limit=limit)
        assert own.value == z.value and np.array_equal(own.covered_rows, z.covered_rows)
    tensors = otattn.k_best_assignments([torch.from_numpy(x) for x in many], 2)
    assert all(isinstance(x.rows, torch.Tensor) for x in tensors)
    mixed = [many[0], torch.from_numpy(many[1]), torch.from_numpy(many[1]).bfloat16()]
    for first in (mixed, mixed[::-1]):
        assert all(isinstance(x.rows, torch.Tensor) for x in otattn.k_best_assignments(first, 2))
        assert all(isinstance(x.rows, torch.Tensor) for x in otattn.bottleneck_assignment(first))
        assert all(isinstance(x, torch.Tensor) for x, _ in otattn.linear_sum_assignment(first))
    assert not call(tensor).value.requires_grad and not call(tensor[0]).bound.requires_grad
    assert otattn.k_best_assignments(stack[:0], 3).value.shape[0] == 0
    assert otattn.bottleneck_assignment(stack[:0]).rows.shape == (0, 4)


def test_threads_change_nothing() -> None:
    stack = np.random.default_rng(4).random((40, 40, 40))
    with otattn.threads(1):
        alone = otattn.k_best_assignments(stack, 40)
    with otattn.threads(3):
        found = otattn.k_best_assignments(stack, 40)
    assert np.array_equal(alone.columns, found.columns) and np.array_equal(alone.value, found.value)


def test_as_operators() -> None:
    """Where torch looks on: the same numbers, as tensors."""
    x = torch.rand(3, 4, 5, dtype=torch.float64)
    ranked, narrow = otattn.k_best_assignments(x, 3), otattn.bottleneck_assignment(x[0], cost_limit=0.4)
    with FlopCounterMode(display=False):
        seen, other = otattn.k_best_assignments(x, 3), otattn.bottleneck_assignment(x[0], cost_limit=0.4)
    assert torch.equal(ranked.columns, seen.columns) and torch.equal(ranked.value, seen.value)
    assert torch.equal(narrow.columns, other.columns) and float(other.value) == narrow.value
    compiled = torch.compile(
        lambda y: otattn.k_best_assignments(y, 3).value * 2.0, fullgraph=True, backend="eager"
    )
    assert torch.equal(compiled(x), ranked.value * 2.0)
    compiled = torch.compile(
        lambda y: otattn.bottleneck_assignment(y).value * 2.0, fullgraph=True, backend="eager"
    )
    assert torch.equal(compiled(x), otattn.bottleneck_assignment(x).value * 2.0)


def test_what_is_refused_of_batches() -> None:
    stack = np.random.default_rng(5).random((4, 3, 3))
    stack[2, 1] = np.inf
    for call in (lambda x, **w: otattn.k_best_assignments(x, 2, **w), otattn.bottleneck_assignment):
        with pytest.raises(ValueError, match="infeasible: problem 2: there are no 3 allowed pairs"):
            call(stack)
        with pytest.raises(ValueError, match="cost_limit does not go with maximize"):
            call(stack, maximize=True, cost_limit=1.0)
        with pytest.raises(ValueError, match="cost_limit is -inf"):
            call(stack, cost_limit=-np.inf)
        assert np.isfinite(call(stack, cost_limit=1.0).value).all()
