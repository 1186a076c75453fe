"""otattn.analysis against plain NumPy formulas and SciPy; every call of the header is reached."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch
from otattn import _structs, analysis
from scipy.special import logsumexp, softmax


def close(a: Any, b: Any, tolerance: float = 1e-12, ids: str = "") -> None:
    """Equal to `tolerance` of the larger of 1 and b; the requirements `ids` that this shows go on record."""
    error = np.abs(np.asarray(a) - np.asarray(b)).max()
    spec.check(ids, error, tolerance * (1 + np.abs(np.asarray(b)).max()))


def plan(rng: np.random.Generator, n: int = 6, m: int = 6) -> Any:
    return otattn.coupling(rng.standard_normal((n, m)), method="softmax/exact", tolerance=1e-14)


def test_every_call_of_the_header_is_reached(root: Path) -> None:
    header = (root / "include/otattn_analysis.h").read_text()
    declared = set(re.findall(r"OTA_API [^;(]*?ota_(\w+)\(", header))
    text = "".join(path.read_text() for path in (root / "python/otattn/analysis").glob("*.py"))
    used = set(re.findall(r'(?:call|found_of|plain)\(\s*"(\w+)"', text)) | set(
        re.findall(r"library\.ota_(\w+)", text)
    )
    assert declared <= used, declared - used
    assert all(f"ota_{name}" in _structs.CALLS for name in used)


def test_hamming(rng: np.random.Generator) -> None:
    p, q = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(7))
    cost = 1.0 - np.eye(7)
    x = rng.standard_normal(7)
    close(analysis.hamming_matvec(0.7, x), np.exp(-cost / 0.7) @ x)
    found = analysis.hamming(p, q, 0.7)
    P = found.u[:, None] * np.exp(-cost / 0.7) * found.v
    close(P.sum(1), p)
    close(P.sum(0), q)
    close(found.cost, (P * cost).sum())
    close(found.objective, (P * cost).sum() + 0.7 * (P * np.log(P)).sum(), ids="DER-05")
    close(found.tv, np.abs(p - q).sum() / 2)
    slow = analysis.hamming(p, q, 0.7, solver="sinkhorn", tolerance=1e-13)
    close(slow.cost, found.cost)
    traced = analysis.hamming_errors(p, q, 0.7, tolerance=1e-13)
    assert len(traced.errors) == traced.rounds == slow.rounds and np.array_equal(traced.u, slow.u)
    assert traced.errors[-1] <= 1e-13 < traced.errors[-2]
    own = [analysis.hamming(x, x, 0.7).objective for x in (p, q)]
    close(analysis.hamming_divergence(p, q, 0.7).divergence, found.objective - sum(own) / 2)
    close(analysis.hamming_diameter(0.7), 2 / 0.7)
    with pytest.raises(ValueError, match=r"q has shape \(3,\), wanted \(V=7\)"):
        analysis.hamming(p, np.ones(3) / 3, 0.7)
    with pytest.raises(ValueError, match="solver is 'fast'"):
        analysis.hamming(p, q, 0.7, solver="fast")


def test_gauge(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((5, 7)), rng.standard_normal((5, 7))
    for rule in ("howard", "midrange", "least_squares", "fast"):
        found = analysis.gauge(a, b, rule)
        rest = a - b - found.row_shift[:, None] - found.column_shift
        close(analysis.gauge_rest(a, b, found.row_shift, found.column_shift), rest)
        close(found.residual, np.abs(rest).max())
        close(found.row_residual, np.abs(rest).max(1))
    best = analysis.gauge(a, b)
    D, i, j = a - b, best.cycle_rows, best.cycle_columns
    walk = (D[i, j] - D[np.roll(i, -1), j]).sum() / (2 * len(i))
    close(best.residual_lower, abs(walk))
    close(best.residual, best.residual_lower)
    four = max(np.ptp(D[x] - D[y]) for x in range(5) for y in range(5)) / 4
    close(analysis.gauge_four_cycle(a, b), four)
    narrow = analysis.gauge(a.astype(np.float32), b.astype(np.float32))
    close(narrow.residual, best.residual, 1e-5)
    moves = 0.1 * rng.standard_normal((3, 5, 7))
    k, v = moves.mean(2), moves.mean(1)
    distance, bound = analysis.gauge_coherence(a, moves, k, v)
    close(distance, np.abs(softmax(a + moves.sum(0), -1) - softmax(a + v.sum(0), -1)).sum(-1))
    close(bound, np.minimum(2, np.abs(moves - k[:, :, None] - v[:, None, :]).max(-1).sum(0)))


def test_composition_and_hilbert(rng: np.random.Generator) -> None:
    S, T = softmax(rng.standard_normal((4, 5)), -1), softmax(rng.standard_normal((5, 6)), -1)
    close(analysis.compose(S, T), S @ T)
    close(analysis.log_ratios(S), np.log(S[:, 1:] / S[:, :1]))
    low = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5))
    count, pivots = analysis.rank(low, 1e-10)
    assert count == 2 and (np.diff(pivots) <= 0).all()
    x, y = rng.random(6) + 0.1, rng.random(6) + 0.1
    close(analysis.hilbert(x, y), np.ptp(np.log(x / y)))
    close(analysis.hilbert_log(np.log(x), np.log(y)), np.ptp(np.log(x / y)))
    L = rng.standard_normal((4, 5))
    diameter = max(np.ptp(L[i] - L[k]) for i in range(4) for k in range(4))
    found = analysis.contraction(L)
    close(found.diameter, diameter)
    close(found.rate, np.tanh(diameter / 4))
    close(found.entry_rate, np.tanh(np.ptp(L) / 2))


def test_rates(rng: np.random.Generator) -> None:
    L = 3 * rng.standard_normal((6, 6))
    p = q = np.ones(6)
    run = analysis.scaling(L, p, q, rounds=200, tolerance=1e-13)
    P = np.exp(L + run.f[:, None] + run.g)
    close(P.sum(1), p)
    close(P.sum(0), q, 1e-11)
    assert len(run.errors) == run.rounds < 200
    sigma = np.linalg.svd(P, compute_uv=False) ** 2
    spectrum = analysis.coupling_spectrum(P)
    close([spectrum.second, spectrum.least], [sigma[1], sigma[-1]], 1e-6)
    close(analysis.rate_measured(run.errors[run.errors > 1e-11]), sigma[1], 0.1)
    close(analysis.rate_one_sided(1.0, sigma[1], sigma[-1]), sigma[1])
    best, rate = analysis.best_one_sided(sigma[1], sigma[-1])
    close(best, 2 / (2 - sigma[1] - sigma[-1]))
    close(rate, (sigma[1] - sigma[-1]) * best / 2)
    omega, rate = analysis.best_two_sided(sigma[1])
    close([omega, rate], [2 / (1 + np.sqrt(1 - sigma[1])), omega - 1])
    close(analysis.iterations_conservative(2.0, 0.1), 800.0)
    assert np.expm1(2.0 * 0.5 ** (2 * (analysis.iterations_geometric(2.0, 0.5, 0.01) - 1))) <= 0.01


def test_distributions(rng: np.random.Generator) -> None:
    z, w = rng.standard_normal(9), rng.standard_normal(9)
    b, a = softmax(z), softmax(w)
    middle = (a + b) / 2
    expected = {
        "tv": np.abs(a - b).sum() / 2,
        "kl": (a * np.log(a / b)).sum(),
        "kl_reverse": (b * np.log(b / a)).sum(),
        "js": ((a * np.log(a / middle)).sum() + (b * np.log(b / middle)).sum()) / 2,
        "entropy_before": -(b * np.log(b)).sum(),
        "hellinger": np.sqrt(1 - np.sqrt(a * b).sum()),
        "fisher_rao": 2 * np.arccos(np.sqrt(a * b).sum()),
    }
    for found in (analysis.divergence(b, a), analysis.divergence_of_logits(z, w)):
        for name, value in expected.items():
            close(getattr(found, name), value)
    found = analysis.tail(z, 0.5)
    top = softmax(z / 0.5)
    assert found.index == z.argmax()
    close(found.mass, 1 - top.max())
    close(found.margin, np.sort(z)[-1] - np.sort(z)[-2])
    change = analysis.logit_change(z, w)
    close(change.max_change, np.abs(w - z).max())
    close(change.correlation, np.corrcoef(z, w)[0, 1])
    overlap, spearman = analysis.rank_change(z, w, [1, 3])
    from scipy.stats import spearmanr

    close(spearman, spearmanr(z, w).statistic)
    close(overlap[1], len(set(np.argsort(-z)[:3]) & set(np.argsort(-w)[:3])) / 3)
    state = analysis.state_change(torch.from_numpy(z), w)
    close(state.relative_l2, np.linalg.norm(w - z) / np.linalg.norm(z))
    close(analysis.summary(z).deviation, z.std(ddof=1))
    with pytest.raises(AttributeError, match="no 'tvv'"):
        analysis.divergence(b, a).tvv  # noqa: B018


def test_geometry_of_the_softmax(rng: np.random.Generator) -> None:
    s, u, t = rng.standard_normal(6), rng.standard_normal(6), 0.7
    phi, p = analysis.softmax_potential(s, t)
    close(phi, t * logsumexp(s / t), ids="LIT-23")
    close(p, softmax(s / t))
    close(analysis.softmax_objective(p, s, t), -phi, ids="LIT-02 LIT-22")
    close(analysis.softmax_dual(s, t, t - phi), -phi, ids="LIT-24")
    close(analysis.fenchel(p, s, t).gap, 0, ids="LIT-25")
    close(analysis.fenchel(p, s, t).spread, 0, ids="LIT-26")
    F = (np.diag(p) - np.outer(p, p)) / t**2
    matrix, rank = analysis.fisher_matrix(p, t)
    close(matrix, F, ids="LIT-27")
    assert rank == 5
    close(analysis.fisher_product(p, u, t), F @ u)
    close(analysis.softmax_jacobian(p, t), t * F, ids="LIT-18 LIT-30")
    value, gradient = analysis.advantage(p, u, t)
    close(value, u - p @ u, ids="LIT-19")
    close(gradient, -t * F @ u, ids="LIT-17 LIT-28")
    close(analysis.natural_gradient(p, u, t), -np.linalg.pinv(F) @ gradient, 1e-9, "LIT-29")
    lower, upper = analysis.jacobian_norm(p)
    masses = [sum(x for k, x in enumerate(p) if subset >> k & 1) for subset in range(64)]
    best = max(4 * mass * (1 - mass) for mass in masses)
    close([lower, upper], best)


def test_certificates(rng: np.random.Generator) -> None:
    S = rng.standard_normal((6, 6))
    T = S + 0.1 * rng.standard_normal((6, 6))
    P, Q = (otattn.coupling(x, method="softmax/exact", tolerance=1e-14) for x in (S, T))
    residual = analysis.gauge(S, T).residual
    bounds, change = analysis.score_bounds(S, T, 1.0, residual), analysis.score_change(S, T, P, Q)
    close(change.l1, np.abs(P - Q).sum())
    close(change.energy, ((S - T) * (P - Q)).sum())
    close(change.jeffreys, change.energy, 1e-9, "CETA-18")
    spec.check("CETA-16 DER-17", change.l1, bounds.sharp)
    spec.check("CETA-16", bounds.sharp, bounds.printed)
    spec.check("DER-18", change.l1, bounds.family)
    close(bounds.sharp, 12 * np.tanh(residual / 2))
    V = rng.standard_normal((6, 3))
    W = V + 0.01
    moved = analysis.row_norm(P @ V, Q @ W)
    close(moved, np.linalg.norm(P @ V - Q @ W, axis=1).max())
    outputs = analysis.output_bounds(bounds, V, W)
    spec.check("DER-19", moved, outputs.sharp)
    spec.check("CETA-17", moved, outputs.printed)
    spec.check("CETA-13", analysis.hull_excess(P @ V, V), 1e-15)
    close(analysis.hull_excess(V + 5, V), 5 + 0 * V.max(), 1.0)
    spec.check("CETA-14", analysis.nonexpansion(P, V, W + V**2), 1 + 1e-12)
    R = softmax(rng.standard_normal((6, 4)), -1)
    found = analysis.receiver(R)
    close(found.mass, R.sum(0), ids="CETA-19")
    close(found.largest, R.sum(0).max() / 1.5)
    X = rng.standard_normal((4, 3))
    close(analysis.mean_shift(found.mass, X, 6), (R @ X).mean(0) - X.mean(0))
    weights, columns, rest = analysis.birkhoff(P)
    rebuilt = sum(w * np.eye(6)[c] for w, c in zip(weights, columns, strict=True))
    close(rebuilt, P, 1e-9, "CETA-05")
    assert rest <= 1e-9


def test_bounds_of_a_row(rng: np.random.Generator) -> None:
    z = 3 * rng.standard_normal(8)
    w = z + 0.2 * rng.standard_normal(8)
    found = analysis.lipschitz(z, w, 0.8)
    close(found.l1, np.abs(softmax(z / 0.8) - softmax(w / 0.8)).sum())
    assert found.l1 <= found.sharp and found.l1 <= found.printed
    directions = rng.standard_normal((8, 5))
    linear = analysis.probe(directions)
    close(linear.norm, np.linalg.norm(directions, axis=1).max())
    close(linear.diameter, max(np.linalg.norm(a - b) for a in directions for b in directions))
    printed, sharp = analysis.drift_bound(linear, [0.1, 0.2])
    close([printed, sharp], [min(2, 0.3 * linear.norm), 2 * np.tanh(0.3 * linear.diameter / 4)])
    step = analysis.saturation(z, w)
    close(step.tail_before, 1 - softmax(z).max())
    assert step.tv <= step.bound and not analysis.saturation_event(step, 1e-9)
    assert analysis.saturation_event(analysis.saturation(40 * z, 40 * z))
    close(analysis.saturated_fraction(np.stack([z, 100 * z])), 0.5)
    limits = analysis.softmax_limits(8, np.ptp(z))
    assert limits.max_least <= softmax(z).max() <= limits.max_most
    close(analysis.two_level(8, 2, 1.5), np.exp(1.5) / (2 * np.exp(1.5) + 6))
    even = analysis.uniformity(z)
    close(even.tv, np.abs(softmax(z) - 1 / 8).sum() / 2)
    assert even.tv <= even.by_range_sharp <= even.by_range or even.tv <= even.by_least_sharp


def test_layernorm(rng: np.random.Generator) -> None:
    u, gamma, beta, dy = (
        rng.standard_normal((4, 6)),
        rng.random(6),
        rng.random(6),
        rng.standard_normal((4, 6)),
    )
    x, g, b = (torch.from_numpy(a).requires_grad_() for a in (u, gamma, beta))
    expected = torch.nn.functional.layer_norm(x, (6,), g, b, 1e-5)
    expected.backward(torch.from_numpy(dy))
    y, sigma = analysis.layernorm(u, gamma, beta)
    close(y, expected.detach(), ids="TOT-56")
    close(sigma, np.sqrt(u.var(1) + 1e-5))
    for found, right in zip(analysis.layernorm_backward(u, dy, gamma), (x.grad, g.grad, b.grad), strict=True):
        close(found, right)
    J = analysis.layernorm_jacobian(u[0])
    right = torch.autograd.functional.jacobian(
        lambda t: torch.nn.functional.layer_norm(t, (6,)), torch.from_numpy(u[0])
    )
    close(J, right)
    spectrum = analysis.layernorm_geometry(u[0], gamma)
    close(spectrum.exact, np.linalg.norm(np.diag(gamma) @ J, 2), 1e-6, "TOT-59")
    y, rho = analysis.rmsnorm(u, gamma)
    close(y, gamma * u / np.sqrt((u**2).mean(1, keepdims=True) + 1e-5))
    close(rho, np.sqrt((u**2).mean(1) + 1e-5))
    rms = torch.autograd.functional.jacobian(
        lambda t: torch.nn.functional.rms_norm(t, (6,), torch.from_numpy(gamma), 1e-5), torch.from_numpy(u[0])
    )
    close(analysis.rmsnorm_geometry(u[0], gamma).exact, np.linalg.norm(rms, 2), 1e-6)
    change = analysis.rmsnorm_change(u[0], u[1], gamma)
    close(change.measured, np.linalg.norm(y[0] - y[1]))
    assert change.measured <= change.sharp <= change.printed * (1 + 1e-12)
    y = analysis.layernorm(u, gamma, beta)[0]
    change = analysis.layernorm_change(u[0], u[1], gamma)
    close(change.measured, np.linalg.norm(y[0] - y[1]))
    assert change.measured <= change.sharp


def test_positions(rng: np.random.Generator) -> None:
    x, positions = rng.standard_normal((4, 6)), rng.standard_normal((4, 6))
    wq, wk = rng.standard_normal((6, 3)), rng.standard_normal((6, 3))
    costs, parts = analysis.absolute_costs(x, positions, wq, wk, 0.5)
    close(costs, -((x + positions) @ wq) @ ((x + positions) @ wk).T / 0.5)
    close(parts.sum(0), costs)
    q, k, bias = rng.standard_normal((3, 4)), rng.standard_normal((5, 4)), rng.standard_normal(7)
    i, j = np.arange(3)[:, None], np.arange(5)
    close(analysis.relative_costs(q, k, bias, 0.5), -(q @ k.T + bias[i - j + 4]) / 0.5)
    close(analysis.relative_costs(q, k, bias, 0.5, "outside"), -(q @ k.T) / 0.5 - bias[i - j + 4])
    close(analysis.alibi_bias(0.3, 3, 5), -0.3 * np.abs(i - j), ids="LIT-12")
    R = analysis.rope_matrix(6, 2.5)
    close(R @ R.T, np.eye(6), ids="TOT-51")
    p, V = softmax(rng.standard_normal(5)), rng.standard_normal((5, 2))
    close(analysis.context(p, V), p @ V, ids="LIT-15")


def test_layers(rng: np.random.Generator) -> None:
    wq, wk, wv, wo = (0.4 * rng.standard_normal((6, 6)) for _ in range(4))
    bias = rng.standard_normal(6)
    layer = analysis.AttentionLayer(
        wq, wk, wv, wo, output_bias=bias, heads=2, method="softmax/exact", tolerance=1e-13
    )
    x = rng.standard_normal((5, 6))
    q, k, v = ((x @ w).reshape(5, 2, 3).transpose(1, 0, 2) for w in (wq, wk, wv))
    mixed, aux = otattn.attention(
        q, k, v, method="softmax/exact", tolerance=1e-13, return_aux=otattn.AuxRequest(coupling=True)
    )
    found = layer.forward(x)
    close(found.coupling, aux.coupling, 1e-10)
    right = mixed.transpose(1, 0, 2).reshape(5, 6) @ wo + bias
    close(found.out, right, 1e-10)
    close(found.parts.sum(0) + bias, found.out)
    close(found.receiver, 1, 1e-10, "CETA-11")
    close(layer.block(x, 0.5), x + 0.5 * found.out, ids="CETA-27")
    normed = analysis.layernorm(x)[0]
    close(layer.block(x, 0.5, (None, None, 1e-5)), x + 0.5 * layer.forward(normed).out)
    means = layer.mean_change(x)
    assert means.receiver_error <= 1e-10 and means.value_change <= 1e-10
    x2 = x + 0.01 * rng.standard_normal(x.shape)
    output, weights = layer.change(x, x2)
    close(output.measured, np.linalg.norm(found.out - layer.forward(x2).out, axis=1).max())
    assert output.measured <= output.sharp and weights.measured <= weights.sharp
    moved = layer.block_change(x, x2, 0.5, (None, None, 1e-5))
    assert moved.measured <= moved.sharp
    # The same runs by their projections, heads side by side.
    runs = [tuple(a @ w for w in (wq, wk, wv)) for a in (x, x2)]
    for by_weights, by_runs in zip((output, weights), layer.projected_change(*runs), strict=True):
        close(by_runs.measured, by_weights.measured)
        close(by_runs.sharp, by_weights.sharp, 1e-8, "TOT-55")
    moved = layer.projected_block_change(*runs, x, x2)
    close(moved.measured, np.linalg.norm(x + found.out - x2 - layer.forward(x2).out, axis=1).max())
    assert moved.measured <= moved.sharp <= moved.printed
    kept = 0.7 * x + 0.3 * found.coupling[0] @ x
    close(analysis.identity_core(found.coupling[0], x, 0.3), kept, 1e-9, "CETA-28")
    close(analysis.spectral_norm(wq), np.linalg.norm(wq, 2), 1e-8)
    P = found.coupling[0]
    dout, dscores = rng.standard_normal((5, 3)), rng.standard_normal((5, 5))
    chain = analysis.head_chain_rule(q[0], k[0], v[0], P, dout, dscores)
    close(chain.dp, dout @ v[0].T)
    close(chain.dv, P.T @ dout)
    close(chain.dq, dscores @ k[0] / np.sqrt(3), ids="LIT-21")
    close(chain.dk, dscores.T @ q[0] / np.sqrt(3), ids="LIT-21")
    with pytest.raises(ValueError, match="heads is 4"):
        analysis.AttentionLayer(wq, wk, wv, wo, heads=4)
    with pytest.raises(ValueError, match=r"x has shape \(5, 4\), wanted \(queries, width=6\)"):
        layer.forward(x[:, :4])


def test_whose_plan_is_this(rng: np.random.Generator) -> None:
    scores = rng.standard_normal((8, 8))
    for method in ("softmax/relaxed:0.5", "sparsemax", "softmax/exact"):
        coupling = otattn.coupling(scores, method=method, temperature=0.5, tolerance=1e-12)
        best = analysis.identify(scores, coupling)[0]
        assert best.explains and best.distance <= 1e-6
        again = otattn.coupling(scores, method=best.method, tolerance=1e-12)
        assert np.abs(again - coupling).max() <= 1e-6
    assert analysis.causality_leak(scores, "softmax/online:2", 4) == 0
    assert analysis.causality_leak(scores, "softmax/capped:1.2", 4) > 0
    with pytest.raises(ValueError, match=r"coupling has shape \(1, 1, 3, 3\)"):
        analysis.identify(scores, np.eye(3))
