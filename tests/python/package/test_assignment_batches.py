"""Batches of assignment problems, their limits and proofs, and the names of lap and lapx."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch
from hypothesis import given
from hypothesis import strategies as st
from otattn import lap
from scipy.optimize import linear_sum_assignment


def same(found: Any, wanted: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@given(st.integers(0, 6), st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32), st.booleans())
def test_batches_are_loops(batch: int, rows: int, columns: int, seed: int, maximize: bool) -> None:
    costs = np.random.default_rng(seed).standard_normal((batch, rows, columns))
    i, j = otattn.linear_sum_assignment(costs, maximize)
    assert i.shape == j.shape == (batch, min(rows, columns)) and i.dtype == j.dtype == np.int64
    for k in range(batch):
        assert same((i[k], j[k]), linear_sum_assignment(costs[k], maximize))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=6), st.integers(0, 2**32))
def test_ragged_and_packed_batches(shapes: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrices = [rng.random(shape) for shape in shapes]
    wanted = [linear_sum_assignment(matrix) for matrix in matrices]
    if matrices:
        found = otattn.linear_sum_assignment(matrices)
        assert len(found) == len(wanted) and all(same(a, b) for a, b in zip(found, wanted, strict=True))
    flat = np.concatenate([x.ravel() for x in matrices]) if matrices else np.empty(0)
    rows, columns = [shape[0] for shape in shapes], [shape[1] for shape in shapes]
    i, j, offsets = otattn.linear_sum_assignment(flat, rows=rows, columns=columns)
    for k, pair in enumerate(wanted):
        assert same((i[offsets[k] : offsets[k + 1]], j[offsets[k] : offsets[k + 1]]), pair)
    assert offsets[-1] == len(i)


def test_threads_and_types_change_nothing() -> None:
    costs = np.random.default_rng(1).random((300, 12, 17)).astype(np.float32)
    first = otattn.linear_sum_assignment(costs, certificate=True)
    for seen in (costs.astype(np.float64), np.asfortranarray(costs), costs[:, :, ::-1][:, :, ::-1]):
        for count in (1, 3):
            with otattn.threads(count):
                again = otattn.linear_sum_assignment(seen, certificate=True)
            assert same(first[:2], again[:2])
            assert np.array_equal(first[2].row_potential, again[2].row_potential)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32), st.booleans())
def test_certificates_prove(rows: int, columns: int, seed: int, maximize: bool) -> None:
    cost = np.random.default_rng(seed).standard_normal((rows, columns))
    i, j, proof = otattn.linear_sum_assignment(cost, maximize, certificate=True)
    spec.check("ELA-14", abs(proof.gap), 1e-12)
    assert abs(proof.value - cost[i, j].sum()) <= 1e-12
    excess = proof.row_potential[:, None] + proof.column_potential - cost
    assert ((-excess if maximize else excess) <= 1e-12).all()


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32), st.floats(-1.0, 2.0))
def test_limits_are_those_of_an_extended_matrix(rows: int, columns: int, seed: int, limit: float) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.standard_normal((rows, columns))
    cost[rng.random(cost.shape) < 0.2] = np.inf
    total = rows + columns
    extended = np.full((total, total), limit / 2)
    extended[rows:, columns:] = 0.0
    extended[:rows, :columns] = np.where(cost < np.inf, cost, 1e6)
    k, l = linear_sum_assignment(extended)
    inside = (k < rows) & (l < columns)
    i, j, proof = otattn.linear_sum_assignment(cost, cost_limit=limit, certificate=True)
    assert same((i, j), (k[inside], l[inside]))
    assert abs(proof.gap) <= 1e-12
    opt, x, y = lap.lapjv(cost, cost_limit=limit)
    assert abs(opt - cost[i, j].sum()) <= 1e-12
    assert same((np.flatnonzero(x >= 0), x[x >= 0]), (i, j)) and (x[y[y >= 0]] >= 0).all()
    batch = otattn.linear_sum_assignment(np.stack([cost, cost]), cost_limit=limit)
    assert (
        same((batch[0][1][: len(i)], batch[1][1][: len(i)]), (i, j)) and (batch[0][1][len(i) :] == -1).all()
    )


def test_names_of_lap() -> None:
    costs = np.random.default_rng(2).random((5, 4, 6))
    for cost in (costs[0], costs[0].T):
        i, j = linear_sum_assignment(cost)
        opt, x, y = lap.lapjv(cost, extend_cost=True)
        assert x.dtype == y.dtype == np.int32 and abs(opt - cost[i, j].sum()) <= 1e-12
        assert (x[i] == j).all() and (y[j] == i).all() and (x >= 0).sum() == (y >= 0).sum() == len(i)
        total, rows, columns = lap.lapjvx(cost, extend_cost=True)
        assert total == opt and same((rows, columns), (i, j))
        assert np.array_equal(lap.lapjvxa(cost, extend_cost=True, return_cost=False), np.stack((i, j), 1))
    totals, rows, columns = lap.lapjvx_batch(costs, extend_cost=True, n_threads=2)
    assert totals.shape == (5,) and same((rows[3], columns[3]), linear_sum_assignment(costs[3]))
    assert same(lap.lapjvxa_batch(costs, extend_cost=True)[1][3].T, linear_sum_assignment(costs[3]))
    with pytest.raises(ValueError, match="pass extend_cost=True"):
        lap.lapjv(costs[0])


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_give_tensors(kind: torch.dtype) -> None:
    costs = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(0)).to(kind)
    i, j, proof = otattn.linear_sum_assignment(costs, certificate=True)
    assert isinstance(i, torch.Tensor) and isinstance(proof.value, torch.Tensor)
    for k in range(3):
        assert same((i[k], j[k]), linear_sum_assignment(costs[k].double()))
    ragged = otattn.linear_sum_assignment([costs[0], costs[1, :2]])
    assert isinstance(ragged[1][0], torch.Tensor) and len(ragged[1][0]) == 2


@pytest.mark.parametrize(
    ("cost", "options", "words"),
    [
        (np.ones((2, 2, 2, 2)), {}, "shape"),
        (np.ones(4), {}, "2-D"),
        (np.full((3, 2, 2), np.nan), {}, "problem 0"),
        (np.array([[[1.0]], [[np.inf]]]), {}, "problem 1"),
        (np.ones(4), {"rows": [2], "columns": [3]}, "has 4 costs, wanted the 6"),
        (np.ones(4), {"rows": [2]}, "give both"),
        (np.ones(4), {"rows": [2, 1], "columns": [2]}, "one of each"),
        (np.ones(4), {"rows": [-2], "columns": [-2]}, "holds -2"),
        (np.ones((2, 2)), {"cost_limit": np.nan}, "cost_limit"),
        (np.ones((2, 2)), {"cost_limit": 1.0, "maximize": True}, "maximize"),
        ([np.ones((2, 2)), np.full((1, 1), np.nan)], {}, "problem 1"),
    ],
)
def test_input_is_refused(cost: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        otattn.linear_sum_assignment(cost, **options)


def test_more_names_of_lapx() -> None:
    rng = np.random.default_rng(31)
    costs = rng.random((5, 4, 7))
    answers = [linear_sum_assignment(c) for c in costs]
    best = [c[i, j].sum() for c, (i, j) in zip(costs, answers, strict=True)]
    for cost, (i, j), value in zip(costs, answers, best, strict=True):
        for solve in (lap.lapjvs, lap.lapjvc, lambda c: lap.lapjvr(c, True), lambda c: lap.lapjvh(c, True)):
            opt, rows, columns = solve(cost)
            assert abs(opt - value) <= 1e-12 and np.array_equal(rows, i) and np.array_equal(columns, j)
        opt, x, y = lap.lapjvs(cost, jvx_like=False)
        assert np.array_equal(x[i], j) and np.array_equal(y[j], i) and (y == -1).sum() == 3
        assert np.array_equal(lap.lapjvsa(cost, return_cost=False), np.stack((i, j), 1))
        pairs = lap.lapjvr(cost, True, return_cost=False, output="pairs")
        assert np.array_equal(pairs, np.stack((i, j), 1)) and pairs.dtype == np.int64
        limit = float(np.median(cost[i, j]))
        opt, rows, columns = lap.lapjvr(cost, cost_limit=limit)
        theirs = lap.lapjvx(cost, cost_limit=limit)
        assert opt == theirs[0] and np.array_equal(columns, theirs[2]) and columns.dtype == np.int64
    totals, rows, columns = lap.lapjvs_batch(costs, True, n_threads=2)
    assert np.abs(totals - best).max() <= 1e-12 and np.array_equal(columns[2], answers[2][1])
    assert np.array_equal(lap.lapjvsa_batch(costs, True)[1][3], np.stack(answers[3], 1))
    assert np.array_equal(lap.lapjvh_batch(costs, True, return_cost=False)[0][4], answers[4][0])
    for wrong in (
        lambda: lap.lapjvs(costs[0], extend_cost=False),
        lambda: lap.lapjvr(costs[0]),
        lambda: lap.lapjvr(costs[0], True, output="maps"),
        lambda: lap.lapjvr(costs[0], True, precision="half"),
        lambda: lap.lapjvs_batch(costs),
    ):
        with pytest.raises(ValueError):
            wrong()


def sparse(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    """A matrix with a matching, as lapmod takes it, and dense."""
    stored = rng.random((n, n)) < 0.3
    stored[np.arange(n), rng.permutation(n)] = True
    dense = np.where(stored, rng.random((n, n)), np.inf)
    starts = np.concatenate(([0], np.cumsum(stored.sum(1))))
    return n, dense[stored], starts, np.nonzero(stored)[1], dense


def test_sparse_costs() -> None:
    rng = np.random.default_rng(32)
    problems = [sparse(rng, n) for n in (1, 2, 5, 20, 60)]
    for *problem, dense in problems:
        i, j = linear_sum_assignment(dense)
        opt, x, y = lap.lapmod(*problem)
        assert abs(opt - dense[i, j].sum()) <= 1e-12 and np.array_equal(x, j) and x.dtype == np.int32
        assert np.array_equal(y[x], np.arange(problem[0]))
    totals, xs, _ = lap.lapmod_batch([problem for *problem, _ in problems], n_threads=2)
    assert len(xs) == 5 and totals[4] == lap.lapmod(*problems[4][:4])[0]
    assert lap.lapmod(0, [], [0], [])[0] == 0.0
    n, costs, starts, columns, _ = problems[2]
    for broken, word in (
        ((n, costs[:-1], starts, columns), "kk has"),
        ((n, costs, starts[:-1], columns), "ii wants"),
        ((n, costs, starts, columns + 1), "kk holds"),
        ((n, costs, starts, columns[::-1]), "kk does not rise"),
        ((n, np.where(costs == costs.max(), np.inf, costs), starts, columns), "finite"),
        ((2, [1.0, 1.0], [0, 1, 2], [0, 0]), "infeasible"),
        ((2, [1.0, 1.0], [0, 3, 2], [0, 1]), "less than"),
        ((2, [1.0, 1.0], [0, 1, 2], [0.5, 1.0]), "whole numbers"),
    ):
        with pytest.raises(ValueError, match=word):
            lap.lapmod(*broken)


def test_the_peer_itself_agrees() -> None:
    peer = pytest.importorskip("lap")
    rng = np.random.default_rng(33)
    for n in (3, 17, 50):
        *problem, _ = sparse(rng, n)
        theirs, ours = peer.lapmod(*problem), lap.lapmod(*problem)
        assert abs(theirs[0] - ours[0]) <= 1e-12
        for x, y in zip(theirs[1:], ours[1:], strict=True):
            assert np.array_equal(x, y) and x.dtype == y.dtype


VMAPPED: dict[str, Any] = {
    "assign": otattn.linear_sum_assignment,
    "ranked": lambda x, **how: tuple(otattn.k_best_assignments(x, 3, certificate=True, **how)[:4]),
    "bottleneck": otattn.bottleneck_assignment,
}


@pytest.mark.parametrize("how", [{}, {"maximize": True}, {"cost_limit": 2.0}])
@pytest.mark.parametrize("name", VMAPPED)
def test_vmap_is_a_loop(name: str, how: dict[str, Any]) -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.as_tensor(y, dtype=torch.float64) for y in VMAPPED[name](x, **how))

    costs = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    for x, batch, dim in ((costs[0], 3, 0), (costs.movedim(1, 3), 3, 3)):
        found = torch.func.vmap(call, in_dims=dim)(x)
        one_by_one = zip(*(call(x.select(dim, k)) for k in range(batch)), strict=True)
        assert all(torch.equal(a, torch.stack(b)) for a, b in zip(found, one_by_one, strict=True))
    if how.get("cost_limit") is None and name != "ranked":
        twice = torch.func.vmap(torch.func.vmap(call))(costs)
        assert all(torch.equal(a[1, 2], b) for a, b in zip(twice, call(costs[1, 2]), strict=True))


def test_vmap_refuses_what_has_no_shape() -> None:
    """Each matrix of a stack that torch makes must have as many pairs."""
    costs = torch.stack([torch.zeros(3, 3), torch.ones(3, 3)])
    for call in (otattn.linear_sum_assignment, otattn.bottleneck_assignment):
        with pytest.raises(ValueError, match=r"as many pairs, these have 0 to 3; call it on the whole stack"):
            torch.func.vmap(lambda x, call=call: tuple(call(x, cost_limit=0.5)))(costs)
    with pytest.raises(NotImplementedError, match=r"tensor under torch\.func"):
        torch.func.vmap(lambda x: otattn.linear_sum_assignment(x, certificate=True)[0])(costs)
    with pytest.raises(NotImplementedError, match=r"tensor under torch\.func"):
        torch.func.vmap(lap.lapjv)(costs)
