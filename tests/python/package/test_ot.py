"""otattn.ot against POT: plans, values, potentials, logs."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import ot
import otattn
import pytest
import spec
import torch
from hypothesis import given
from hypothesis import strategies as st
from otattn import ot as ours


def problem(seed: int, n: int, m: int, total: float = 1.0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    a, b = rng.random(n) + 0.1, rng.random(m) + 0.1
    return a / a.sum(), total * b / b.sum(), rng.random((n, m))


seeds, sizes = st.integers(0, 2**32), st.integers(2, 10)


@given(seeds, sizes, sizes, st.sampled_from([0.05, 0.3, 2.0]))
def test_sinkhorn(seed: int, n: int, m: int, reg: float) -> None:
    a, b, M = problem(seed, n, m)
    expected = ot.sinkhorn(a, b, M, reg, method="sinkhorn_log", numItermax=100000, stopThr=1e-13)
    plan, log = ours.sinkhorn(a, b, M, reg, stopThr=1e-13, log=True)
    spec.check("CETA-06", np.abs(plan - expected).max(), 1e-10)
    assert np.abs(log["u"][:, None] * np.exp(-M / reg) * log["v"] - plan).max() <= 1e-12
    assert abs(ours.sinkhorn2(a, b, M, reg, stopThr=1e-13) - (expected * M).sum()) <= 1e-10
    again, warm = ours.sinkhorn(a, b, M, reg, stopThr=1e-10, log=True, warmstart=(log["log_u"], log["log_v"]))
    assert np.abs(again - plan).max() <= 1e-9 and warm["niter"] <= log["niter"]


@given(seeds, sizes, sizes, st.booleans())
def test_emd(seed: int, n: int, m: int, holes: bool) -> None:
    a, b, M = problem(seed, n, m)
    if holes:
        a[0] = b[-1] = 0.0
        a, b = a / a.sum(), b / b.sum()
    plan, log = ours.emd(a, b, M, log=True)
    cost = ot.emd2(a, b, M)
    spec.check("LIT-06", max(abs(ours.emd2(a, b, M) - cost), abs(log["cost"] - cost)), 1e-12)
    assert np.abs(plan.sum(1) - a).max() <= 1e-14 and np.abs(plan.sum(0) - b).max() <= 1e-14
    live = np.ix_(a > 0, b > 0)
    assert (log["u"][:, None] + log["v"] - M)[live].max() <= 1e-12
    assert abs(log["u"] @ a + log["v"] @ b - cost) <= 1e-12
    rows, columns, costs = (torch.from_numpy(x) for x in (a, b, M))
    dual = ours.emd(rows, columns, costs, log=True)[1]
    assert all(
        isinstance(dual[name], torch.Tensor) and np.array_equal(dual[name], log[name]) for name in "uv"
    )
    (slope,) = torch.autograd.grad(ours.emd2(rows.requires_grad_(), columns, costs), rows)
    assert (slope - (dual["u"] - dual["u"].mean())).abs().max() <= 1e-14


@given(
    seeds,
    sizes,
    sizes,
    st.sampled_from(["KL", "entropy"]),
    st.sampled_from([None, 0.7, (0.4, 2.0), (math.inf, 0.5), (0.5, math.inf)]),
)
def test_solve(seed: int, n: int, m: int, reg_type: str, unbalanced: Any) -> None:
    a, b, M = problem(seed, n, m, 1.0 if unbalanced is None else 1.6)
    result = ours.solve(M, a, b, 0.3, reg_type=reg_type, unbalanced=unbalanced, tol=1e-12)
    expected = ot.solve(M, a, b, 0.3, reg_type=reg_type, unbalanced=unbalanced, tol=1e-14, max_iter=100000)
    assert result.status == "ok"
    # With one side exact and entropy as it is, POT's own value is infinite and its rows are off.
    if np.isfinite(expected.value):
        assert np.abs(result.plan - expected.plan).max() <= 1e-6
        assert abs(result.value_linear - expected.value_linear) <= 1e-6
    if isinstance(unbalanced, tuple) and math.isinf(unbalanced[0]):
        assert np.abs(result.plan.sum(1) - a).max() <= 1e-11
    if unbalanced is None:
        assert abs(result.value - expected.value) <= 1e-8
        f, g = result.potentials
        u, v = expected.potentials
        reference = np.outer(a, b) if reg_type == "KL" else np.ones_like(M)
        assert np.abs(reference * np.exp((f[:, None] + g - M) / 0.3) - result.plan).max() <= 1e-12
        assert np.ptp(f[:, None] + g + 0.3 * np.log(reference) - 0.3 * (u[:, None] + v)) <= 1e-6
    # The plan is optimal for the value: no move of it does better.
    rng = np.random.default_rng(seed)
    if unbalanced is not None and not np.isinf(unbalanced).any():
        best = _value(result.plan, M, a, b, 0.3, reg_type, unbalanced)
        assert abs(best - result.value) <= 1e-12
        for _ in range(5):
            moved = result.plan * np.exp(0.01 * rng.standard_normal(result.plan.shape))
            assert _value(moved, M, a, b, 0.3, reg_type, unbalanced) >= best - 1e-12


def _value(P: Any, M: Any, a: Any, b: Any, reg: float, reg_type: str, unbalanced: Any) -> float:
    def kl(x: Any, y: Any) -> Any:
        return (x * np.log(x / y) - x + y).sum()

    first, second = np.broadcast_to(unbalanced, 2)
    own = kl(P, np.outer(a, b)) if reg_type == "KL" else (P * (np.log(P) - 1)).sum()
    return float((P * M).sum() + reg * own + first * kl(P.sum(1), a) + second * kl(P.sum(0), b))


def cheapest(M: Any, a: Any, b: Any) -> Fraction:
    """The least cost of transport of whole masses, exact."""
    rows = [i for i, mass in enumerate(a) for _ in range(int(mass))]

    @functools.cache
    def rest(k: int, left: tuple[int, ...]) -> Fraction:
        if k == len(rows):
            return Fraction(0)
        return min(
            Fraction(float(M[rows[k]][j])) + rest(k + 1, (*left[:j], left[j] - 1, *left[j + 1 :]))
            for j in range(len(left))
            if left[j] > 0
        )

    return rest(0, tuple(int(mass) for mass in b))


def blocked(rng: Any) -> tuple[Any, Any, Any]:
    """Masses, and costs of which some are up to 1e300 times others."""
    n, m = rng.integers(2, 5, 2)
    a = rng.integers(1, 4, n).astype(float)
    b = 1.0 + rng.multinomial(max(int(a.sum()) - m, 0), np.full(m, 1.0 / m))
    a[0] += b.sum() - a.sum()
    M = rng.random((n, m)) if rng.random() < 0.5 else rng.integers(0, 6, (n, m)) * 1.0
    powers = [9, 12, 15, 16, 17, 20, 100, 300]
    large = 10.0 ** rng.choice(powers, size=(n, m) if rng.random() < 0.5 else 1)
    return a, b, np.where(rng.random((n, m)) < rng.choice([0.1, 0.3, 0.6]), large, M)


def test_costs_that_dwarf_others() -> None:
    M = np.array([[0.0, 1e17, 3.0, 4.0], [4.0, 4.0, 2.0, 1.0], [1.0, 2.0, 1.0, 5.0], [5.0, 1e17, 1.0, 0.0]])
    assert ours.emd2(np.array([3.0, 1.0, 1.0, 2.0]), np.array([2.0, 2.0, 2.0, 1.0]), M) == 10.0
    rng = np.random.default_rng(3)
    for _ in range(250):
        a, b, M = blocked(rng)
        wanted = cheapest(M, a, b)
        plan, log = ours.emd(a, b, M, log=True)
        pairs = zip(plan.ravel(), M.ravel(), strict=True)
        assert sum((Fraction(float(p)) * Fraction(float(c)) for p, c in pairs), Fraction(0)) == wanted
        # Potentials of the size of what is shipped prove it.
        u, v = log["u"], log["v"]
        rounding = 2.0**-53 * 64 * a.sum() * max(float(wanted), 1.0)
        assert abs(float(wanted - sum(map(Fraction, a * u)) - sum(map(Fraction, b * v)))) <= rounding
        over = [
            Fraction(x) + Fraction(y) - Fraction(c)
            for x, r in zip(u, M, strict=True)
            for y, c in zip(v, r, strict=True)
        ]
        assert float(max(over)) <= rounding


def test_quadratic() -> None:
    for seed in range(10):
        a, b, M = problem(seed, 6, 5)
        result = ours.solve(M, a, b, 0.5, reg_type="L2", tol=1e-12)
        expected = ot.solve(M, a, b, 0.5, reg_type="L2", tol=1e-14, max_iter=20000)
        assert np.abs(result.plan - expected.plan).max() <= 1e-5


@pytest.mark.parametrize("like", [np.asarray, torch.from_numpy])
def test_masses_that_were_rounded(like: Any) -> None:
    """Totals that differ by 1e-7 or less are equal, as to POT; beyond that they are not."""
    a, b, M = problem(5, 5, 6)
    a, b = np.round(a, 7), np.round(b, 7)
    b[0] += a.sum() - b.sum() + 6e-8
    A, B, C = like(a), like(b), like(M)
    exact = ot.emd2(a, b, M)
    for value in (ours.emd2(A, B, C), ours.emd(A, B, C, log=True)[1]["cost"], ours.solve(C, A, B).value):
        assert abs(float(value) - exact) <= 1e-14
    near = b * (a.sum() / b.sum())
    for reg_type in ("KL", "entropy", "L2"):
        found = ours.solve(C, A, B, 0.3, reg_type=reg_type)
        assert (
            np.abs(np.asarray(found.plan) - ours.solve(M, a, near, 0.3, reg_type=reg_type).plan).max()
            <= 1e-15
        )
        assert found.log["certificate"].column_error <= 1e-8
    assert np.abs(np.asarray(ours.sinkhorn(A, B, C, 0.3)) - ours.sinkhorn(a, near, M, 0.3)).max() <= 1e-15
    b[0] += 2e-7
    for call in (ours.emd, ours.emd2, functools.partial(ours.sinkhorn, reg=0.3)):
        with pytest.raises(otattn.Infeasible):
            call(A, like(b), C)


@pytest.mark.parametrize("like", [np.asarray, torch.from_numpy])
def test_quadratic_knows_the_problem_that_was_solved(like: Any) -> None:
    a, b, M = problem(3, 8, 6)
    a[2] = 0.0
    a, b = a / a.sum(), b / b.sum()
    result = ours.solve(like(M), like(a), like(b), 0.5, reg_type="l2", tol=1e-12)
    plan = np.asarray(result.plan).copy()
    value = float((plan * M).sum() + 0.25 * (plan**2).sum())
    warm = ours.solve(
        like(M), like(a), like(b), 0.5, reg_type="L2", tol=1e-10, potentials_init=result.potentials
    )
    M[:] = a[:] = b[:] = 0.5  # what the caller does with them does not change the result
    assert isinstance(result.value, torch.Tensor) == (like is torch.from_numpy)
    assert abs(float(result.value) - value) <= 1e-12
    proof = result.log["certificate"]
    assert abs(proof.gap) <= 1e-10 and proof.column_error <= 1e-12 and result.status == "ok"
    assert np.abs(plan[2]).max() == 0.0 and np.abs(np.asarray(warm.plan) - plan).max() <= 1e-9
    assert warm.log["niter"] <= 1 < result.log["niter"]
    with pytest.raises(NotImplementedError, match="L2"):
        ours.sinkhorn_unbalanced(like(a), like(b), like(M), 0.5, 1.0, reg_type="L2")


def test_unbalanced_front_samples_and_defaults() -> None:
    a, b, M = problem(1, 5, 7, 1.5)
    plan = ours.sinkhorn_unbalanced(a, b, M, 0.2, 0.8, stopThr=1e-12)
    expected = ot.unbalanced.sinkhorn_unbalanced(a, b, M, 0.2, 0.8, stopThr=1e-15, numItermax=100000)
    assert np.abs(plan - expected).max() <= 1e-9
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))
    for reg in (None, 0.5):
        assert abs(ours.solve_sample(x, y, reg=reg).value - ot.solve_sample(x, y, reg=reg).value) <= 1e-7
    several = np.stack([b / b.sum(), np.full(7, 1 / 7)], 1)
    values = ours.sinkhorn(a, several, M, 0.3)
    assert np.abs(values - ot.sinkhorn2(a, several, M, 0.3, stopThr=1e-12)).max() <= 1e-7


def test_gradients_of_distances_at_points_that_coincide() -> None:
    rng = np.random.default_rng(4)
    x, y = (torch.from_numpy(rng.standard_normal((n, 2))) for n in (4, 3))
    y[1] = x[2]
    for metric in ("euclidean", "sqeuclidean"):
        first = x.clone().requires_grad_()
        ours.solve_sample(first, y, metric=metric, reg=0.3, tol=1e-12).value.backward()
        # Of a norm 0 is a subgradient at 0, and of a squared one the gradient.
        plan = ours.solve_sample(x, y, metric=metric, reg=0.3, tol=1e-12).plan
        apart = x[:, None] - y
        length = apart.norm(dim=-1, keepdim=True).clamp(min=1e-300)
        wanted = (plan[:, :, None] * (apart / length if metric == "euclidean" else 2 * apart)).sum(1)
        assert (first.grad - wanted).abs().max() <= 1e-9
        # V(x, x), which a debiased divergence takes off.
        both = x.clone().requires_grad_()
        ours.solve_sample(both, both, metric=metric, reg=0.3, tol=1e-12).value.backward()
        assert both.grad.isfinite().all()


def test_samples_in_narrow_types() -> None:
    x, y = np.array([[0.0], [900.0]]), np.array([[600.0], [1.0]])
    wanted = ours.solve_sample(x, y).value
    for kind in (np.float16, np.int32, np.uint16):
        assert ours.solve_sample(x.astype(kind), y.astype(kind)).value == wanted
        if kind != np.uint16:
            given = (torch.from_numpy(points.astype(kind)) for points in (x, y))
            assert float(ours.solve_sample(*given).value) == wanted


def test_torch_gradients() -> None:
    a, b, M = (torch.from_numpy(x) for x in problem(3, 4, 5))
    M.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: ours.solve(x, a, b, 0.4, tol=1e-13).value, (M,), eps=1e-5, atol=1e-6
    )
    value = ours.solve(M, a, b, 0.4, tol=1e-13).value
    # Envelope theorem: the derivative of the optimal value is the plan.
    assert (torch.autograd.grad(value, M)[0] - ours.solve(M, a, b, 0.4, tol=1e-13).plan).abs().max() <= 1e-9


def test_parameters_of_other_libraries() -> None:
    a, b, M = problem(4, 5, 6, 1.3)
    result = ours.solve(M, a, b, **ours.from_ott(0.2, tau_a=0.8, tau_b=0.8), tol=1e-12)
    assert np.abs(result.plan - ours.solve(M, a, b, 0.2, unbalanced=0.8, tol=1e-12).plan).max() <= 1e-10
    assert ours.from_geomloss(0.1) == {"reg": 0.1**2, "unbalanced": None}


def test_refusals_and_warnings() -> None:
    a, b, M = problem(5, 4, 4)
    with pytest.warns(otattn.PartialWarning, match="numItermax"):
        ours.sinkhorn(a, b, M, 0.01, numItermax=2, stopThr=1e-14)
    for call in (lambda: ours.emd(a, 2 * b, M), lambda: ours.sinkhorn(a, 2 * b, M, 0.3)):
        with pytest.raises((otattn.Infeasible, ValueError)):
            call()
    for arguments, name in (
        ({"reg_type": "L3"}, "reg_type"),
        ({"unbalanced": 1.0, "unbalanced_type": "TV"}, "TV"),
    ):
        with pytest.raises(NotImplementedError, match=name):
            ours.solve(M, a, b, 0.3, **arguments)
    with pytest.raises(NotImplementedError, match="unbalanced needs reg"):
        ours.solve(M, a, b, unbalanced=1.0)
    with pytest.raises(ValueError, match=r"a has shape \(3,\)"):
        ours.sinkhorn(np.ones(3), b, M, 0.3)
    with pytest.raises(ValueError, match="reg is -1"):
        ours.sinkhorn(a, b, M, -1.0)


def test_gradients_of_the_cost_of_exact_transport() -> None:
    torch.manual_seed(2)
    a, b = torch.rand(4, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    M = torch.rand(4, 5, dtype=torch.float64, requires_grad=True)
    # Along directions that keep the totals; the plan is unique and stays what it is nearby.
    up, across = torch.randn(4, dtype=torch.float64), torch.randn(5, dtype=torch.float64)

    def cost(matrix: Any, t: Any, u: Any) -> Any:
        rows = a / a.sum() + t * (up - up.mean())
        columns = b / b.sum() + u * (across - across.mean())
        return otattn.ot.emd2(rows, columns, matrix)

    zero = [torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(cost, (M, *zero), eps=1e-7, atol=1e-6)
    values = otattn.ot.emd2(a / a.sum(), torch.stack([b / b.sum(), b.flip(0) / b.sum()], 1), M)
    assert len(values) == 2 and torch.equal(values[0], otattn.ot.emd2(a / a.sum(), b / b.sum(), M))
    with pytest.raises(ValueError, match="method is 'fast'"):
        otattn.ot.sinkhorn(a, a, M[:, :4], 1.0, method="fast")


def test_forbidden_pairs_cost_nothing() -> None:
    # A pair of cost inf carries nothing and adds nothing, to values, logs and derivatives; the optimum is .9.
    a, b, M = np.array([0.4, 0.6]), np.array([0.7, 0.3]), np.array([[0.0, np.inf], [1.0, 2.0]])
    plan = ours.emd(a, b, M)
    for make in (np.asarray, torch.tensor):
        given = make(a), make(b), make(M)
        for x in (
            ours.emd2(*given),
            ours.emd(*given, log=True)[1]["cost"],
            ours.solve(given[2], *given[:2]).value,
            ours.sinkhorn2(*given, 0.5),
            ours.solve(given[2], *given[:2], 0.5).value_linear,
            ours.solve(given[2], *given[:2], 0.5, reg_type="L2").value_linear,
        ):
            assert abs(float(x) - 0.9) <= 1e-8
        # The only plan there is.
        entropy = 0.9 + 0.5 * (plan[plan > 0] * np.log(plan[plan > 0])).sum()
        assert abs(float(ours.solve(given[2], *given[:2], 0.5, reg_type="entropy").value) - entropy) <= 1e-8
        loose = ours.sinkhorn_unbalanced(*given, 0.5, 1.0, log=True)
        assert math.isfinite(float(loose[1]["cost"]))
    rows, columns, costs = (torch.tensor(x, requires_grad=True) for x in (a, b, M))
    for value in (
        ours.emd2(rows, columns, costs),
        ours.sinkhorn2(rows, columns, costs, 0.5, stopThr=1e-12),
        ours.solve(costs, rows, columns, 0.5, tol=1e-12).value,
        ours.solve(costs, rows, columns, 0.5, reg_type="L2").value,
    ):
        for _ in range(2):
            by_rows, by_columns, by_costs = torch.autograd.grad(
                value, (rows, columns, costs), retain_graph=True
            )
            assert all(x.isfinite().all() for x in (by_rows, by_columns, by_costs))
            assert (by_costs - torch.from_numpy(plan)).abs().max() <= 1e-8
    for _ in range(2):  # the second by the structs of the first
        (slope,) = torch.autograd.grad(ours.sinkhorn2(rows.detach(), columns.detach(), costs, 0.5), costs)
        assert (slope - torch.from_numpy(plan)).abs().max() <= 1e-8


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cityblock"])
def test_distances_in_blocks_of_rows(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between which Ctrl-C is heard: the same bits, and gradients."""
    x, y = (torch.from_numpy(z).requires_grad_() for z in np.random.default_rng(4).standard_normal((2, 9, 3)))
    found = []
    for block in (1 << 24, 60):
        monkeypatch.setattr("otattn._torch_device.BLOCK", block)
        costs = otattn.ot.dist(x, y, metric)
        plain = torch.from_numpy(otattn.ot.dist(x.detach().numpy(), y.detach().numpy(), metric))
        found.append([costs, plain, *torch.autograd.grad(costs.sin().sum(), (x, y))])
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])
    for one, other in zip(found[0][2:], found[1][2:], strict=True):
        # The same sums, in another order.
        assert (one - other).abs().max() <= 16 * 2.0**-53 * one.abs().max()
    assert otattn.ot.dist(np.zeros((0, 3)), np.zeros((2, 3)), metric).shape == (0, 2)


def test_unif_and_dist() -> None:
    """POT's, on arrays and tensors, in the types of what they are made like."""
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    np.testing.assert_array_equal(otattn.ot.unif(5), ot.unif(5))
    assert otattn.ot.unif(3, torch.zeros(1, dtype=torch.float32)).dtype == torch.float32
    for metric in ("sqeuclidean", "euclidean", "cityblock"):
        for points in ((x, y), (x,)):
            theirs = ot.dist(*points, metric=metric)
            np.testing.assert_allclose(otattn.ot.dist(*points, metric=metric), theirs, atol=1e-12)
            tensors = [torch.from_numpy(z) for z in points]
            np.testing.assert_allclose(otattn.ot.dist(*tensors, metric=metric).numpy(), theirs, atol=1e-12)
    with pytest.raises(NotImplementedError, match="metric is 'cosine'"):
        otattn.ot.dist(x, y, "cosine")
    with pytest.raises(ValueError, match="x2 has shape"):
        otattn.ot.dist(x, y[:, :2])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, None])
def test_partial(share: float | None) -> None:
    """The cheapest plan of a part of the mass costs what POT's costs, within the sums."""
    rng = np.random.default_rng(9)
    for n, m in ((5, 7), (6, 4), (1, 3)):
        a, b = rng.random(n) + 0.1, rng.random(m) + 0.1
        M = rng.random((n, m))
        mass = None if share is None else share * min(a.sum(), b.sum())
        plan = otattn.ot.partial.partial_wasserstein(a, b, M, mass)
        assert (plan.sum(1) <= a + 1e-12).all() and (plan.sum(0) <= b + 1e-12).all() and (plan >= 0).all()
        np.testing.assert_allclose(plan.sum(), min(a.sum(), b.sum()) if mass is None else mass, atol=1e-12)
        value = otattn.ot.partial.partial_wasserstein2(a, b, M, mass)
        if mass != 0.0:
            whole = min(a.sum(), b.sum()) if mass is None else mass
            np.testing.assert_allclose(value, ot.partial.partial_wasserstein2(a, b, M, whole), atol=1e-9)
        tensors = [torch.from_numpy(x) for x in (a, b, M)]
        found, log = otattn.ot.partial.partial_wasserstein(*tensors, mass, log=True)
        torch.testing.assert_close(found, torch.from_numpy(plan))
        torch.testing.assert_close(log["partial_w_dist"], torch.tensor(value, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"m is 9\.0, wanted 0 to"):
        otattn.ot.partial.partial_wasserstein([1.0], [1.0], [[1.0]], 9.0)


@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
def test_masses_of_another_type(sides: tuple[bool, bool]) -> None:
    # Totals that differ by what rounding to the type does are equal ones.
    a, b, M = problem(4, 5, 7)
    rows, columns = (x.astype(np.float32) if own else x for x, own in zip((a, b), sides, strict=True))
    apart = abs(rows.astype(float).sum() - columns.astype(float).sum())
    assert 1e-9 < apart < 1e-6
    for make in (np.asarray, torch.from_numpy):
        given = make(rows), make(columns), make(M)
        plans = [
            ours.emd(*given),
            ours.sinkhorn(*given, 0.3),
            ours.solve(given[2], *given[:2], 0.3, reg_type="L2").plan,
            otattn.coupling(
                given[2], method="entmax:1.5/exact", cost=True, row_mass=given[0], column_mass=given[1]
            ),
            otattn.coupling(
                given[2], method="hard/bounded:1,1", cost=True, row_mass=given[0], column_mass=given[1]
            ),
        ]
        for plan in plans:
            assert str(plan.dtype).endswith("float64")
            assert np.abs(np.asarray(plan).sum(1) - rows).max() <= 2 * apart
            assert np.abs(np.asarray(plan).sum(0) - columns).max() <= 2 * apart + 1e-8
        with pytest.raises(otattn.Infeasible):
            ours.emd(given[0], given[1] * 1.1, given[2])


def test_results_have_the_widest_type() -> None:
    a, b, M = problem(6, 4, 5)
    costs = M.astype(np.float32)
    for make in (np.asarray, torch.from_numpy):
        for rows, columns, matrix in ((a, b, costs), (a.astype(np.float32), b, costs), (a, b, M)):
            given = make(rows), make(columns), make(matrix)
            for x in (
                ours.emd(*given),
                ours.emd2(*given),
                ours.sinkhorn(*given, 0.3),
                ours.sinkhorn2(*given, 0.3),
                ours.solve(given[2], *given[:2], 0.3).value,
                ours.solve(given[2], *given[:2]).plan,
            ):
                assert str(x.dtype).endswith("float64")
        assert (
            abs(float(ours.emd2(make(a), make(b), make(costs))) - ot.emd2(a, b, costs.astype(float))) <= 1e-13
        )
    assert ours.emd(a.astype(np.float32), b.astype(np.float32), costs).dtype == np.float32
    assert ours.emd([0.5, 0.5], [0.5, 0.5], costs[:2, :2]).dtype == np.float32


INF = math.inf
VALUES: dict[str, Any] = {
    "sinkhorn2": lambda a, b, M: ours.sinkhorn2(a, b, M, 0.5, stopThr=1e-13),
    "value": lambda a, b, M: ours.solve(M, a, b, 0.5, tol=1e-13).value,
    "linear": lambda a, b, M: ours.solve(M, a, b, 0.5, tol=1e-13).value_linear,
    "unbalanced": lambda a, b, M: ours.solve(M, a, b, 0.5, unbalanced=1.0, tol=1e-13).value,
    "relaxed rows": lambda a, b, M: ours.solve(M, a, b, 0.5, unbalanced=(1.0, INF), tol=1e-13).value,
    "relaxed columns": lambda a, b, M: (
        ours.solve(M, a, b, 0.5, unbalanced=(INF, 1.0), tol=1e-13).value_linear
    ),
    "exact": ours.emd2,
    "quadratic": lambda a, b, M: ours.solve(M, a, b, 0.5, reg_type="L2", tol=1e-13).value,
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("empty", ["row", "column", "both"])
def test_gradients_by_masses_of_zero(name: str, empty: str) -> None:
    # A derivative by a mass that is 0 is that of the value where the mass begins to grow.
    M = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.3, 0.5], [3.0, 1.0, 0.2]], dtype=torch.float64)
    a = torch.tensor([0.7, 0.0, 0.3] if empty != "column" else [0.7, 0.2, 0.1], dtype=torch.float64)
    b = torch.tensor([0.0, 0.6, 0.4] if empty != "row" else [0.6, 0.3, 0.1], dtype=torch.float64)
    rows, columns = a.clone().requires_grad_(), b.clone().requires_grad_()
    value = VALUES[name](rows, columns, M)
    for x, slope in zip((a, b), torch.autograd.grad(value, (rows, columns)), strict=True):
        places = (x == 0).nonzero()
        if not len(places):
            continue
        step = torch.zeros(3, dtype=torch.float64)
        step[places[0]], step[2] = 1e-7, -1e-7
        moved = VALUES[name](a + step if x is a else a, b + step if x is b else b, M)
        assert abs(float((slope * step).sum() - (moved - value.detach()))) / 1e-7 <= 1e-5
    if name == "sinkhorn2":
        plan, log = ours.sinkhorn(rows, columns, M, 0.5, log=True)
        assert not plan[a == 0].any() and not plan[:, b == 0].any()
        assert not log["u"][a == 0].any() and not log["v"][b == 0].any()


def test_dual_variables_where_nothing_is_allowed() -> None:
    # A column without mass that no row with mass may use bounds nothing.
    a, b = np.array([0.4, 0.6]), np.array([0.7, 0.0, 0.3])
    M = np.array([[0.0, np.inf, 2.0], [1.0, np.inf, 1.0]])
    log = ours.emd(a, b, M, log=True)[1]
    assert np.isfinite(log["u"]).all() and np.isfinite(log["v"]).all()
    assert abs(log["u"] @ a + log["v"] @ b - log["cost"]) <= 1e-15
    assert (log["u"][:, None] + log["v"] - M).max() <= 1e-15


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_entropy_where_nothing_is_allowed(kind: Any) -> None:
    """A row without mass all of whose pairs cost inf, and such a column, take part in nothing."""
    a, b = np.array([0.4, 0.0, 0.6]), np.array([0.7, 0.0, 0.3])
    M = np.array([[0.0, INF, 2.0], [INF, INF, INF], [1.0, INF, 1.0]])
    inner = np.ix_([0, 2], [0, 2])
    expected = np.zeros((3, 3))
    expected[inner] = ours.sinkhorn(a[[0, 2]], b[[0, 2]], M[inner], 0.5)
    for turned in (False, True):
        given = [kind(x) for x in ((b, a, M.T.copy()) if turned else (a, b, M))]
        plans = [ours.sinkhorn(*given, 0.5), ours.solve(given[2], *given[:2], reg=0.5).plan]
        for plan in plans:
            assert np.abs(np.asarray(plan) - (expected.T if turned else expected)).max() <= 1e-9
        assert math.isfinite(ours.sinkhorn2(*given, 0.5))


@pytest.mark.parametrize("seed", range(12))
def test_entropic_partial_transport_is_that_of_pot(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 9, 2)
    a, b, M = rng.uniform(0.1, 1, n), rng.uniform(0.1, 1, m), rng.uniform(0, 3, (n, m))
    mass = None if seed % 4 == 0 else float(rng.uniform(0.1, 0.95) * min(a.sum(), b.sum()))
    reg = float(rng.choice([0.2, 1.0]))
    plan, log = ours.partial.entropic_partial_wasserstein(a, b, M, reg, mass, log=True)
    expected, theirs = ot.partial.entropic_partial_wasserstein(a, b, M, reg, mass, log=True)
    # Both make the same rounds, each of which rounds sums of n m numbers.
    assert np.abs(plan - expected).max() <= log["niter"] * n * m * np.finfo(float).eps
    assert abs(log["partial_w_dist"] - theirs["partial_w_dist"]) <= 1e-13
    certificate = log["certificate"]
    assert max(certificate.row_error, certificate.column_error) <= 1e-6 and abs(certificate.gap) <= 1e-6
    # No plan that keeps to the bounds is below the dual bound.
    scaled = np.outer(a, b) * ((mass or min(a.sum(), b.sum())) / (a.sum() * b.sum()))
    assert (scaled * (M + reg * np.log(scaled))).sum() >= certificate.dual
    tensors = ours.partial.entropic_partial_wasserstein(*(torch.from_numpy(x) for x in (a, b, M)), reg, mass)
    assert np.array_equal(tensors.numpy(), plan)


def test_entropic_partial_transport_at_its_ends() -> None:
    call = ours.partial.entropic_partial_wasserstein
    M = np.array([[0.0, 800.0], [900.0, 1.0]])
    # exp(-M / reg) is 0 off the diagonal, and a row without mass stays empty.
    assert np.abs(call([0.5, 0.5], [0.5, 0.5], M, 1.0, 1.0) - np.diag([0.5, 0.5])).max() <= 1e-6
    assert np.array_equal(call([0.0, 0.5], [0.2, 0.5], M, 1.0)[0], [0.0, 0.0])
    assert not call([0.5, 0.5], [0.5, 0.5], M, 1.0, 0.0).any()
    for wrong in ({"m": 2.0}, {"m": -1.0}, {"method": "newton"}):
        with pytest.raises(ValueError):
            call([0.5, 0.5], [0.5, 0.5], M, 1.0, **wrong)
    with pytest.warns(otattn.PartialWarning, match="rounds"):
        call([0.5, 0.4], [0.3, 0.6], M / 800, 1.0, 0.85, numItermax=1)


@pytest.mark.parametrize("kind", [np.float64, torch.float64])
@pytest.mark.parametrize("blocker", [1e9, 1e15, 1e20, 1e100, np.inf])
def test_blockers_of_places_without_mass(blocker: float, kind: Any) -> None:
    """Large costs of rows and columns without mass: exact plans were refused or had duals beside them, and
    values of entropic ones held the cost times a mass too small to show."""
    a, b = np.array([0.0, 3.0, 4.0]), np.array([1.0, 0.0, 4.0, 2.0, 0.0])
    M = np.array([[blocker] * 5, [4.0, 4.0, 2.0, 6.0, blocker], [1.0, blocker, 3.0, 2.0, blocker]])
    small = M[1:][:, [0, 2, 3]]
    given = [torch.from_numpy(x) for x in (M, a, b)] if kind is torch.float64 else [M, a, b]
    exact = ours.solve(*given)
    f, g = (np.asarray(x) for x in exact.potentials)
    wanted = float(ours.solve(small, a[1:], b[[0, 2, 3]]).value)
    assert float(ours.emd2(given[1], given[2], given[0])) == float(exact.value) == wanted
    assert f[1:] @ a[1:] + g[[0, 2, 3]] @ b[[0, 2, 3]] == pytest.approx(wanted, rel=1e-14)
    found, other = ours.solve(*given, reg=0.5), ours.solve(small, a[1:], b[[0, 2, 3]], reg=0.5)
    assert float(found.value_linear) == pytest.approx(float(other.value_linear), rel=1e-8)
    assert float(found.value) == pytest.approx(float(other.value), rel=1e-8)
