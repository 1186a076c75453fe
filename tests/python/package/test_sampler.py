"""otattn.ot.PlanSampler and sinkhorn_knopp_teacher against the formulas of torchcfm and DINOv2."""

from __future__ import annotations

from typing import Any

import numpy as np
import ot
import otattn
import pytest
import torch
from otattn.ot import PlanSampler, sinkhorn_knopp_teacher


def squared(x0: Any, x1: Any) -> Any:
    a, b = (np.asarray(x, np.float64).reshape(len(x), -1) for x in (x0, x1))
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def drawn_as_the_peer(pi: Any, count: int, replace: bool = True) -> tuple[Any, Any]:
    """torchcfm: a choice among all pairs by their weights, from NumPy's global generator."""
    p = pi.flatten()
    p = p / p.sum()
    return np.divmod(np.random.choice(pi.size, p=p, size=count, replace=replace), pi.shape[1])


def clouds(rng: np.random.Generator, n: int = 24, m: int | None = None) -> tuple[Any, Any]:
    return rng.standard_normal((n, 3, 2)), 1.0 + rng.standard_normal((n if m is None else m, 3, 2))


@pytest.mark.parametrize("method", ["exact", "sinkhorn", "unbalanced"])
@pytest.mark.parametrize("normalize", [False, True])
def test_plans_and_draws_of_the_peer(method: str, normalize: bool, rng: np.random.Generator) -> None:
    x0, x1 = clouds(rng)
    M = squared(x0, x1)
    M = M / M.max() if normalize else M
    a = np.full(len(M), 1.0 / len(M))
    peer = {
        "exact": lambda: ot.emd(a, a, M),
        "sinkhorn": lambda: ot.sinkhorn(a, a, M, 0.5, method="sinkhorn_log", stopThr=1e-12, numItermax=20000),
        "unbalanced": lambda: ot.unbalanced.sinkhorn_knopp_unbalanced(
            a, a, M, 0.5, 1.0, stopThr=1e-12, numItermax=20000
        ),
    }[method]()
    sampler = PlanSampler(method, reg=0.5, reg_m=1.0, normalize_cost=normalize)
    plan = sampler.get_map(x0, x1)
    assert np.abs(plan - peer).max() <= (1e-12 if method == "exact" else 1e-7)
    for seed in range(5):
        np.random.seed(seed)
        i, j = drawn_as_the_peer(plan, len(x0))
        np.random.seed(seed)
        y0, y1 = sampler.sample_plan(x0, x1)
        assert (y0 == x0[i]).all() and (y1 == x1[j]).all()
        np.random.seed(seed)
        assert all((p == q).all() for p, q in zip(sampler.sample_map(plan, len(x0)), (i, j), strict=True))


def test_labels_types_and_kinds(rng: np.random.Generator) -> None:
    x0, x1 = clouds(rng)
    labels0, labels1 = np.arange(24), np.arange(24) + 100
    for method in ("exact", "sinkhorn"):
        found = PlanSampler(method, reg=1.0, generator=7).sample_plan_with_labels(x0, x1, labels0, labels1)
        assert (found[0] == x0[found[2]]).all() and (found[1] == x1[found[3] - 100]).all()
        assert PlanSampler(method, generator=7).sample_plan_with_labels(x0, x1)[2:] == (None, None)
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            tensors = [torch.from_numpy(x).to(dtype) for x in (x0, x1)]
            tensors[0].requires_grad_()
            y0, y1, z0, _ = PlanSampler(method, reg=1.0, generator=7).sample_plan_with_labels(
                *tensors, torch.from_numpy(labels0), None
            )
            assert y0.dtype == y1.dtype == dtype and torch.equal(y0, tensors[0][z0])
    seeds = [torch.Generator().manual_seed(3) for _ in range(2)]
    a, b = (PlanSampler("sinkhorn", generator=g).sample_plan(*tensors) for g in seeds)
    assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
    state = np.random.RandomState(3)
    assert len(PlanSampler("sinkhorn", generator=state).sample_plan(x0, x1)[0]) == 24


def test_without_replacement(rng: np.random.Generator) -> None:
    x0, x1 = clouds(rng, 9)
    names = np.arange(9)
    found = PlanSampler("exact", generator=0).sample_plan_with_labels(x0, x1, names, names, replace=False)
    assert sorted(found[2]) == sorted(found[3]) == list(range(9))
    columns = otattn.linear_sum_assignment(squared(x0, x1))[1]
    assert (columns[found[2]] == found[3]).all()
    # Frequencies of ordered pairs of draws from five, each the weight over what is left.
    weights = np.array([[0.4, 0.3, 0.15], [0.0, 0.1, 0.05]])
    p, count = weights.ravel(), 20000
    sampler, seen = PlanSampler("exact", generator=1), np.zeros((6, 6))
    i, j = sampler.sample_map(np.broadcast_to(weights, (count, 2, 3)), 2, replace=False)
    np.add.at(seen, (3 * i[:, 0] + j[:, 0], 3 * i[:, 1] + j[:, 1]), 1.0 / count)
    right = p[:, None] * p[None] / (1.0 - p[:, None])
    np.fill_diagonal(right, 0.0)
    assert np.abs(seen - right).max() <= 5.0 * np.sqrt(0.25 / count) and seen[3].sum() == 0.0
    with pytest.raises(ValueError, match="batch_size is 6, but the plan has 5 pairs"):
        sampler.sample_map(weights, 6, replace=False)


def test_frequencies_of_draws(rng: np.random.Generator) -> None:
    weights = rng.random((4, 5)) * (rng.random((4, 5)) < 0.6)
    count = 200000
    for generator in (2, torch.Generator().manual_seed(2)):
        i, j = PlanSampler("sinkhorn", generator=generator).sample_map(weights, count)
        seen = np.zeros_like(weights)
        np.add.at(seen, (i, j), 1.0 / count)
        assert np.abs(seen - weights / weights.sum()).max() <= 5.0 * np.sqrt(0.25 / count)
        assert (seen[weights == 0.0] == 0.0).all()


def test_trajectories_of_the_peer(rng: np.random.Generator) -> None:
    X = rng.standard_normal((12, 4, 3)) + np.arange(4)[:, None]
    for method in ("exact", "sinkhorn"):
        sampler = PlanSampler(method, reg=1.0)
        np.random.seed(5)
        places = [np.arange(12)]
        for time in range(3):
            pi = sampler.get_map(X[:, time], X[:, time + 1])
            rows = [pi[i] / pi[i].sum() for i in places[-1]]
            places.append(np.array([np.random.choice(12, p=row) for row in rows]))
        right = np.stack([X[:, time][place] for time, place in enumerate(places)], axis=1)
        np.random.seed(5)
        assert (sampler.sample_trajectory(X) == right).all()
        np.random.seed(5)
        assert (sampler.sample_trajectory(torch.from_numpy(X)).numpy() == right).all()


@pytest.mark.parametrize("method", ["exact", "sinkhorn", "unbalanced"])
def test_many_problems_and_unequal_sizes(method: str, rng: np.random.Generator) -> None:
    x0 = rng.standard_normal((5, 10, 3))
    for m in (10, 7, 13):
        x1 = rng.standard_normal((5, m, 3))
        many = PlanSampler(method, reg=0.7, batched=True, generator=4)
        plans = many.get_map(x0, x1)
        assert plans.shape == (5, 10, m)
        for k in range(5):
            single = PlanSampler(method, reg=0.7).get_map(x0[k], x1[k])
            assert np.abs(plans[k] - single).max() <= 1e-9
            if method != "unbalanced":
                assert (
                    np.abs(single.sum(1) - 0.1).max() <= 1e-9 and np.abs(single.sum(0) - 1 / m).max() <= 1e-7
                )
        labels = np.arange(50).reshape(5, 10)
        y0, y1, z0, _ = many.sample_plan_with_labels(x0, x1, labels)
        assert y0.shape == (5, 10, 3) and y1.shape == (5, 10, 3) and (z0 // 10 == np.arange(5)[:, None]).all()
        assert (y0 == x0.reshape(50, 3)[z0]).all()
        tensors = PlanSampler(method, reg=0.7, batched=True, generator=4)
        tensors.get_map(x0, x1)
        t0, _ = tensors.sample_plan(torch.from_numpy(x0), torch.from_numpy(x1))
        assert (t0.numpy() == y0).all()


def test_small_reg_and_what_is_refused(rng: np.random.Generator) -> None:
    x0, x1 = clouds(rng)
    # Where exp(-cost / reg) is 0 for whole rows.
    plan = PlanSampler("sinkhorn", reg=1e-4, warn=False).get_map(100 * x0, 100 * x1)
    assert np.isfinite(plan).all() and abs(plan.sum() - 1.0) <= 1e-6
    # Where no weight but those of the exact plan is left.
    for reg in (1e-6, 1e-12):
        plan = PlanSampler("sinkhorn", reg=reg).get_map(100 * x0, 100 * x1)
        cost = squared(100 * x0, 100 * x1)
        assert abs((plan * cost).sum() / ot.emd2([], [], cost) - 1.0) <= 1e-10
    for arguments, words in (
        ({"method": "partial"}, "method is 'partial', wanted 'exact'"),
        ({"method": "exact", "reg": 0.0}, "reg is 0.0"),
    ):
        with pytest.raises(ValueError, match=words):
            PlanSampler(**arguments)
    sampler = PlanSampler("exact")
    for a, b, words in (
        (x0[:0], x1, "x0 has shape"),
        (x0, x1[:, :2], "x1 has shape"),
        (np.nan * x0, x1, "NaN"),
        (np.float64(1.0), x1, "x0 has shape"),
    ):
        with pytest.raises(ValueError, match=words):
            sampler.sample_plan(a, b)
    with pytest.raises(ValueError, match="pi holds"):
        sampler.sample_map(np.zeros((2, 2)), 1)
    with pytest.raises(TypeError, match="generator is a str"):
        PlanSampler("exact", generator="x").sample_plan(x0, x1)
    with pytest.raises(ValueError, match="batched is True"):
        PlanSampler("exact", batched=True).sample_trajectory(x0)


# ---- DINOv2's teacher ----------------------------------------------------------------------------


def teacher_of_the_peer(x: Any, temperature: float, rounds: int) -> Any:
    """DINOv2: prototypes (rows of Q) to 1 / K, then samples (columns) to 1 / B, on exponentials."""
    Q = np.exp(x / temperature).T
    K, B = Q.shape
    Q /= Q.sum()
    for _ in range(rounds):
        Q = Q / Q.sum(1, keepdims=True) / K
        Q = Q / Q.sum(0, keepdims=True) / B
    return (Q * B).T


def teacher_in_logarithms(x: Any, temperature: float, rounds: int) -> Any:
    log_q = np.longdouble(x) / temperature
    for _ in range(rounds):
        for axis in (0, 1):
            top = log_q.max(axis, keepdims=True)
            log_q = log_q - top - np.log(np.exp(log_q - top).sum(axis, keepdims=True))
    return np.exp(log_q).astype(np.float64)


@pytest.mark.parametrize("rounds", [1, 2, 3, 6])
def test_teacher(rounds: int, rng: np.random.Generator) -> None:
    for shape in ((16, 40), (40, 16), (1, 5), (5, 1)):
        x = rng.standard_normal(shape)
        right = teacher_of_the_peer(x, 0.07, rounds)
        assert np.abs(teacher_in_logarithms(x, 0.07, rounds) - right).max() <= 1e-13
        found = sinkhorn_knopp_teacher(x, 0.07, rounds)
        assert found.dtype == np.float64 and np.abs(found - right).max() <= 1e-13
        narrow = sinkhorn_knopp_teacher(
            torch.from_numpy(x).float().requires_grad_(), 0.07, n_iterations=rounds
        )
        assert narrow.dtype == torch.float32 and not narrow.requires_grad
        assert np.abs(narrow.numpy() - right).max() <= 1e-5


def test_teacher_without_overflow(rng: np.random.Generator) -> None:
    x = (1000.0 * rng.standard_normal((12, 30))).astype(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isnan(teacher_of_the_peer(x.astype(np.float32), 0.04, 3)).any()
    right = teacher_in_logarithms(x, 0.04, 3)
    for given in (x, torch.from_numpy(x)):
        found = np.asarray(sinkhorn_knopp_teacher(given, 0.04, n_masked_patches_tensor=12))
        assert found.dtype == np.float32 and np.abs(found.sum(1) - 1.0).max() <= 1e-5
        # Scores over the temperature reach 1e5, whose rounding in f32 is 4e-3.
        assert np.abs(found - right).max() <= 4e-2
    for wrong, words in ((0.0, "teacher_temp is 0.0"), (float("inf"), "teacher_temp is inf")):
        with pytest.raises(ValueError, match=words):
            sinkhorn_knopp_teacher(x, wrong)
    with pytest.raises(ValueError, match="n_iterations is 0"):
        sinkhorn_knopp_teacher(x, 0.1, 0)
    with pytest.raises(ValueError, match="teacher_output has shape"):
        sinkhorn_knopp_teacher(x[0], 0.1)


def test_unbalanced_samples_without_mass() -> None:
    """Of samples so far apart that relaxed sums keep nothing, the even plan is drawn from, with a warning."""
    rng = np.random.default_rng(3)
    x0, x1 = rng.standard_normal((2, 8, 784))
    sampler = otattn.ot.PlanSampler("unbalanced", generator=0)
    with pytest.warns(otattn.PartialWarning, match="no mass"):
        plan = sampler.get_map(x0, x1)
    np.testing.assert_allclose(plan, 1 / 64)
    with pytest.warns(otattn.PartialWarning, match="no mass"):
        a, b = sampler.sample_plan(x0, x1)
    assert a.shape == x0.shape and b.shape == x1.shape
