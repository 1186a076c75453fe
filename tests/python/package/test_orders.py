"""Weights and derivatives of entmax at orders next to 1 and above 2, against numbers of 50 digits."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np
import otattn
import pytest
import torch

ORDERS = [1 + 1e-8, 1 + 1e-5, 1.001, 1.1, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0, 50.0, 200.0, 0.999, 1 - 1e-8, 0.5]
ROWS = {
    "drawn": np.random.default_rng(0).standard_normal(9) * 2,
    "ties": np.array([0.25, 0.0, 0.25, -1e-6, 0.0, -0.25, 2.0**-30, -1.0]),
    "issue": np.array([0.1, 0.0]),
    "far": np.array([1000.0, 999.5, 997.0]),
    # At order 5 the threshold lies 4e-30 below the first score, and rounds to it.
    "beside": 1
    + 2.0**-52
    * np.array([0, 2880525930308, 90537507984, 81, 4809188330834, 917033595980, 24552444724, 1375731229360]),
}
UNIT = {np.dtype(np.float64): 2.0**-53, np.dtype(np.float32): 2.0**-24}
POINT = torch.tensor([[1.0, 0.5, -2.0]], dtype=torch.float64)


def _halved(low: Decimal, high: Decimal, excess: Any) -> Decimal:
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


def _exact(row: tuple[float, ...], order: float, tau: float = 1.0) -> list[Decimal]:
    """Weights of mass 1: up to order 2 by their level, above by the weight at the edge of the support."""
    k, x = Decimal(order) - 1, [(Decimal(s) - Decimal(max(row))) / Decimal(tau) for s in row]
    if k <= 1:

        def at(level: Decimal) -> list[Decimal]:
            inside = [1 + k * (y - level) for y in x]
            return [(z.ln() / k).exp() if z > 0 else Decimal(0) for z in inside]

        top = (1 - (-k * Decimal(len(x)).ln()).exp()) / k
        return at(_halved(Decimal(0), top, lambda level: sum(at(level)) - 1))

    def beside(edge: Decimal, q: Decimal) -> list[Decimal]:
        delta = (k * q.ln()).exp() if q > 0 else Decimal(0)
        inside = [(y - edge) * k + delta for y in x]
        return [
            q if y == edge else (z.ln() / k).exp() if y > edge else Decimal(0)
            for y, z in zip(x, inside, strict=True)
        ]

    edge = min(y for y in x if sum(beside(y, Decimal(0))) < 1)
    return beside(edge, _halved(Decimal(0), Decimal(1), lambda q: 1 - sum(beside(edge, q))))


@functools.lru_cache(maxsize=256)
def exact(row: tuple[float, ...], order: float) -> np.ndarray[Any, Any]:
    with localcontext() as context:
        context.prec = 50
        return np.array([float(p) for p in _exact(row, order)])


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("order", ORDERS)
def test_weights_are_exact_to_rounding(order: float, kind: Any) -> None:
    for row in ROWS.values():
        scores = row.astype(kind)
        wanted = exact(tuple(scores.tolist()), order)
        unit = UNIT[scores.dtype]
        # 3.2 of the numeric policy, and the rounding of the sum, which the others leave to the least.
        allowed = unit * (wanted * (8 + 3 * (scores.max() - scores.astype(float))) + 2)
        found = {
            backend: otattn.coupling(scores[None], method="entmax", alpha=order, backend=backend)[0]
            for backend in ("cpu", "plain")
        }
        one = np.ones((1, 1, 1, 1), kind)
        keys, values = scores.reshape(1, 1, -1, 1), np.eye(len(scores), dtype=kind)[None, None]
        found["attention"] = otattn.attention(one, keys, values, method="entmax", alpha=order, scale=1.0)[
            0, 0, 0
        ]
        alpha, x = torch.tensor(order, dtype=torch.float64), torch.from_numpy(scores)
        options: dict[str, Any] = {"method": "entmax", "alpha": alpha, "backend": "torch:blocks"}
        found["torch"] = otattn.coupling(x[None], **options)[0].numpy()
        one, values = (
            torch.ones_like(x).reshape(1, 1, -1, 1)[:, :, :1],
            torch.eye(len(x), dtype=x.dtype)[None, None],
        )
        out = otattn.attention(one, x[None, None, :, None], values, scale=1.0, **options)
        found["torch attention"] = out[0, 0, 0].numpy()
        found["rows"] = otattn.activations.entmax_bisect(
            np.stack([scores, scores]), alpha=np.array([[order], [1.0]])
        )[0]
        for name, weights in found.items():
            assert (np.abs(weights - wanted) <= allowed).all(), (name, weights - wanted)
            assert ((weights > 0) == (wanted > 0)).all() or order < 2, name


@pytest.mark.parametrize("order", [3.0, 5.0, 10.0, 50.0])
def test_a_weight_rises_with_its_score(order: float) -> None:
    steps = np.linspace(0.0, 1.05 / (order - 1), 400)
    for kind in (np.float64, np.float32):
        scores = np.stack([steps, 0 * steps], 1).astype(kind)
        weights = otattn.coupling(scores[None], method="entmax", alpha=order)[0]
        assert (np.diff(weights[:, 0].astype(float)) >= 0).all()
        assert np.abs(weights.sum(1) - 1).max() <= 4 * UNIT[scores.dtype]


def test_many_keys_at_high_orders() -> None:
    rng = np.random.default_rng(5)
    for scores in (rng.standard_normal(20000), 1e-9 * rng.standard_normal(5000), np.zeros(5000)):
        for order in (3.0, 10.0):
            found = {
                b: otattn.coupling(scores[None], method="entmax", alpha=order, backend=b)[0]
                for b in ("cpu", "plain")
            }
            assert np.abs(found["cpu"] - found["plain"]).max() <= 8 * 2.0**-53
            assert abs(found["cpu"].sum() - 1) <= 8 * 2.0**-53


@pytest.mark.parametrize("columns", ["", "/exact", "/capped:1.2"])
def test_certificates_next_to_order_1(columns: str) -> None:
    scores = np.random.default_rng(0).standard_normal((6, 6))
    for order in (1 + 1e-12, 1 + 1e-8, 1 - 1e-8, 1 + 1e-5, 0.999):
        request = otattn.AuxRequest(certificate=True)
        _, aux = otattn.coupling(
            scores,
            method="entmax" + columns,
            alpha=order,
            tolerance=1e-11 if columns else None,
            return_aux=request,
        )
        # Primal and dual are sums of some 40 numbers below 10.
        assert abs(aux.certificate.gap) <= 6 * 10 * (1e-11 if columns else 2.0**-50)
        assert aux.certificate.row_error <= 2.0**-48


# ---- derivatives by the order ------------------------------------------------------------------------


def slope(row: np.ndarray[Any, Any], order: float) -> np.ndarray[Any, Any]:
    """w (g - mean of g under w), g = -L^2 ((y - 1) e^y + 1) / y^2, y = (alpha - 1) L, L = log p."""
    with localcontext() as context:
        context.prec = 50
        k, p = Decimal(order) - 1, _exact(tuple(row.tolist()), order) if order != 1 else None
        if p is None:
            e = [(Decimal(x) - Decimal(row.max())).exp() for x in row.tolist()]
            p = [x / sum(e) for x in e]
        L = [x.ln() if x > 0 else Decimal(0) for x in p]
        w = [((1 - k) * x.ln()).exp() if x > 0 else Decimal(0) for x in p]
        g = [(-(l**2) / 2 if k == 0 else -((k * l - 1) * (k * l).exp() + 1) / k**2) for l in L]
        mean = sum(a * b for a, b in zip(w, g, strict=True)) / sum(w)
        return np.array([float(a * (b - mean)) for a, b in zip(w, g, strict=True)])


@pytest.mark.parametrize("backend", ["cpu", "plain", "torch"])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "order", [1.0, 1 + 1e-12, 1 + 1e-8, 1 - 1e-8, 1 + 1e-5, 0.999, 1.001, 0.7, 1.3, 2.0, 3.0]
)
def test_derivatives_by_the_order(order: float, kind: torch.dtype, backend: str) -> None:
    scores = POINT.to(kind)
    wanted = slope(POINT[0].numpy(), order)
    if order == 1.0:
        assert np.abs(wanted - [0.1925546104, -0.0213734812, -0.1711811292]).max() <= 1e-10
    alpha = torch.tensor(order, dtype=torch.float64, requires_grad=True)

    def plan(x: torch.Tensor) -> torch.Tensor:
        return otattn.coupling(scores, method="entmax", alpha=x, backend=backend)

    weights = plan(alpha)
    found = [torch.autograd.grad(weights[0, j], alpha, retain_graph=True)[0].item() for j in range(3)]
    _, along = torch.func.jvp(plan, (alpha.detach(),), (torch.ones_like(alpha),))
    allowed = 64 * UNIT[np.dtype(str(kind).split(".")[1])]
    assert np.abs(np.array(found) - wanted).max() <= allowed
    assert np.abs(along[0].numpy() - wanted).max() <= allowed


@pytest.mark.parametrize(
    "method", ["entmax/exact", "entmax/capped:1.2", "entmax/prefix", "entmax/online:1.5"]
)
def test_coupled_columns_go_through_order_1(method: str) -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(4, 4, dtype=torch.float64, generator=generator)

    def plan(order: Any) -> torch.Tensor:
        tolerance = None if "online" in method or "prefix" in method else 1e-12
        return otattn.coupling(scores, method=method, alpha=order, tolerance=tolerance)

    step = 1e-4
    wanted = (plan(1 + step) - plan(1 - step)) / (2 * step)
    by_order = []
    for order in (1.0, 1 + 1e-6, 1 - 1e-6):
        alpha = torch.tensor(order, dtype=torch.float64, requires_grad=True)
        upstream = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        (found,) = torch.autograd.grad((plan(alpha) * upstream).sum(), alpha)
        by_order.append(found.item())
    assert np.abs(np.array(by_order) - (wanted * upstream).sum().item()).max() <= 1e-5


def test_a_learned_order_passes_through_1() -> None:
    alpha = torch.tensor(1.0, requires_grad=True)
    q = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    out = otattn.attention(q, q, q, method="entmax", alpha=alpha)
    assert torch.equal(out, otattn.attention(q, q, q))
    assert torch.autograd.grad(out.square().sum(), alpha)[0].isfinite()
    temperature = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    by = [
        torch.autograd.grad(
            otattn.coupling(POINT, method="entmax", alpha=a, temperature=temperature)[0, 0], temperature
        )[0]
        for a in (1.0, 1 + 1e-9, 1 - 1e-9)
    ]
    assert max(abs(x - by[0]) for x in by) <= 1e-7
    with pytest.raises(ValueError, match="fixed rounds of order 1 are those of softmax"):
        otattn.coupling(POINT[:, :1], method="entmax/exact", alpha=alpha.double(), rounds=2).sum().backward()


@pytest.mark.parametrize("order", [1 + 1e-12, 1 + 1e-8, 1 - 1e-8, 1 + 1e-5, 1.001, 1.5, 3.0])
def test_losses_next_to_order_1(order: float) -> None:
    target = torch.tensor([1])
    p = exact(tuple(POINT[0].tolist()), order)
    with localcontext() as context:
        context.prec = 50
        k = Decimal(order) - 1
        entropy = (
            -sum(Decimal(x) * ((k * Decimal(x).ln()).exp() - 1) for x in p.tolist() if x > 0) / k / (1 + k)
        )
    wanted = float(entropy) + float(p @ POINT[0].numpy()) - POINT[0, 1].item()
    for alpha in (order, torch.tensor([[order]], dtype=torch.float64)):
        found = otattn.activations.entmax_bisect_loss(POINT, target, alpha)
        assert abs(found.item() - wanted) <= 1e-15 * 8
    narrow = otattn.activations.entmax_bisect_loss(POINT.float(), target, order)
    assert abs(narrow.item() - wanted) <= 8 * 2.0**-24


@pytest.mark.parametrize("order", [3.0, 10.0, 50.0])
def test_gradients_of_scores_at_high_orders(order: float) -> None:
    row = np.array([0.1, 0.0]) if order < 11 else np.array([0.01, 0.0])
    p = exact(tuple(row.tolist()), order)
    # Of two weights, dp/ds = 1 / (1 / w_1 + 1 / w_2) with w = p^(2 - alpha).
    wanted = 1 / (p ** (order - 2)).sum()
    for alpha in (order, torch.tensor([[order], [1.0]], dtype=torch.float64)):
        for j, sign in ((0, 1), (1, -1)):
            scores = torch.tensor(np.stack([row, row]), requires_grad=True)
            weights = otattn.activations.entmax_bisect(scores, alpha=alpha)
            (found,) = torch.autograd.grad(weights[0, j], scores)
            assert np.abs(found[0].numpy() / wanted - [sign, -sign]).max() <= 1e-12, (alpha, j)


@pytest.mark.parametrize("order", [5.0, 20.0, 50.0, 100.0])
def test_steep_slopes_stay_in_range(order: float) -> None:
    """A weight p of order 50 has the slope p^-48, which leaves f32 for p below 0.16: gradients were NaN."""
    torch.manual_seed(0)
    arrays = torch.randn(3, 2, 16, 8)

    def gradients(dtype: torch.dtype, backend: str | None) -> tuple[torch.Tensor, ...]:
        q, k, v = (x.to(dtype).requires_grad_() for x in arrays)
        out = otattn.attention(q, k, v, method=f"entmax:{order:g}", backend=backend)
        return torch.autograd.grad(out.sin().sum(), (q, k, v))

    wide = gradients(torch.float64, None)
    for dtype, backend, close in [
        (torch.float32, None, 1e-4),
        (torch.float64, "plain", 1e-12),
        (torch.float32, "torch", 1e-4),
        (torch.float64, "torch", 1e-12),
    ]:
        for found, expected in zip(gradients(dtype, backend), wide, strict=True):
            assert float((found - expected).abs().max()) <= close * float(expected.abs().max())


# ---- beside the edge of the support ------------------------------------------------------------------


def beside_edges(order: float, count: int) -> Iterator[tuple[Any, float, Any]]:
    """Rows of scores whose least weight is 1e-8 to 1e-4, temperatures, and gradients by the weights."""
    rng = np.random.default_rng(3)
    k = order - 1
    for _ in range(count):
        tau, p, q = rng.uniform(0.3, 2.0), rng.uniform(0.05, 1.0, 6), 10.0 ** rng.uniform(-8, -4)
        row = rng.uniform(-2, 2) + np.array([*(p / p.sum() * (1 - q)), q]) ** k / k * tau
        none = row.min() - rng.uniform(1e-3, 0.3, 2)
        yield rng.permutation(np.concatenate([row, none])), tau, rng.standard_normal(9)


class Derivatives(NamedTuple):
    """Those of <weights, upstream>, with the sizes of what each is a sum of, and what a rounding does."""

    by_score: Any
    by_temperature: float
    by_order: float
    sizes: tuple[float, float, float]
    amplified: float


def derivatives(p: list[Decimal], row: Any, order: float, temperature: float, upstream: Any) -> Derivatives:
    k, tau = Decimal(order) - 1, Decimal(temperature)
    on = [j for j, y in enumerate(p) if y > 0]
    w = [((1 - k) * p[j].ln()).exp() for j in on]
    u = [Decimal(upstream[j].item()) for j in on]
    mean = sum(a * b for a, b in zip(w, u, strict=True)) / sum(w)
    by_score = np.zeros(len(p))
    by_temperature = by_order = size_of_temperature = size_of_order = Decimal(0)
    for j, slope_, g in zip(on, w, u, strict=True):
        mine = slope_ * (g - mean) / tau
        by_score[j] = mine
        # S over tau from the threshold on, whose place has no say as the gradients add up to 0.
        far = (k * p[j].ln()).exp() / k
        along = p[j] * (1 - k * p[j].ln()) / k**2
        by_temperature -= mine * far
        size_of_temperature += abs(mine) * (far + abs(Decimal(row[j].item())) / tau)
        by_order += (g - mean) * along
        size_of_order += abs((g - mean) * along)
    least = min(range(len(on)), key=lambda j: p[on[j]])
    share = w[least] / sum(w)
    # The least weight q has the roundings of the sum, its slope q^(2 - alpha) (alpha - 2) / q times those.
    amplified = (k - 1) / p[on[least]] * min(share, 1 - share)
    sizes = (float(np.abs(by_score).max()), float(size_of_temperature), float(size_of_order))
    return Derivatives(by_score, float(by_temperature), float(by_order), sizes, float(amplified))


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("backend", ["cpu", "plain", "torch"])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("order", [2.1, 2.25, 2.5, 3.0])
def test_beside_the_edge(order: float, kind: torch.dtype, backend: str, sink: bool) -> None:
    """Weights to rounding, derivatives to what roundings of f64 do to the least weight; a sink as a key."""
    unit = torch.finfo(kind).eps / 2
    for row, tau, upstream in beside_edges(order, 12):
        scores = torch.from_numpy(row).to(kind).requires_grad_()
        up = torch.from_numpy(upstream).to(kind)
        up[-1:] = 0.0 if sink else up[-1:]
        with localcontext() as context:
            context.prec = 50
            p = _exact(tuple(scores.tolist()), order, tau)
            wanted = derivatives(p, scores, order, tau, up)
        alpha, temperature = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (order, tau))
        keys = len(row) - sink
        weights = otattn.coupling(
            scores[None, :keys],
            method="entmax",
            alpha=alpha,
            temperature=temperature,
            sink=scores[-1] if sink else None,
            backend=backend,
        )[0]
        assert np.abs(weights.detach().numpy() - np.array(p, dtype=float)[:keys]).max() <= 8 * unit
        found = torch.autograd.grad((weights * up[:keys]).sum(), (scores, temperature, alpha))
        for x, y, size in zip(found, wanted[:3], wanted.sizes, strict=True):
            off = np.abs(x.numpy().astype(float) - y).max() / size
            assert off <= 8 * unit + 8 * 2.0**-53 * wanted.amplified
